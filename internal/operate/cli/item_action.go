package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

const (
	// itemBatch is the number of items that one transaction changes.
	itemBatch = 500
	// outcomesShown is the number of items up to which the replay of each is printed.
	outcomesShown = 20
)

// itemAction is an action on items.
type itemAction struct {
	verb, past, short, long string
	// skips says why act may leave an item alone.
	skips string
	// found selects the items that a filter may match. stated adds --state, to match those in some of its states only.
	found  operate.ItemFilter
	stated bool
	// dead restricts the action to dead letters, and a filter to the open ones, by when they failed; found is not used.
	dead bool
	// named reports whether act applies to the item. If another action applies, it carries that out and returns false.
	// An error means that nothing can be done. With a nil store it only checks. If named is nil, act applies to all.
	named func(ctx context.Context, store *operate.Store, item operate.Item, who string, o *outcome) (bool, error)
	// act changes a batch of items and adds those that it has changed to the outcome.
	act func(ctx context.Context, store *operate.Store, items []int64, who string, o *outcome) error
}

// counted returns the number of items in words.
func (action itemAction) counted(n int) string {
	if action.dead {
		return view.Counted(n, "dead letter")
	}
	return view.Counted(n, "item")
}

// outcome is the result of an action on items.
type outcome struct {
	Matched   int                `json:"matched"`
	DryRun    bool               `json:"dry_run"`
	Done      []int64            `json:"done,omitempty"`
	Replayed  []operate.Replayed `json:"replayed,omitempty"`
	Before    []operate.Replayed `json:"replayed_before,omitempty"`
	Discarded []int64            `json:"discarded,omitempty"`
}

// replay replays an item that failed.
func (o *outcome) replay(ctx context.Context, store *operate.Store, item operate.Item, who string) error {
	replay, err := store.Replay(ctx, item.ExecutionID, who)
	if err != nil {
		return err
	}
	replayed := operate.Replayed{ID: item.ID, ReplayID: replay.ID, ReplayExecutionID: replay.ExecutionID}
	if replay.Replayed {
		o.Replayed = append(o.Replayed, replayed)
	} else {
		o.Before = append(o.Before, replayed)
	}
	return nil
}

// itemActionFlags are the flags of an action on items.
type itemActionFlags struct {
	filter           filterFlags
	states           []string
	all, dryRun, yes bool
}

func (a *App) itemActionCommand(action itemAction) *cobra.Command {
	var f itemActionFlags
	known := strings.Split(strings.ToLower(strings.Join(action.found.States, ",")), ",")
	command := &cobra.Command{Use: action.verb + " {REF... | filters | --all}", Short: action.short, Long: action.long}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := checkStates(f.states, known); err != nil {
			return err
		}
		switch filtered := f.all || f.filter.given() || len(f.states) > 0; {
		case len(args) > 0 && filtered:
			return errors.New("give either REFs or filters, not both")
		case len(args) > 0:
			return a.actOnNamedItems(ctx, store, action, args, f)
		case !filtered:
			return fmt.Errorf("nothing selected to %s: give REFs, filters (--workspace, --definition, --error, --since, "+
				"--until), or --all", action.verb)
		}
		ids, err := action.find(ctx, store, f)
		if err != nil || f.dryRun || len(ids) == 0 {
			return errors.Join(err, a.printOutcome(action, outcome{Matched: len(ids), DryRun: f.dryRun}, err))
		}
		if !f.yes {
			if err := a.confirm(command.InOrStdin(), action.verb+" "+action.counted(len(ids))); err != nil {
				return err
			}
		}
		// Act only on the items that were counted. Later ones, such as failed replays, were not confirmed.
		slices.Reverse(ids) // oldest first
		return a.actOnItems(ctx, store, action, ids, f, outcome{Matched: len(ids)})
	})
	f.filter.add(command.Flags())
	if action.stated {
		command.Flags().StringSliceVar(&f.states, "state", nil, "only in these states: "+strings.Join(known, ", "))
		a.complete(command, map[string]completion{"state": fixed(known...)})
	}
	command.Flags().BoolVar(&f.all, "all", false, "all that are eligible")
	command.Flags().BoolVar(&f.dryRun, "dry-run", false, "print how many would be affected, without changing anything")
	command.Flags().BoolVar(&f.yes, "yes", false, "skip the confirmation")
	return a.changes(command)
}

