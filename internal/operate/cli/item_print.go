package cli

import (
	"cmp"
	"fmt"
	"text/tabwriter"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

func (a *App) printItems(items []operate.Item, limit int, output string) error {
	return list[operate.Item]{
		rows: items, limit: limit, none: "no items match",
		more:  func(last operate.Item) string { return fmt.Sprintf("continue with --before %d", last.ID) },
		heads: "ID\tSTATE\tWORKSPACE\tDEFINITION\tPRIORITY\tAGE\tATTEMPTS\tNOTE",
		cells: func(i operate.Item) string {
			return fmt.Sprintf("%d\t%s\t%s\t%s\t%d\t%s\t%d\t%s", i.ID, i.Status, named(i.Workspace, i.WorkspaceID),
				named(i.WorkflowDefinition, i.WorkflowDefinitionID), i.Priority, view.Shortly(i.Age), i.AttemptCount, noteOf(i))
		},
	}.print(a, output)
}

func (a *App) printLetters(letters []operate.Item, limit int, output string) error {
	return list[operate.Item]{
		rows: letters, limit: limit, none: "no dead letters match",
		more: func(operate.Item) string {
			return fmt.Sprintf("showing the latest %d failures: see --limit", limit)
		},
		heads: "ID\tSTATE\tWORKSPACE\tDEFINITION\tFAILED AGO\tATTEMPTS\tWORKFLOW\tERROR",
		cells: func(l operate.Item) string {
			ended := "not started"
			if l.RunID != "" {
				ended = l.ExecutionStatus
			}
			return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s", l.ID, l.State, named(l.Workspace, l.WorkspaceID),
				named(l.WorkflowDefinition, l.WorkflowDefinitionID), view.Shortly(l.EndedAgo()), l.AttemptCount, ended,
				cut(l.LastError))
		},
	}.print(a, output)
}

// noteOf returns what an operator most likely wants to know about an item in its state.
func noteOf(i operate.Item) string {
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
	line("state", "%s%s", i.Status, map[bool]string{true: ", start not answered"}[i.Unanswered])
	known("waits", h.Waits)
	known("dead letter", i.State)
	line(i.Kind.String(), "%s", view.Printable(i.WorkflowID))
	line("run", "%s", view.OrNone(view.Printable(i.RunID)))
	line("execution", "%s, %s", i.ExecutionID, cmp.Or(i.ExecutionStatus, "not created yet"))
	known("in Temporal", inTemporal)
	line("workspace", "%s (%s)", orGone(i.Workspace), i.WorkspaceID)
	line("definition", "%s (%s), version %s", orGone(i.WorkflowDefinition), i.WorkflowDefinitionID,
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
