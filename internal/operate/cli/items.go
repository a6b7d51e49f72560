package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// itemBatch is the number of items that one transaction cancels or retries.
const itemBatch = 500

var itemStates = []string{"pending", "claimed", "dispatched", "completed", "failed", "cancelled"}

func (a *App) itemsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "items",
		Short: "List, show, cancel and retry items of the queue",
		Long: "List, show, cancel and retry items of the queue.\n" +
			"A REF is an item's ID, an execution's ID, or a workflow's (execution-...).",
	}
	for _, command := range []*cobra.Command{a.itemsListCommand(), a.itemsShowCommand(), a.itemsCancelCommand(), a.itemsRetryCommand()} {
		config.AddFlags(command.Flags(), config.DatabaseOptions)
		group.AddCommand(command)
	}
	return group
}

func (a *App) itemsListCommand() *cobra.Command {
	var filter filterFlags
	var states []string
	var before int64
	var output string
	var limit int
	command := &cobra.Command{
		Use: "list", Short: "List items, the newest first", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			if err := errors.Join(checkOutput(output), checkLimit(limit), checkBefore(before)); err != nil {
				return err
			}
			for n, state := range states {
				if states[n] = strings.ToUpper(state); !slices.Contains(itemStates, strings.ToLower(state)) {
					return fmt.Errorf("--state is %.80q: it must be some of %s", state, strings.Join(itemStates, ", "))
				}
			}
			ids, err := filter.findItems(ctx, store, operate.ItemFilter{States: states, Before: before}, limit)
			if err != nil {
				return err
			}
			items, err := store.QueueItems(ctx, ids, nil, false)
			if err != nil {
				return err
			}
			if output == "json" {
				return a.printJSON(items)
			}
			return a.printItems(items, limit)
		}),
	}
	filter.add(command.Flags(), "enqueued")
	command.Flags().StringSliceVar(&states, "state", nil, "only in these states: "+strings.Join(itemStates, ", "))
	command.Flags().Int64Var(&before, "before", 0, "only items with a lower ID: the next page")
	command.Flags().IntVar(&limit, "limit", 50, "how many to list, 1 to 10000")
	addOutput(command.Flags(), &output)
	a.complete(command, map[string]completion{"workspace": a.workspaceNames, "state": fixed(itemStates...)})
	return command
}

func (a *App) itemsShowCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use: "show REF", Short: "Show an item with its params, and tell its story", Args: cobra.ExactArgs(1),
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			items, err := itemsOf(ctx, store, args, true)
			if err != nil {
				return err
			}
			failures, err := store.Failures(ctx, items[0].ID)
			if err != nil {
				return err
			}
			story := view.Story(items[0], failures)
			if output == "json" {
				return a.printJSON(struct {
					operate.QueueItem
					Failures []operate.Failure `json:"failures"`
					Story    []view.Event      `json:"story"`
				}{items[0], failures, story})
			}
			return a.printItem(items[0], story)
		}),
	}
	addOutput(command.Flags(), &output)
	return command
}

func (a *App) itemsCancelCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "cancel", past: "cancelled", short: "Withdraw items that have not been claimed",
		long: "Cancel withdraws PENDING items: they are never started. What is claimed or dispatched already is not touched: its\n" +
			"workflow is ended by `pgdispatch executions cancel`.",
		found: operate.ItemFilter{States: []string{"PENDING"}},
		named: func(_ context.Context, _ *operate.Store, item operate.QueueItem, _ string, _ *itemOutcome) (bool, error) {
			switch {
			case item.Status == "PENDING" && !item.OutcomeUnknown:
				return true, nil
			case item.Status == "PENDING":
				return false, fmt.Errorf("item %d cannot be cancelled now: a start was sent that Temporal has not answered, so its workflow may be running: ask for its end, `pgdispatch executions cancel %d`", item.ID, item.ID)
			case item.Status == "CLAIMED" || item.Status == "DISPATCHED":
				return false, fmt.Errorf("item %d is %s, and only a PENDING one is cancelled: ask for its workflow's end, `pgdispatch executions cancel %d`", item.ID, item.Status, item.ID)
			}
			return false, fmt.Errorf("item %d is %s already: only a PENDING one is cancelled", item.ID, item.Status)
		},
		act: (*operate.Store).CancelItems,
	})
}

func (a *App) itemsRetryCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "retry", past: "retried", short: "Have items that wait for their next attempt run at once",
		long: "Retry makes a PENDING item due now, whatever its run_at says: one that failed and waits for its next attempt, or one that\n" +
			"is for later. A FAILED item that is named is replayed as a new one, like `pgdispatch dead replay` does. With filters, only\n" +
			"items that failed and wait are meant. Limits hold as for any other item, and earlier failures still count.",
		found: operate.ItemFilter{States: []string{"PENDING"}, WaitsAgain: true},
		named: func(ctx context.Context, store *operate.Store, item operate.QueueItem, who string, o *itemOutcome) (bool, error) {
			switch item.Status {
			case "PENDING":
				return true, nil
			case "FAILED":
				if store == nil { // dry check
					return false, nil
				}
				replay, err := store.Replay(ctx, item.ExecutionID, who)
				if err == nil {
					o.Replayed = append(o.Replayed, operate.Replayed{ID: item.ID, ReplayID: replay.ID, ReplayExecutionID: replay.ExecutionID})
				}
				return false, err
			}
			return false, fmt.Errorf("item %d is %s: only one that is PENDING or FAILED is retried; enqueue another to run it once more", item.ID, item.Status)
		},
		act: (*operate.Store).RetryItems,
	})
}

