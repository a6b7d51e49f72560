package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Signal is a signal to an execution's workflow.
type Signal struct {
	ID          int64           `json:"id"`
	ExecutionID string          `json:"execution_id"`
	WorkflowID  string          `json:"workflow_id"`
	Name        string          `json:"name"`
	Payload     json.RawMessage `json:"payload"` // nil if it has none
	SentAt      time.Time       `json:"sent_at"`
	SentBy      string          `json:"sent_by"` // the database role
	State       string          `json:"state"`   // OPEN, DELIVERED or GIVEN_UP
	// Waits reports whether an OPEN signal waits for its workflow's start or for an earlier signal.
	Waits     bool       `json:"waits"`
	SettledAt *time.Time `json:"settled_at"`
	Tries     int        `json:"tries"`
	Error     string     `json:"error,omitempty"`  // why the last try failed, or why it was given up
	RunID     string     `json:"run_id,omitempty"` // the run that it was sent to
}

// Signals returns the newest signals, at most atMost. An empty execution means all, nil states any state.
func (s *Store) Signals(ctx context.Context, executionID string, states []string, atMost int) ([]Signal, error) {
	return postgres.Read[Signal](ctx, s.DB, "read signals", sql.Text("signal_list"), postgres.OrNull(executionID), states,
		atMost, s.Scope)
}

// SendSignal sends a signal to an execution's workflow and returns the signal's ID, or 0 if the execution is not in
// scope. payload is JSON; empty means none.
func (s *Store) SendSignal(ctx context.Context, executionID, name, payload, who string) (int64, error) {
	sent, err := postgres.Values[int64](ctx, s.DB, "send signal", sql.Text("signal_send"), executionID, name,
		postgres.OrNull(payload), who, s.Scope)
	return cmp.Or(append(sent, 0)...), err
}

// SendSignalTo sends a signal to the newest item of a workspace that names the workflow ID and has not ended, and
// returns the signal's ID. payload is JSON; empty means none.
func (s *Store) SendSignalTo(ctx context.Context, workspaceID, workflowID, name, payload, who string) (int64, error) {
	return postgres.Value[int64](ctx, s.DB, "send signal", sql.Text("signal_send_to"), workspaceID, workflowID, name,
		postgres.OrNull(payload), who)
}

// Resent is a signal that was sent again.
type Resent struct {
	ID          int64  `json:"signal"`       // its new ID
	ExecutionID string `json:"execution_id"` // where it is sent
}

// ResendSignal sends a signal that was given up again: to its execution, or to the replay of its item. It returns false
// if executionID is not empty and the signal is of another execution, or if it is not in scope.
func (s *Store) ResendSignal(ctx context.Context, id int64, executionID, who string) (Resent, bool, error) {
	sent, err := postgres.Row[Resent](ctx, s.DB, "send signal again", sql.Text("signal_resend"), id,
		postgres.OrNull(executionID), who, s.Scope)
	return sent, sent.ID != 0, err
}

// RequestStop cancels an item that waits, or requests the stop of its workflow. It returns WITHDRAWN, REQUESTED,
// ALREADY_REQUESTED or ALREADY_ENDED, or nothing if the item is not in scope.
func (s *Store) RequestStop(ctx context.Context, stop temporal.Stop) (string, error) {
	answers, err := postgres.Values[string](ctx, s.DB, "request stop", sql.Text("stop_request"), stop.ID,
		stop.How, stop.Reason, stop.RequestedBy, s.Scope)
	return strings.Join(answers, ""), err
}
