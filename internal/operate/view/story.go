package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// Event is one thing that happened to an item.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	// Start marks the start of the workflow.
	Start bool `json:"-"`
	// GivenUp is the ID of the signal that was given up, or 0.
	GivenUp int64 `json:"-"`
}

// Story returns an item's history, oldest first, as far as its rows record it. Of several claims, they record only the
// first and the last. signals are the newest first.
func Story(i operate.Item, failures []operate.Failure, signals []operate.Signal) []Event {
	story := []Event{}
	tell := func(at *time.Time, format string, args ...any) {
		if at != nil {
			story = append(story, Event{At: *at, What: fmt.Sprintf(format, args...)})
		}
	}
	if i.ReplayOf != nil {
		tell(&i.CreatedAt, "inserted as a replay of item %d", *i.ReplayOf)
	} else {
		tell(&i.CreatedAt, "inserted")
	}
	if i.AttemptCount != 1 || i.ClaimedAt == nil { // otherwise the only claim is reported below
		tell(i.PreparedAt, "claimed for the first time, execution created")
	}
	for _, f := range failures {
		tell(&f.FailedAt, "failure %d, attempt %d, on %s: %s", f.Failure, f.Attempt, OrNone(f.Replica), f.Error)
	}
	switch {
	case i.Status == "CLAIMED":
		tell(i.ClaimedAt, "claimed by %s, attempt %d", i.ClaimedBy, i.AttemptCount)
		if i.LeaseIsOver {
			tell(i.LeaseExpiresAt, "lease expired; another replica will recover the item")
		}
	case i.ClaimedAt != nil && i.AttemptCount == 1:
		tell(i.ClaimedAt, "claimed, attempt 1")
	case i.ClaimedAt != nil:
		tell(i.ClaimedAt, "claimed for the last time, attempt %d", i.AttemptCount)
	}
	if i.StartedAt != nil {
		what := fmt.Sprintf("started: %s %s, run %s", i.Kind, Printable(i.WorkflowID), OrNone(i.RunID))
		story = append(story, Event{At: *i.StartedAt, What: what, Start: true})
	}
	for _, s := range slices.Backward(signals) {
		story = append(story, signalled(i, s))
	}
	if i.Stop != "" {
		tell(i.StopRequestedAt, "%s", StopOf(i))
	}
	switch i.Status {
	case "COMPLETED", "CANCELLED":
		tell(i.FinishedAt, "%s", i.Status)
	case "FAILED":
		ended := "failed permanently: "
		if i.RunID != "" {
			ended = fmt.Sprintf("%s ended as %s: ", i.Kind, i.ExecutionStatus)
		}
		tell(i.FinishedAt, "%s%s", ended, i.LastError)
	}
	switch {
	case i.ReplayID != nil:
		tell(i.MarkedAt, "replayed by %s as item %d", i.MarkedBy, *i.ReplayID)
	case i.MarkedAt != nil:
		tell(i.MarkedAt, "discarded by %s", i.MarkedBy)
	}
	slices.SortStableFunc(story, func(a, b Event) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return story
}

func signalled(i operate.Item, s operate.Signal) Event {
	event := Event{At: s.SentAt, What: SignalOf(i, s)}
	if s.State == "GIVEN_UP" {
		event.GivenUp = s.ID
	}
	return event
}

// OrNone returns text, or a dash if it is empty.
func OrNone(text string) string { return cmp.Or(text, "-") }

// StopOf describes the request to cancel or terminate an item's workflow, and its progress.
func StopOf(i operate.Item) string {
	text := fmt.Sprintf("%s requested by %s",
		map[string]string{"CANCEL": "cancellation", "TERMINATE": "termination"}[i.Stop], i.StopRequestedBy)
	if i.StopReason != "" {
		text += ": " + i.StopReason
	} else {
		text += ", " + NoReason
	}
	switch i.StopState {
	case "OPEN":
		text += "; not carried out yet"
		if i.StopError != "" {
			text += ": " + i.StopError
		}
	case "SENT":
		text += "; accepted by Temporal"
	}
	return text
}
