package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// itemOutcome is the result of an action on items.
type itemOutcome struct {
	Matched  int                `json:"matched"`
	DryRun   bool               `json:"dry_run"`
	Done     []int64            `json:"done,omitempty"`
	Replayed []operate.Replayed `json:"replayed,omitempty"`
}

// printItemOutcome prints the result. It prints nothing if the action failed without any effect, because the error says
// so.
func (a *App) printItemOutcome(action itemAction, output string, o itemOutcome, err error) error {
	done := len(o.Done) + len(o.Replayed)
	switch {
	case err != nil && done == 0:
		return nil
	case output == "json":
		return a.printJSON(o)
	case o.DryRun:
		fmt.Fprintf(a.Stdout, "would %s %s\n", action.verb, itemCount(o.Matched))
		return nil
	case o.Matched == 0:
		fmt.Fprintf(a.Stdout, "nothing to %s: no item matches\n", action.verb)
		return nil
	}
	for _, r := range o.Replayed {
		fmt.Fprintf(a.Stdout, "%d failed and was replayed as item %d, workflow execution-%s\n", r.ID, r.ReplayID,
			view.OrNone(r.ReplayExecutionID))
	}
	fmt.Fprintf(a.Stdout, "%s %d of %s\n", action.past, done, itemCount(o.Matched))
	if left := o.Matched - done; left > 0 && err == nil {
		fmt.Fprintf(a.Stdout, "skipped %d: %s\n", left, action.skips)
	}
	return nil
}

func itemCount(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}

func (a *App) printItems(items []operate.QueueItem, limit int) error {
	if len(items) == 0 {
		fmt.Fprintln(a.Stdout, "no items match")
		return nil
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tWORKSPACE\tDEFINITION\tPRIORITY\tAGE\tATTEMPTS\tNOTE")
	for _, i := range items {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%s\t%d\t%s\n", i.ID, i.Status, named(i.Workspace, i.WorkspaceID),
			named(i.WorkflowDefinition, i.WorkflowDefinitionID), i.Priority, view.Shortly(i.Age), i.AttemptCount, noteOf(i))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(items) == limit {
		fmt.Fprintf(a.Stdout, "there may be more; continue with --before %d\n", items[len(items)-1].ID)
	}
	return nil
}

// noteOf returns what an operator most likely wants to know about an item in its state.
func noteOf(i operate.QueueItem) string {
	switch {
	case i.Status == "PENDING" && i.Unanswered:
		return "start not answered; Temporal will be asked again"
	case i.Status == "PENDING" && i.DueIn > 0 && i.LastError != "":
		return cut(fmt.Sprintf("retry in %s: %s", view.Shortly(i.DueIn), i.LastError))
	case i.Status == "PENDING" && i.DueIn > 0:
		return "due in " + view.Shortly(i.DueIn)
	case i.Status == "CLAIMED" && i.LeaseIsOver:
		return "lease expired; held by " + view.Printable(i.ClaimedBy)
	case i.Status == "CLAIMED":
		return "held by " + view.Printable(i.ClaimedBy)
	case i.Status == "DISPATCHED":
		return "run " + view.OrNone(view.Printable(i.RunID))
	case i.LastError != "":
		return cut(i.LastError)
	}
	return "-"
}

func (a *App) printItem(i operate.QueueItem, story []view.Event) error {
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	line := lines(table)
	line("item", "%d", i.ID)
	line("state", "%s%s", i.Status, map[bool]string{true: ", start not answered"}[i.Unanswered])
	line("workflow", "%s", i.WorkflowID())
	line("run", "%s", view.OrNone(view.Printable(i.RunID)))
	line("workspace", "%s (%s)", orGone(i.Workspace), i.WorkspaceID)
	line("definition", "%s (%s)", orGone(i.WorkflowDefinition), i.WorkflowDefinitionID)
	line("priority", "%d", i.Priority)
	if i.Status == "PENDING" && i.DueIn > 0 {
		line("runs at", "%s, in %s", stamp(i.RunAt), view.Shortly(i.DueIn))
	}
	if i.IdempotencyKey != "" {
		line("idempotency key", "%s", view.Printable(i.IdempotencyKey))
	}
	if i.EnqueueKey != "" {
		line("enqueue key", "%s", view.Printable(i.EnqueueKey))
	}
	if i.LimitKey != "" {
		line("limit key", "%s", view.Printable(i.LimitKey))
	}
	if i.Traceparent != "" {
		line("traceparent", "%s", view.Printable(i.Traceparent))
	}
	line("params", "%s", view.Printable(string(i.Params)))
	line("attempts", "%d, of which %d failed; at most %s failures", i.AttemptCount, i.FailureCount,
		orQuestion(i.MaxAttempts))
	if i.Status == "CLAIMED" && i.LeaseExpiresAt != nil {
		line("held by", "%s, until %s", view.Printable(i.ClaimedBy), stamp(*i.LeaseExpiresAt))
	}
	if i.Namespace != "" {
		line("namespace", "%s", view.Printable(i.Namespace))
	}
	if i.Watcher != "" {
		line("watched by", "%s", view.Printable(i.Watcher))
	}
	if i.LastError != "" {
		line("error", "%s", view.Printable(i.LastError))
	}
	if shown := showResult(i.Result, i.ResultNote); shown != "" {
		line("result", "%s", shown)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout)
	for _, e := range story {
		fmt.Fprintf(a.Stdout, "%s  %s\n", e.At.UTC().Format("2006-01-02T15:04:05.000Z"), view.Printable(e.What))
	}
	return nil
}

func orQuestion(n *int) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
