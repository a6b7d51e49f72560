package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// skipsPending is why an action on PENDING items leaves one alone.
const skipsPending = "claimed or ended in the meantime, or a start is unanswered"

var itemStates = []string{"pending", "claimed", "dispatched", "completed", "failed", "cancelled"}

func (a *App) itemsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "items",
		Short: "List, show, cancel, retry, purge and await queue items",
		Long: "List, show, cancel, retry, purge and await queue items.\n" +
			"A REF is an item ID, an execution ID, a workflow ID (execution-...), or the workflow ID that an item names,\n" +
			"which finds it until it has ended.",
	}
	group.AddCommand(a.itemsListCommand(),
		a.itemShowCommand("Show an item with its params and timeline", itemsOf),
		a.itemsCancelCommand(), a.itemsRetryCommand(), a.itemsGiveUpCommand(), a.itemsPurgeCommand(), a.itemsWaitCommand())
	return group
}

func (a *App) itemsListCommand() *cobra.Command {
	var filter filterFlags
	var states []string
	var before int64
	command := &cobra.Command{
		Use: "list", Short: "List items, newest first", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			if err := checkStates(states, itemStates); err != nil {
				return err
			}
			ids, err := filter.findItems(ctx, store, operate.ItemFilter{States: states, Before: before}, a.limit)
			if err != nil {
				return err
			}
			items, err := store.Items(ctx, ids, nil, false)
			if err != nil {
				return err
			}
			return list[operate.Item]{
				rows: items, none: "no items match",
				more:  func(last operate.Item) string { return fmt.Sprintf("continue with --before %d", last.ID) },
				heads: "ID\tSTATE\tWORKSPACE\tDEFINITION\tPRIORITY\tAGE\tATTEMPTS\tNOTE",
				cells: func(i operate.Item) string {
					return fmt.Sprintf("%d\t%s\t%s\t%s\t%d\t%s\t%d\t%s", i.ID, i.Status, named(i.Workspace, i.WorkspaceID),
						named(i.WorkflowDefinition, i.WorkflowDefinitionID), i.Priority, view.Shortly(i.Age), i.AttemptCount, noteOf(i))
				},
			}.print(a)
		}),
	}
	filter.add(command.Flags())
	command.Flags().StringSliceVar(&states, "state", nil, "only in these states: "+strings.Join(itemStates, ", "))
	command.Flags().Int64Var(&before, "before", 0, "only rows with a lower ID, for the next page")
	a.complete(command, map[string]completion{"state": fixed(itemStates...)})
	return a.lists(command)
}

// itemShowCommand shows the item that find finds.
func (a *App) itemShowCommand(short string, find findItems) *cobra.Command {
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
			return a.show(struct {
				operate.Item
				history
			}{items[0], known}, func() error { return a.printItem(items[0], known, "") })
		}),
	}
	return a.reads(command)
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

func (a *App) itemsGiveUpCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "give-up", past: "gave up", skips: "started, ended or claimed in the meantime",
		short: "Give up items whose starts keep failing",
		long: "Give-up ends PENDING items that keep their slot while they wait for another try. A replica looks each up\n" +
			"in Temporal: if its workflow is there, the item is DISPATCHED; if Temporal does not find it for a minute,\n" +
			"it becomes a dead letter. Filters select only items that wait after a try.",
		found: operate.ItemFilter{States: []string{"PENDING"}, Keeps: true},
		named: func(_ context.Context, _ *operate.Store, item operate.Item, _ string, _ *outcome) (bool, error) {
			switch {
			case item.Status == "PENDING" && item.Unanswered:
				return true, nil
			case item.Status == "PENDING":
				return false, fmt.Errorf("item %d waits and holds no slot: use `pgdispatch items cancel %d`", item.ID, item.ID)
			case item.Status == "CLAIMED":
				return false, fmt.Errorf("item %d is CLAIMED: a replica is trying to start it; try again in a moment", item.ID)
			}
			return false, fmt.Errorf("item %d is %s: only items that wait for another try can be given up", item.ID,
				item.Status)
		},
		act: done((*operate.Store).GiveUpItems),
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
	limit int) (_ []int64, err error) {
	if filter.Filter, err = f.read(ctx, store); err != nil {
		return nil, err
	}
	return store.FindItems(ctx, filter, limit)
}

