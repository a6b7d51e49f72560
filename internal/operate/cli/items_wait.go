package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// Exit codes of `items wait`.
const (
	exitFailed    = 2
	exitCancelled = 3
	exitOpen      = 4
)

func (a *App) itemsWaitCommand() *cobra.Command {
	var output string
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
		if items, err = itemsOf(ctx, store, args, true); err != nil {
			return err
		}
		return errors.Join(a.printEnds(items, output), endOf(items, late, timeout))
	})
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait at most, such as 5m (default: no limit)")
	addOutput(command.Flags(), &output)
	return command
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

func (a *App) printEnds(items []operate.Item, output string) error {
	if output == "json" {
		return a.printJSON(items)
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tRESULT")
	for _, i := range items {
		result := view.Printable(resultOf(i))
		if result == "" {
			result = view.OrNone(view.Printable(i.LastError))
		}
		fmt.Fprintf(table, "%d\t%s\t%s\n", i.ID, i.Status, result)
	}
	return table.Flush()
}