// find returns the IDs of the items that the flags match, the newest or latest failure first.
func (action itemAction) find(ctx context.Context, store *operate.Store, f itemActionFlags) ([]int64, error) {
	if action.dead {
		return f.filter.findLetters(ctx, store, "open", 0)
	}
	found := action.found
	if len(f.states) > 0 {
		found.States = f.states
	}
	return f.filter.findItems(ctx, store, found, 0)
}

// actOnNamedItems acts on all named items, or on none if the action is not possible for one of them.
func (a *App) actOnNamedItems(ctx context.Context, store *operate.Store, action itemAction, refs []string,
	f itemActionFlags) error {
	find := itemsOf
	if action.dead {
		find = lettersOf
	}
	items, err := find(ctx, store, refs, false)
	if err != nil {
		return err
	}
	o, ids := outcome{Matched: len(items), DryRun: f.dryRun}, []int64{}
	applies := action.named
	if applies == nil {
		applies = func(context.Context, *operate.Store, operate.Item, string, *outcome) (bool, error) { return true, nil }
	}
	for _, item := range items {
		if _, err := applies(ctx, nil, item, a.who, &o); err != nil {
			return err
		}
	}
	if f.dryRun {
		return a.printOutcome(action, o, nil)
	}
	for _, item := range items {
		forAct, err := applies(ctx, store, item, a.who, &o)
		if err != nil {
			return errors.Join(err, a.printOutcome(action, o, err))
		}
		if forAct {
			ids = append(ids, item.ID)
		}
	}
	return a.actOnItems(ctx, store, action, ids, f, o)
}

// actOnItems acts on items in batches and prints the result, even after an error.
func (a *App) actOnItems(ctx context.Context, store *operate.Store, action itemAction, ids []int64, f itemActionFlags,
	o outcome) (err error) {
	for batch := range slices.Chunk(ids, itemBatch) {
		if err = action.act(ctx, store, batch, a.who, &o); err != nil {
			break
		}
	}
	return errors.Join(err, a.printOutcome(action, o, err))
}

// printOutcome prints the result. It prints nothing if the action failed without any effect, because the error says so.
func (a *App) printOutcome(action itemAction, o outcome, err error) error {
	done := len(o.Done) + len(o.Replayed) + len(o.Discarded)
	switch {
	case err != nil && done+len(o.Before) == 0:
		return nil
	case a.output == "json":
		return a.printJSON(o)
	case o.DryRun:
		fmt.Fprintf(a.Stdout, "would %s %s\n", action.verb, action.counted(o.Matched))
		return nil
	case o.Matched == 0 && action.dead:
		fmt.Fprintf(a.Stdout, "nothing to %s: no open dead letter matches\n", action.verb)
		return nil
	case o.Matched == 0:
		fmt.Fprintf(a.Stdout, "nothing to %s: no item matches\n", action.verb)
		return nil
	}
	if o.Matched <= outcomesShown {
		for _, r := range o.Replayed {
			fmt.Fprintf(a.Stdout, "%d replayed as %d, execution %s\n", r.ID, r.ReplayID,
				view.OrNone(r.ReplayExecutionID))
		}
		for _, r := range o.Before {
			fmt.Fprintf(a.Stdout, "%d was already replayed as %d\n", r.ID, r.ReplayID)
		}
	}
	fmt.Fprintf(a.Stdout, "%s %s of %s\n", action.past, view.Number(int64(done)), action.counted(o.Matched))
	if left := o.Matched - done - len(o.Before); left > 0 && err == nil {
		fmt.Fprintf(a.Stdout, "skipped %d: %s\n", left, action.skips)
	}
	return nil
}