// Exit codes of `items wait`.
const (
	exitFailed    = 2
	exitCancelled = 3
	exitOpen      = 4
)

func (a *App) itemsWaitCommand() *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use: "wait REF...", Short: "Wait until items have ended, and print their results", Args: cobra.MinimumNArgs(1),
		Long: "Wait until items have ended, and print their results. It is notified with `settings set notify-ended\n" +
			"true`, and otherwise looks every 2 seconds or more often.\n\n" +
			"Exit code 0: all are COMPLETED. 2: at least one is FAILED. 3: none is FAILED, at least one is CANCELLED.\n" +
			"4: at least one had not ended at the timeout. 1: any other error. A replay is another item.",
		Example: "  pgdispatch items wait 4711 --timeout 5m",
	}
	command.RunE = a.withTarget(func(ctx context.Context, database postgres.Target, store *operate.Store,
		args []string) error {
		if timeout < 0 {
			return fmt.Errorf("--timeout is %s: it must be positive, such as 5m, or 0 for no limit", timeout)
		}
		items, err := itemsOf(ctx, store, args, false)
		if err != nil {
			return err
		}
		waiter := operate.Waiter{Store: store, Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return database.Connect(ctx, postgres.ListenerSettings(), nil)
		}}
		if open := notEnded(items); open > 0 && a.onTerminal() {
			fmt.Fprintf(a.Stderr, "waiting for the end of %s; Ctrl-C stops waiting\n", view.Counted(open, "item"))
		}
		late, err := waitFor(ctx, &waiter, items, timeout)
		if err != nil {
			return err
		}
		if items, err = itemsOf(ctx, store, strings.Split(numbers(items), ", "), true); err != nil {
			return err
		}
		return errors.Join(a.printEnds(items), endOf(items, late, timeout))
	})
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait at most, such as 5m (default: no limit)")
	return a.reads(command)
}

// notEnded counts the items that are still due to end.
func notEnded(items []operate.Item) int {
	open := 0
	for _, i := range items {
		if i.Status != "COMPLETED" && i.Status != "FAILED" && i.Status != "CANCELLED" {
			open++
		}
	}
	return open
}

// waitFor waits for at most the timeout, unless that is 0, and reports whether it was over first.
func waitFor(ctx context.Context, w *operate.Waiter, items []operate.Item, timeout time.Duration) (bool, error) {
	late := errors.New("timeout")
	waiting, cancel := ctx, func() {}
	if timeout > 0 {
		waiting, cancel = context.WithTimeoutCause(ctx, timeout, late)
	}
	defer cancel()
	err := w.Run(waiting, items)
	switch {
	case ctx.Err() != nil:
		return false, errors.New("it was interrupted")
	case errors.Is(context.Cause(waiting), late) && err != nil:
		return true, nil
	}
	return false, err
}

// endOf returns an error with the exit code for what became of the items, or nil if all are COMPLETED.
func endOf(items []operate.Item, late bool, timeout time.Duration) error {
	count := map[string]int{}
	for _, i := range items {
		count[i.Status]++
	}
	open := notEnded(items)
	ofAll := func(n int) string { return view.Number(int64(n)) + " of " + view.Counted(len(items), "item") }
	switch {
	case open > 0 && late:
		return coded{fmt.Errorf("%s had not ended after %s", ofAll(open), timeout), exitOpen}
	case count["FAILED"] > 0:
		return coded{errors.New(ofAll(count["FAILED"]) + " failed"), exitFailed}
	case count["CANCELLED"] > 0:
		return coded{errors.New(ofAll(count["CANCELLED"]) + " cancelled"), exitCancelled}
	}
	return nil
}

func (a *App) printEnds(items []operate.Item) error {
	return list[operate.Item]{rows: items, heads: "ID\tSTATE\tRESULT", cells: func(i operate.Item) string {
		return fmt.Sprintf("%d\t%s\t%s", i.ID, i.Status, view.Printable(cmp.Or(resultOf(i), i.LastError, "-")))
	}}.print(a)
}
