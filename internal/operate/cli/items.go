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

// skipsPending is why an action on PENDING items leaves one alone.
const skipsPending = "claimed or ended in the meantime, or a start is unanswered"

var itemStates = []string{"pending", "claimed", "dispatched", "completed", "failed", "cancelled"}

func (a *App) itemsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "items",
		Short: "List, show, cancel, retry, purge and await queue items",
		Long: "List, show, cancel, retry, purge and await queue items.\n" +
			"A REF is an item ID, an execution ID, or a workflow ID (execution-...).",
	}
	for _, command := range []*cobra.Command{a.itemsListCommand(), a.itemsShowCommand(), a.itemsCancelCommand(),
		a.itemsRetryCommand(), a.itemsPurgeCommand(), a.itemsWaitCommand()} {
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
		Use: "list", Short: "List items, newest first", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			if err := errors.Join(checkOutput(output), checkLimit(limit), checkBefore(before)); err != nil {
				return err
			}
			if err := checkStates(states, itemStates); err != nil {
				return err
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
	command.Flags().Int64Var(&before, "before", 0, "only rows with a lower ID, for the next page")
	command.Flags().IntVar(&limit, "limit", 50, "maximum number of rows, 1 to 10000")
	addOutput(command.Flags(), &output)
	a.complete(command, map[string]completion{"workspace": a.workspaceNames, "state": fixed(itemStates...)})
	return command
}

func (a *App) itemsShowCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use: "show REF", Short: "Show an item with its params and timeline", Args: cobra.ExactArgs(1),
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
			signals, err := store.Signals(ctx, items[0].ExecutionID, nil, shownSignals)
			if err != nil {
				return err
			}
			story := view.Story(items[0], failures, signals)
			if output == "json" {
				return a.printJSON(struct {
					operate.QueueItem
					Failures []operate.Failure `json:"failures"`
					Signals  []operate.Signal  `json:"signals"`
					Story    []view.Event      `json:"story"`
				}{items[0], failures, signals, story})
			}
			return a.printItem(items[0], story)
		}),
	}
	addOutput(command.Flags(), &output)
	return command
}

func (a *App) itemsCancelCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "cancel", past: "cancelled", skips: skipsPending, short: "Cancel items that have not been claimed",
		long: "Cancel withdraws PENDING items, so that they never start. It does not affect items that are CLAIMED or\n" +
			"DISPATCHED: to end their workflows, use `pgdispatch executions cancel`.",
		found: operate.ItemFilter{States: []string{"PENDING"}},
		named: func(_ context.Context, _ *operate.Store, item operate.QueueItem, _ string, _ *itemOutcome) (bool, error) {
			switch {
			case item.Status == "PENDING" && !item.Unanswered:
				return true, nil
			case item.Status == "PENDING":
				return false, fmt.Errorf("item %d cannot be cancelled: Temporal has not answered a start, so the workflow may be "+
					"running; use `pgdispatch executions cancel %d`", item.ID, item.ID)
			case item.Status == "CLAIMED" || item.Status == "DISPATCHED":
				return false, fmt.Errorf(
					"item %d is %s, only PENDING items can be cancelled; use `pgdispatch executions cancel %d`", item.ID, item.Status,
					item.ID)
			}
			return false, fmt.Errorf("item %d is already %s: only PENDING items can be cancelled", item.ID, item.Status)
		},
		act: (*operate.Store).CancelItems,
	})
}

func (a *App) itemsRetryCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "retry", past: "retried", skips: skipsPending,
		short: "Retry items immediately, without waiting for their next attempt",
		long: "Retry makes a PENDING item due now, regardless of its run_at: an item that waits for its next attempt, or\n" +
			"a scheduled one. A FAILED item that is given as a REF is replayed as a new item, as by `pgdispatch dead\n" +
			"replay`. Filters select only items that failed and wait for their next attempt. Limits apply as usual,\n" +
			"and earlier failures still count.",
		found: operate.ItemFilter{States: []string{"PENDING"}, WaitsAgain: true},
		named: func(ctx context.Context, store *operate.Store, item operate.QueueItem, who string,
			o *itemOutcome) (bool, error) {
			switch item.Status {
			case "PENDING":
				return true, nil
			case "FAILED":
				if store == nil { // dry check
					return false, nil
				}
				replay, err := store.Replay(ctx, item.ExecutionID, who)
				if err == nil {
					o.Replayed = append(o.Replayed,
						operate.Replayed{ID: item.ID, ReplayID: replay.ID, ReplayExecutionID: replay.ExecutionID})
				}
				return false, err
			}
			return false, fmt.Errorf("item %d is %s: only PENDING or FAILED items can be retried; enqueue a new item to run "+
				"it again", item.ID, item.Status)
		},
		act: (*operate.Store).RetryItems,
	})
}

