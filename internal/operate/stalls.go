package operate

import (
	"context"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Stall is something that makes no progress: a task queue that no worker polls, or an execution whose workflow task
// fails repeatedly.
type Stall struct {
	Kind       string `json:"kind"` // TASK_QUEUE or EXECUTION
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"` // of the task queue, or the execution's ID
	Executions int    `json:"executions"`
	Detail     string `json:"detail"`
}

// StallFor is a stall and its age.
type StallFor struct {
	Stall
	Since time.Duration `json:"since_ns"` // time since it was detected
}

// Stalled returns up to atMost stalls, those with the most executions first. Of workspaces in scope it returns
// executions only, because a task queue belongs to none.
func (s *Store) Stalled(ctx context.Context, atMost int) ([]StallFor, error) {
	return postgres.Read[StallFor](ctx, s.DB, "read stalls", sql.Text("stalled"), atMost, s.Scope)
}

// RequestStop cancels an item that waits, or requests the stop of its workflow. It returns WITHDRAWN, REQUESTED,
// ALREADY_REQUESTED or ALREADY_ENDED, or nothing if the item is not in scope.
func (s *Store) RequestStop(ctx context.Context, stop temporal.Stop) (string, error) {
	answers, err := postgres.Values[string](ctx, s.DB, "request stop", sql.Text("stop_request"), stop.ExecutionID,
		stop.How, stop.Reason, stop.RequestedBy, s.Scope)
	return strings.Join(answers, ""), err
}
