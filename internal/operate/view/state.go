package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// State is what an item does, in a word, and its status with the reason. Class is its kind: good, bad, warn, busy or
// empty.
type State struct{ Word, Class, Why string }

// Holds is what holds back waiting items.
type Holds struct {
	// All is why nothing is started at all, or empty.
	All string
	// Workspaces are the items' workspaces by ID, Keys the full limits of keys.
	Workspaces map[string]operate.WorkspaceRow
	Keys       []operate.KeyLimit
}

// states are the states that a status alone tells.
var states = map[string]State{
	"CLAIMED":    {"claimed", "busy", "CLAIMED: a replica is starting its workflow"},
	"DISPATCHED": {"running", "busy", "DISPATCHED: its workflow runs"},
	"COMPLETED":  {"completed", "good", "COMPLETED: its workflow completed"},
	"FAILED":     {"failed", "bad", "FAILED"},
	"CANCELLED":  {"cancelled", "", "CANCELLED: it was withdrawn before it was claimed"},
}

// Status returns the state that is shown for a status of the list of items.
func Status(status string) string {
	switch status {
	case "PENDING":
		return "Waiting"
	case "UNANSWERED", "UNCERTAIN", "SCHEDULED", "MISSING":
		return capital(strings.ToLower(status))
	case "":
		return "All"
	}
	return capital(states[status].Word)
}

// StateOf returns an item's state.
func StateOf(i operate.Item, h Holds) State {
	if i.Status == "FAILED" && i.State != "" {
		return State{"failed", "bad", "FAILED: a dead letter, " + i.State}
	}
	if i.Status == "DISPATCHED" && i.MissingSince != nil {
		return State{"missing", "bad", "DISPATCHED: its workflow ran, and Temporal does not find it"}
	}
	if i.Status != "PENDING" {
		return states[i.Status]
	}
	w, known := h.Workspaces[i.WorkspaceID]
	switch {
	case i.Uncertain:
		return State{"uncertain", "bad", "PENDING: its claim was lost, so its start may have been sent or not"}
	case i.Unanswered:
		return State{"unanswered", "bad", "PENDING: its start was sent and not answered, so its workflow may be running"}
	case i.DueIn > 0 && i.FailureCount > 0:
		return State{"retries", "warn", fmt.Sprintf("PENDING: it failed, and is tried again in %s", Span(i.DueIn))}
	case i.DueIn > 0:
		return State{"scheduled", "", fmt.Sprintf("PENDING: due in %s", Span(i.DueIn))}
	case h.All != "":
		return State{"paused", "warn", "PENDING: " + h.All}
	case known && w.Paused:
		return State{"paused", "warn", "PENDING: its workspace is paused"}
	case known && w.Full():
		return State{"full", "warn", fmt.Sprintf("PENDING: its workspace runs %s of %s", Number(w.Active()),
			Slots(w.Limit, w.Burst))}
	}
	for _, l := range h.Keys {
		if l.Key == i.LimitKey && (l.WorkspaceID == "" || l.WorkspaceID == i.WorkspaceID) {
			return State{"full", "warn", "PENDING: the limit of its key is full"}
		}
	}
	return State{"waiting", "", "PENDING: due, and waits for a worker"}
}

// Waited formats how long an item waited for its start since it was due, or has waited. It is empty if it is not due
// yet, or ended without a start.
func Waited(i operate.Item) string {
	due, until := i.CreatedAt, i.StartedAt
	if i.RunAt.After(due) {
		due = i.RunAt
	}
	if until == nil && i.FinishedAt == nil && i.DueIn == 0 {
		now := i.CreatedAt.Add(i.Age)
		until = &now
	}
	if until == nil {
		return ""
	}
	return Span(until.Sub(due))
}

// Ran formats how long an item's workflow ran, or has run. It is empty if it was not started.
func Ran(i operate.Item) string {
	if i.StartedAt == nil {
		return ""
	}
	for _, ended := range []*time.Time{i.ExecutionFinishedAt, i.FinishedAt} {
		if ended != nil {
			return Span(ended.Sub(*i.StartedAt))
		}
	}
	return Span(i.CreatedAt.Add(i.Age).Sub(*i.StartedAt))
}