func (a *App) itemsPurgeCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "purge", past: "purged", skips: "deleted in the meantime",
		short: "Purge items that have ended, with their history",
		long: "Purge deletes COMPLETED, FAILED and CANCELLED items with their executions, failures and signals, in\n" +
			"transactions of 500. It never deletes an item that waits or runs: withdraw it with `pgdispatch items\n" +
			"cancel`, or end its workflow with `pgdispatch executions terminate`, first. A purged item's idempotency\n" +
			"key is free again. " + needsOwner,
		found: operate.ItemFilter{States: []string{"COMPLETED", "FAILED", "CANCELLED"}}, stated: true,
		named: func(_ context.Context, _ *operate.Store, item operate.QueueItem, _ string, _ *itemOutcome) (bool, error) {
			switch item.Status {
			case "PENDING", "CLAIMED", "DISPATCHED":
				return false, fmt.Errorf("item %d is %s, only items that have ended can be purged; use `pgdispatch items "+
					"cancel` or `executions terminate` first", item.ID, item.Status)
			}
			return true, nil
		},
		act: func(store *operate.Store, ctx context.Context, items []int64, who string) ([]int64, error) {
			purged, err := store.PurgeItems(ctx, items, who)
			return purged, explainOwner(err)
		},
	})
}

// checkStates turns the values of --state into upper case, as rows have them.
func checkStates(states, known []string) error {
	for n, state := range states {
		if states[n] = strings.ToUpper(state); !slices.Contains(known, strings.ToLower(state)) {
			return fmt.Errorf("--state is %.80q: it must be one or more of %s", state, strings.Join(known, ", "))
		}
	}
	return nil
}

// itemAction is an action on items.
type itemAction struct {
	verb, past, short, long string
	// skips says why act may leave an item alone.
	skips string
	// found selects the items that a filter may match. stated adds --state, to match those in some of its states only.
	found  operate.ItemFilter
	stated bool
	// named reports whether act applies to the item. If another action applies, it carries that out and returns false.
	// An error means that nothing can be done. With a nil store it only checks.
	named func(ctx context.Context, store *operate.Store, item operate.QueueItem, who string, o *itemOutcome) (bool, error)
	act   func(store *operate.Store, ctx context.Context, items []int64, who string) ([]int64, error)
}

func (a *App) itemActionCommand(action itemAction) *cobra.Command {
	var filter filterFlags
	var states []string
	var output, who string
	var all, dryRun, yes bool
	known := strings.Split(strings.ToLower(strings.Join(action.found.States, ",")), ",")
	command := &cobra.Command{Use: action.verb + " {REF... | filters | --all}", Short: action.short, Long: action.long}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := errors.Join(checkOutput(output), checkWho(who), checkStates(states, known)); err != nil {
			return err
		}
		found := action.found
		if len(states) > 0 {
			found.States = states
		}
		switch filtered := all || filter.given() || len(states) > 0; {
		case len(args) > 0 && filtered:
			return errors.New("give either REFs or filters, not both")
		case len(args) > 0:
			return a.actOnNamedItems(ctx, store, action, args, who, output, dryRun)
		case !filtered:
			return fmt.Errorf("nothing selected to %s: give REFs, filters (--workspace, --definition, --error, --since, "+
				"--until), or --all", action.verb)
		}
		ids, err := filter.findItems(ctx, store, found, 0)
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
	if action.stated {
		command.Flags().StringSliceVar(&states, "state", nil, "only in these states: "+strings.Join(known, ", "))
		a.complete(command, map[string]completion{"state": fixed(known...)})
	}
	command.Flags().BoolVar(&all, "all", false, "all eligible items")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "print how many would be affected, without changing anything")
	command.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	addWho(command.Flags(), &who)
	addOutput(command.Flags(), &output)
	a.complete(command, map[string]completion{"workspace": a.workspaceNames})
	return command
}

// actOnNamedItems acts on all named items, or on none if the action is not possible for one of them.
func (a *App) actOnNamedItems(ctx context.Context, store *operate.Store, action itemAction, refs []string, who,
	output string, dryRun bool) error {
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
func (a *App) actOnItems(ctx context.Context, store *operate.Store, action itemAction, ids []int64, who, output string,
	o itemOutcome) error {
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
func (f *filterFlags) findItems(ctx context.Context, store *operate.Store, filter operate.ItemFilter,
	limit int) ([]int64, error) {
	since, until, err := f.read(ctx, store)
	if err != nil {
		return nil, err
	}
	filter.Workspace, filter.Definition, filter.Error, filter.Since, filter.Until = f.workspace, f.definition, f.errorText,
		since, until
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
		"is not an item: it was never committed, or retention deleted it; see `pgdispatch items list`")
}
