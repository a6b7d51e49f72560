package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

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
	group.AddCommand(a.itemsListCommand(),
		a.itemShowCommand("Show an item with its params and timeline", itemsOf),
		a.itemsCancelCommand(), a.itemsRetryCommand(), a.itemsPurgeCommand(), a.itemsWaitCommand())
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
			if err := checkStates(states, itemStates); err != nil {
				return err
			}
			ids, err := filter.findItems(ctx, store, operate.ItemFilter{States: states, Before: before}, limit)
			if err != nil {
				return err
			}
			items, err := store.Items(ctx, ids, nil, false)
			if err != nil {
				return err
			}
			return a.printItems(items, limit, output)
		}),
	}
	filter.add(command.Flags())
	command.Flags().StringSliceVar(&states, "state", nil, "only in these states: "+strings.Join(itemStates, ", "))
	command.Flags().Int64Var(&before, "before", 0, "only rows with a lower ID, for the next page")
	addLimit(command.Flags(), &limit)
	addOutput(command.Flags(), &output)
	a.complete(command, map[string]completion{"state": fixed(itemStates...)})
	return command
}

// itemShowCommand shows the item that find finds.
func (a *App) itemShowCommand(short string, find findItems) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use: "show REF", Short: short, Args: cobra.ExactArgs(1),
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			items, err := find(ctx, store, args, true)
			if err != nil {
				return err
			}
			known, err := historyOf(ctx, store, items[0])
			if err != nil {
				return err
			}
			return a.show(output, struct {
				operate.Item
				history
			}{items[0], known}, func() error { return a.printItem(items[0], known, "") })
		}),
	}
	addOutput(command.Flags(), &output)
	return command
}

// history is what happened to an item, and why it waits.
type history struct {
	Failures []operate.Failure `json:"failures"`
	Signals  []operate.Signal  `json:"signals"` // the newest
	Story    []view.Event      `json:"story"`
	Waits    string            `json:"waits,omitempty"`
}

func historyOf(ctx context.Context, store *operate.Store, item operate.Item) (h history, err error) {
	if h.Failures, err = store.Failures(ctx, item.ID); err != nil {
		return h, err
	}
	if h.Signals, err = store.Signals(ctx, item.ExecutionID, nil, shownSignals); err != nil {
		return h, err
	}
	h.Story = view.Story(item, h.Failures, h.Signals)
	h.Waits, err = view.WhyItWaits(ctx, store, item)
	return h, err
}

func (a *App) itemsCancelCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "cancel", past: "cancelled", skips: skipsPending, short: "Cancel items that have not been claimed",
		long: "Cancel withdraws PENDING items, so that they never start. To end what runs, use `pgdispatch executions\n" +
			"cancel`.",
		found: operate.ItemFilter{States: []string{"PENDING"}},
		named: func(_ context.Context, _ *operate.Store, item operate.Item, _ string, _ *outcome) (bool, error) {
			switch {
			case item.Status == "PENDING" && !item.Unanswered:
				return true, nil
			case item.Status == "PENDING":
				return false, fmt.Errorf("item %d cannot be cancelled: Temporal has not answered a start, so it may be "+
					"running; use `pgdispatch executions cancel %d`", item.ID, item.ID)
			case item.Status == "CLAIMED" || item.Status == "DISPATCHED":
				return false, fmt.Errorf(
					"item %d is %s, only PENDING items can be cancelled; use `pgdispatch executions cancel %d`", item.ID, item.Status,
					item.ID)
			}
			return false, fmt.Errorf("item %d is already %s: only PENDING items can be cancelled", item.ID, item.Status)
		},
		act: done((*operate.Store).CancelItems),
	})
}

func (a *App) itemsRetryCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "retry", past: "retried", skips: skipsPending,
		short: "Retry items immediately, without waiting for their next attempt",
		long: "Retry makes PENDING items due now, scheduled ones too; a FAILED one, named by REF, is replayed.\n" +
			"Filters select only items that wait for their next attempt. Earlier failures still count.",
		found: operate.ItemFilter{States: []string{"PENDING"}, WaitsAgain: true},
		named: func(ctx context.Context, store *operate.Store, item operate.Item, who string,
			o *outcome) (bool, error) {
			switch item.Status {
			case "PENDING":
				return true, nil
			case "FAILED":
				if store == nil { // dry check
					return false, nil
				}
				return false, o.replay(ctx, store, item, who)
			}
			return false, fmt.Errorf("item %d is %s: only PENDING or FAILED items can be retried; enqueue a new item to run "+
				"it again", item.ID, item.Status)
		},
		act: done((*operate.Store).RetryItems),
	})
}

func (a *App) itemsPurgeCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "purge", past: "purged", skips: "deleted in the meantime",
		short: "Purge items that have ended, with their history",
		long: "Purge deletes COMPLETED, FAILED and CANCELLED items with their executions, failures and signals, in\n" +
			"transactions of 500, and frees their idempotency keys. " + needsOwner,
		found: operate.ItemFilter{States: []string{"COMPLETED", "FAILED", "CANCELLED"}}, stated: true,
		named: func(_ context.Context, _ *operate.Store, item operate.Item, _ string, _ *outcome) (bool, error) {
			switch item.Status {
			case "PENDING", "CLAIMED", "DISPATCHED":
				return false, fmt.Errorf("item %d is %s, only items that have ended can be purged; use `pgdispatch items "+
					"cancel` or `executions terminate` first", item.ID, item.Status)
			}
			return true, nil
		},
		act: done(func(store *operate.Store, ctx context.Context, items []int64, who string) ([]int64, error) {
			purged, err := store.PurgeItems(ctx, items, who)
			return purged, explainOwner(err)
		}),
	})
}

// done returns an itemAction's act that calls change.
func done(change func(*operate.Store, context.Context, []int64, string) ([]int64, error)) func(context.Context,
	*operate.Store, []int64, string, *outcome) error {
	return func(ctx context.Context, store *operate.Store, items []int64, who string, o *outcome) error {
		changed, err := change(store, ctx, items, who)
		o.Done = append(o.Done, changed...)
		return err
	}
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