// itemAction is an action on items.
type itemAction struct {
	verb, past, short, long string
	// found selects the items that a filter may match.
	found operate.ItemFilter
	// named reports whether act applies to the item. If another action applies, it carries that out and returns false.
	// An error means that nothing can be done. With a nil store it only checks.
	named func(ctx context.Context, store *operate.Store, item operate.QueueItem, who string, o *itemOutcome) (bool, error)
	act   func(store *operate.Store, ctx context.Context, items []int64, who string) ([]int64, error)
}

func (a *App) itemActionCommand(action itemAction) *cobra.Command {
	var filter filterFlags
	var output, who string
	var all, dryRun, yes bool
	command := &cobra.Command{Use: action.verb + " {REF... | filters | --all}", Short: action.short, Long: action.long}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := errors.Join(checkOutput(output), checkWho(who)); err != nil {
			return err
		}
		switch filtered := all || filter.given(); {
		case len(args) > 0 && filtered:
			return errors.New("name items or filter them, not both at once")
		case len(args) > 0:
			return a.actOnNamedItems(ctx, store, action, args, who, output, dryRun)
		case !filtered:
			return fmt.Errorf("say what to %s: IDs, filters (--workspace, --definition, --error, --since, --until), or --all", action.verb)
		}
		ids, err := filter.findItems(ctx, store, action.found, 0)
		if err != nil || dryRun || len(ids) == 0 {
			return errors.Join(err, a.printItemOutcome(action, output, itemOutcome{Matched: len(ids), DryRun: dryRun}, err))
		}
		if !yes {
			if err := a.confirm(command.InOrStdin(), action.verb+" "+itemCount(len(ids))); err != nil {
				return err
			}
		}
		o := itemOutcome{Matched: len(ids)}
		slices.Reverse(ids) // oldest first
		return a.actOnItems(ctx, store, action, ids, who, output, o)
	})
	filter.add(command.Flags(), "enqueued")
	command.Flags().BoolVar(&all, "all", false, "all that can be, without a filter")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "say how many it would be, and do nothing")
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	addWho(command.Flags(), &who)
	addOutput(command.Flags(), &output)
	a.complete(command, map[string]completion{"workspace": a.workspaceNames})
	return command
}

// actOnNamedItems acts on all named items, or on none if the action is not possible for one of them.
func (a *App) actOnNamedItems(ctx context.Context, store *operate.Store, action itemAction, refs []string, who, output string, dryRun bool) error {
	items, err := itemsOf(ctx, store, refs, false)
	if err != nil {
		return err
	}
	o, ids := itemOutcome{Matched: len(items), DryRun: dryRun}, []int64{}
	for _, item := range items {
		if _, err := action.named(ctx, nil, item, who, &o); err != nil {
			return err
		}
	}
	if dryRun {
		return a.printItemOutcome(action, output, o, nil)
	}
	for _, item := range items {
		forAct, err := action.named(ctx, store, item, who, &o)
		if err != nil {
			return errors.Join(err, a.printItemOutcome(action, output, o, err))
		}
		if forAct {
			ids = append(ids, item.ID)
		}
	}
	return a.actOnItems(ctx, store, action, ids, who, output, o)
}

// actOnItems acts on items in batches and prints the result, even after an error.
func (a *App) actOnItems(ctx context.Context, store *operate.Store, action itemAction, ids []int64, who, output string, o itemOutcome) error {
	for batch := range slices.Chunk(ids, itemBatch) {
		done, err := action.act(store, ctx, batch, who)
		o.Done = append(o.Done, done...)
		if err != nil {
			return errors.Join(err, a.printItemOutcome(action, output, o, err))
		}
	}
	return a.printItemOutcome(action, output, o, nil)
}

// findItems returns the IDs of the matching items, newest first. Zero means no limit.
func (f *filterFlags) findItems(ctx context.Context, store *operate.Store, filter operate.ItemFilter, limit int) ([]int64, error) {
	since, until, err := f.read(ctx, store)
	if err != nil {
		return nil, err
	}
	filter.Workspace, filter.Definition, filter.Error, filter.Since, filter.Until = f.workspace, f.definition, f.errorText, since, until
	return store.FindItems(ctx, filter, limit)
}

// itemsOf reads the named items in the given order. An item that does not exist is an error.
func itemsOf(ctx context.Context, store *operate.Store, refs []string, withParams bool) ([]operate.QueueItem, error) {
	items, executions, err := parseRefs(refs)
	if err != nil {
		return nil, err
	}
	found, err := store.QueueItems(ctx, items, executions, withParams)
	if err != nil {
		return nil, err
	}
	return inOrder(refs, found, func(i operate.QueueItem) (int64, string) { return i.ID, i.ExecutionID },
		"is no item: it was never committed, or its retention is over; `pgdispatch items list` lists them")
}
