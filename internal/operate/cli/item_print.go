package cli

import (
	"cmp"
	"fmt"
	"text/tabwriter"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// noteOf returns what an operator most likely wants to know about an item in its state.
func noteOf(i operate.Item) string {
	switch {
	case i.Status == "PENDING" && i.GivenUpBy != "":
		return "given up by " + view.Printable(i.GivenUpBy) + "; a replica will look it up"
	case i.Status == "PENDING" && i.Tries > 0:
		return cut(fmt.Sprintf("failed %s while others started: %s", view.Counted(i.Tries, "time"), i.LastError))
	case i.Uncertain:
		return cut(i.LastError + "; its start may have been sent")
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
	case i.Status == "DISPATCHED" && i.MissingSince != nil:
		return "not found in Temporal since " + stamp(*i.MissingSince)
	case i.Status == "DISPATCHED":
		return "run " + view.OrNone(view.Printable(i.RunID))
	case i.LastError != "":
		return cut(i.LastError)
	}
	return "-"
}

// printItem prints an item with its history. inTemporal is what Temporal says about its workflow, or empty.
func (a *App) printItem(i operate.Item, h history, inTemporal string) error {
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	line := lines(table)
	known := func(name, value string) {
		if value != "" {
			line(name, "%s", view.Printable(value))
		}
	}
	line("item", "%d", i.ID)
	line("state", "%s%s", i.Status, map[bool]string{true: ", keeps its slot"}[i.Unanswered])
	known("waits", h.Waits)
	known("dead letter", i.State)
	line(i.Kind.String(), "%s", view.Printable(i.WorkflowID))
	line("run", "%s", view.OrNone(view.Printable(i.RunID)))
	line("execution", "%s, %s", i.ExecutionID, cmp.Or(i.ExecutionStatus, "not created yet"))
	known("in Temporal", inTemporal)
	if i.MissingSince != nil {
		line("missing", "Temporal does not find it since %s; it keeps its slot", stamp(*i.MissingSince))
	}
	line("workspace", "%s (%s)", named(i.Workspace, "deleted"), i.WorkspaceID)
	line("definition", "%s (%s), version %s", named(i.WorkflowDefinition, "deleted"), i.WorkflowDefinitionID,
		numberOr(i.Version, "?"))
	line("priority", "%d", i.Priority)
	if i.Status == "PENDING" && i.DueIn > 0 {
		line("runs at", "%s, in %s", stamp(i.RunAt), view.Shortly(i.DueIn))
	}
	if i.StartBefore != nil {
		line("start before", "%s", stamp(*i.StartBefore))
	}
	known("idempotency key", i.IdempotencyKey)
	known("enqueue key", i.EnqueueKey)
	known("limit key", i.LimitKey)
	known("traceparent", i.Traceparent)
	line("params", "%s", view.Printable(string(i.Params)))
	line("attempts", "%d, of which %d failed; at most %s failures", i.AttemptCount, i.FailureCount,
		numberOr(i.MaxAttempts, "?"))
	if i.Status == "CLAIMED" && i.LeaseExpiresAt != nil {
		line("held by", "%s, until %s", view.Printable(i.ClaimedBy), stamp(*i.LeaseExpiresAt))
	}
	known("namespace", i.Namespace)
	known("watched by", i.Watcher)
	if i.Stop != "" {
		known("stop", view.StopOf(i))
	}
	known("error", i.LastError)
	known("result", resultOf(i))
	if i.ReplayOf != nil {
		line("replay of", "%d", *i.ReplayOf)
	}
	if i.ReplayID != nil {
		line("replayed as", "%d, execution %s, %s", *i.ReplayID, view.OrNone(i.ReplayExecutionID),
			view.OrNone(i.ReplayStatus))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout)
	for _, e := range h.Story {
		fmt.Fprintf(a.Stdout, "%s  %s\n", e.At.UTC().Format("2006-01-02T15:04:05.000Z"), view.Printable(e.What))
	}
	return nil
}

// resultOf returns a workflow's result, or the note why it is not kept. It returns "" if there is neither.
func resultOf(i operate.Item) string {
	if i.Result != nil {
		return string(i.Result)
	}
	return i.ResultNote
}
