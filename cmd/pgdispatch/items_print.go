package main

import (
	"cmp"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// itemOutcome is what was done to items.
type itemOutcome struct {
	Matched  int              `json:"matched"`
	DryRun   bool             `json:"dry_run"`
	Done     []int64          `json:"done,omitempty"`
	Replayed []claim.Replayed `json:"replayed,omitempty"`
}

// printItemOutcome says what was done; nothing, where an error says it already and nothing came of it.
func (a *app) printItemOutcome(action itemAction, output string, o itemOutcome, err error) error {
	done := len(o.Done) + len(o.Replayed)
	switch {
	case err != nil && done == 0:
		return nil
	case output == "json":
		return a.printJSON(o)
	case o.DryRun:
		fmt.Fprintf(a.stdout, "would %s %s\n", action.verb, itemCount(o.Matched))
		return nil
	case o.Matched == 0:
		fmt.Fprintf(a.stdout, "nothing to %s: no item matches\n", action.verb)
		return nil
	}
	for _, r := range o.Replayed {
		fmt.Fprintf(a.stdout, "%d failed for good: item %d stands for it, workflow execution-%s\n", r.ID, r.ReplayID, orNone(r.ReplayExecutionID))
	}
	fmt.Fprintf(a.stdout, "%s %d of %s\n", action.past, done, itemCount(o.Matched))
	if left := o.Matched - done; left > 0 && err == nil {
		fmt.Fprintf(a.stdout, "left out %d: claimed or ended meanwhile, or a start was sent that nobody answered\n", left)
	}
	return nil
}

func itemCount(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}

func (a *app) printItems(items []claim.QueueItem, limit int) error {
	if len(items) == 0 {
		fmt.Fprintln(a.stdout, "no items match")
		return nil
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tWORKSPACE\tDEFINITION\tPRIORITY\tAGE\tATTEMPTS\tNOTE")
	for _, i := range items {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%s\t%d\t%s\n", i.ID, i.Status, named(i.Workspace, i.WorkspaceID),
			named(i.WorkflowDefinition, i.WorkflowDefinitionID), i.Priority, shortly(i.Age), i.AttemptCount, noteOf(i))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(items) == limit {
		fmt.Fprintf(a.stdout, "there may be more: go on with --before %d\n", items[len(items)-1].ID)
	}
	return nil
}

// noteOf says what an operator would ask first about an item in its state.
func noteOf(i claim.QueueItem) string {
	switch {
	case i.Status == "PENDING" && i.OutcomeUnknown:
		return "a start was sent that nobody answered; it is asked for again"
	case i.Status == "PENDING" && i.DueIn > 0 && i.LastError != "":
		return cut(fmt.Sprintf("again in %s: %s", shortly(i.DueIn), i.LastError))
	case i.Status == "PENDING" && i.DueIn > 0:
		return "due in " + shortly(i.DueIn)
	case i.Status == "CLAIMED" && i.LeaseIsOver:
		return "its lease is over: held by " + printable(i.ClaimedBy)
	case i.Status == "CLAIMED":
		return "held by " + printable(i.ClaimedBy)
	case i.Status == "DISPATCHED":
		return "run " + orNone(printable(i.RunID))
	case i.LastError != "":
		return cut(i.LastError)
	}
	return "-"
}

// event is one thing that happened to an item.
type event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// storyOf tells what happened to an item, as far as rows remember it: of several claims, only the last is known.
func storyOf(i claim.QueueItem, failures []claim.Failure) []event {
	story := []event{}
	tell := func(at *time.Time, format string, args ...any) {
		if at != nil {
			story = append(story, event{*at, fmt.Sprintf(format, args...)})
		}
	}
	if i.ReplayOf != nil {
		tell(&i.CreatedAt, "inserted, as a replay of item %d", *i.ReplayOf)
	} else {
		tell(&i.CreatedAt, "inserted")
	}
	if i.AttemptCount != 1 || i.ClaimedAt == nil { // else the last claim, below, was the first one too
		tell(i.PreparedAt, "claimed for the first time; its execution is made")
	}
	for _, f := range failures {
		tell(&f.FailedAt, "failure %d, at attempt %d, on %s: %s", f.Failure, f.Attempt, orNone(f.Replica), f.Error)
	}
	switch {
	case i.Status == "CLAIMED":
		tell(i.ClaimedAt, "claimed by %s, attempt %d", i.ClaimedBy, i.AttemptCount)
		if i.LeaseIsOver {
			tell(i.LeaseExpiresAt, "the lease ran out; another replica takes it over")
		}
	case i.ClaimedAt != nil && i.AttemptCount == 1:
		tell(i.ClaimedAt, "claimed, attempt 1")
	case i.ClaimedAt != nil:
		tell(i.ClaimedAt, "claimed for the last time, attempt %d", i.AttemptCount)
	}
	tell(i.StartedAt, "started: workflow %s, run %s", i.WorkflowID(), orNone(i.RunID))
	if i.Stop != "" {
		tell(i.StopRequestedAt, "%s", stopOf(i))
	}
	switch i.Status {
	case "COMPLETED", "CANCELLED":
		tell(i.FinishedAt, "%s", i.Status)
	case "FAILED":
		ended := "failed for good: "
		if i.RunID != "" {
			ended = fmt.Sprintf("the workflow ended, %s: ", i.ExecutionStatus)
		}
		tell(i.FinishedAt, "%s%s", ended, i.LastError)
	}
	switch {
	case i.ReplayID != nil:
		tell(i.MarkedAt, "replayed by %s, as item %d", i.MarkedBy, *i.ReplayID)
	case i.MarkedAt != nil:
		tell(i.MarkedAt, "discarded by %s", i.MarkedBy)
	}
	slices.SortStableFunc(story, func(a, b event) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return story
}

func (a *app) printItem(i claim.QueueItem, story []event) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	line("item", "%d", i.ID)
	line("state", "%s%s", i.Status, map[bool]string{true: ", a start was sent that nobody answered"}[i.OutcomeUnknown])
	line("workflow", "%s", i.WorkflowID())
	line("run", "%s", orNone(printable(i.RunID)))
	line("workspace", "%s (%s)", orGone(i.Workspace), i.WorkspaceID)
	line("definition", "%s (%s)", orGone(i.WorkflowDefinition), i.WorkflowDefinitionID)
	line("priority", "%d", i.Priority)
	if i.Status == "PENDING" && i.DueIn > 0 {
		line("runs", "%s, in %s", stamp(i.RunAt), shortly(i.DueIn))
	}
	if i.IdempotencyKey != "" {
		line("idempotency key", "%s", printable(i.IdempotencyKey))
	}
	if i.Traceparent != "" {
		line("traceparent", "%s", printable(i.Traceparent))
	}
	line("params", "%s", printable(string(i.Params)))
	line("attempts", "%d, of which %d failed; at most %s failures", i.AttemptCount, i.FailureCount, orQuestion(i.MaxAttempts))
	if i.Status == "CLAIMED" && i.LeaseExpiresAt != nil {
		line("held by", "%s, until %s", printable(i.ClaimedBy), stamp(*i.LeaseExpiresAt))
	}
	if i.Namespace != "" {
		line("namespace", "%s", printable(i.Namespace))
	}
	if i.Watcher != "" {
		line("watched by", "%s", printable(i.Watcher))
	}
	if i.LastError != "" {
		line("error", "%s", printable(i.LastError))
	}
	if shown := showResult(i.Result, i.ResultNote); shown != "" {
		line("result", "%s", shown)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	for _, e := range story {
		fmt.Fprintf(a.stdout, "%s  %s\n", e.At.UTC().Format("2006-01-02T15:04:05.000Z"), printable(e.What))
	}
	return nil
}

func orQuestion(n *int) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

// stopOf says who asked for the end of an item's workflow, and what became of that.
func stopOf(i claim.QueueItem) string {
	text := fmt.Sprintf("%s requested by %s", map[string]string{"CANCEL": "cancellation", "TERMINATE": "termination"}[i.Stop], i.StopRequestedBy)
	if i.StopReason != "" {
		text += ": " + i.StopReason
	}
	switch i.StopState {
	case "OPEN":
		text += "; not carried out yet"
		if i.StopError != "" {
			text += ": " + i.StopError
		}
	case "SENT":
		text += "; Temporal has taken it"
	}
	return text
}
