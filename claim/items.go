package claim

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// QueueItem is an item as it is now, with its execution.
type QueueItem struct {
	ID                   int64           `json:"id"`
	ExecutionID          string          `json:"execution_id"`
	Status               string          `json:"status"`
	WorkspaceID          string          `json:"workspace_id"`
	Workspace            string          `json:"workspace"` // its name; "": it is gone
	WorkflowDefinitionID string          `json:"workflow_definition_id"`
	WorkflowDefinition   string          `json:"workflow_definition"` // its name; "": it is gone
	Priority             int             `json:"priority"`
	RunAt                time.Time       `json:"run_at"`
	DueIn                time.Duration   `json:"-"`                // by the database's clock; 0: it is due
	Params               json.RawMessage `json:"params,omitempty"` // nil: not asked for
	IdempotencyKey       string          `json:"idempotency_key,omitempty"`
	Traceparent          string          `json:"traceparent,omitempty"`
	AttemptCount         int             `json:"attempt_count"`
	FailureCount         int             `json:"failure_count"`
	MaxAttempts          *int            `json:"max_attempts"` // nil: its definition is gone
	LostLeaseCount       int             `json:"lost_lease_count"`
	LastError            string          `json:"last_error,omitempty"`
	// OutcomeUnknown: a start was sent that nobody answered, so the workflow may be running.
	OutcomeUnknown      bool            `json:"outcome_unknown"`
	CreatedAt           time.Time       `json:"created_at"`
	Age                 time.Duration   `json:"-"` // by the database's clock
	ClaimedBy           string          `json:"claimed_by,omitempty"`
	ClaimedAt           *time.Time      `json:"claimed_at"`
	LeaseExpiresAt      *time.Time      `json:"lease_expires_at"`
	LeaseIsOver         bool            `json:"-"`
	DispatchedAt        *time.Time      `json:"dispatched_at"`
	FinishedAt          *time.Time      `json:"finished_at"`
	ReplayOf            *int64          `json:"replay_of"`
	ExecutionStatus     string          `json:"execution_status,omitempty"` // "": no execution yet
	RunID               string          `json:"run_id,omitempty"`           // "": no workflow was started
	Namespace           string          `json:"namespace,omitempty"`        // of the workflow
	Watcher             string          `json:"watcher,omitempty"`          // the replica that waits for its end
	VersionID           string          `json:"workflow_definition_version_id,omitempty"`
	Version             *int            `json:"version"`
	PreparedAt          *time.Time      `json:"prepared_at"` // when its execution was made, at its first claim
	StartedAt           *time.Time      `json:"started_at"`
	ExecutionFinishedAt *time.Time      `json:"execution_finished_at"`
	ExecutionError      string          `json:"execution_error,omitempty"`
	Result              json.RawMessage `json:"result,omitempty"`      // nil: none is kept, or it was not asked for
	ResultNote          string          `json:"result_note,omitempty"` // why none is kept, where there was one
	Stop                string          `json:"stop,omitempty"`        // CANCEL or TERMINATE: somebody asked for its workflow's end
	StopState           string          `json:"stop_state,omitempty"`  // OPEN until Temporal has taken it (SENT), or there was nothing to stop
	StopRequestedAt     *time.Time      `json:"stop_requested_at,omitempty"`
	StopRequestedBy     string          `json:"stop_requested_by,omitempty"`
	StopReason          string          `json:"stop_reason,omitempty"`
	StopError           string          `json:"stop_error,omitempty"` // what Temporal said to the last try
	Mark                string          `json:"mark,omitempty"`       // of a dead letter: REPLAYED or DISCARDED; "": neither
	MarkedAt            *time.Time      `json:"marked_at"`
	MarkedBy            string          `json:"marked_by,omitempty"`
	ReplayID            *int64          `json:"replay_id"`
}

// ItemFilter says which items are meant. Its zero value means all.
type ItemFilter struct {
	States     []string // such as PENDING; nil: any
	Workspace  string   // ID or name; "": any. A name may be that of several.
	Definition string   // likewise
	Error      string   // a part of last_error, whatever its case; "": any
	Since      Moment   // enqueued since then
	Until      Moment
	Before     int64 // only items with a lower ID; 0: any
	// WaitsAgain: only those that failed and wait for their next attempt.
	WaitsAgain bool
}

// FindItems returns the IDs of items, the newest first; at most so many, 0: all.
func (s *Store) FindItems(ctx context.Context, f ItemFilter, atMost int) ([]int64, error) {
	return rows(ctx, s.Pool, findTimeout, "find items", pgx.RowTo[int64], sql.ItemFind,
		f.States, optional(f.Workspace), optional(f.Definition), optional(f.Error),
		f.Since.At, f.Since.Ago, f.Until.At, f.Until.Ago, optional(f.Before), optional(atMost), f.WaitsAgain)
}

// QueueItems reads items by their IDs and those of executions, the newest first. What is none is left out.
func (s *Store) QueueItems(ctx context.Context, items []int64, executions []string, withParams bool) ([]QueueItem, error) {
	return read[QueueItem](ctx, s.Pool, "read items", sql.ItemRead, items, executions, withParams)
}

// CancelItems withdraws those of these that are PENDING, and returns which they were. One whose start was sent and never
// answered is not among them.
func (s *Store) CancelItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return rows(ctx, s.Pool, settleTimeout, "cancel items", pgx.RowTo[int64], sql.ItemCancel, items, who)
}

// RetryItems has those of these that are PENDING run at once, whatever they wait for, and returns which they were.
func (s *Store) RetryItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return rows(ctx, s.Pool, settleTimeout, "retry items", pgx.RowTo[int64], sql.ItemRetry, items, who)
}

// NewItem is one to be enqueued.
type NewItem struct {
	WorkspaceID          string
	WorkflowDefinitionID string
	Params               string // a JSON object
	Priority             int
	RunAt                *time.Time     // nil: at once, or in RunIn
	RunIn                *time.Duration // by the database's clock
	IdempotencyKey       string         // "": none
}

// Enqueued is the item that an enqueue made or found.
type Enqueued struct {
	ID          int64  `json:"id"`
	ExecutionID string `json:"execution_id"`
	Inserted    bool   `json:"inserted"` // false: one with this idempotency key was there
}

// Enqueue inserts an item as an application would.
func (s *Store) Enqueue(ctx context.Context, n NewItem, who string) (Enqueued, error) {
	made, err := read[Enqueued](ctx, s.Pool, "enqueue item", sql.ItemEnqueue, n.WorkspaceID, n.WorkflowDefinitionID, n.Params, n.Priority,
		n.RunAt, n.RunIn, optional(n.IdempotencyKey), who)
	if err != nil || len(made) == 0 {
		return Enqueued{}, err
	}
	return made[0], nil
}

// WorkflowID is the ID that the item's workflow has in Temporal, whether it was started or not.
func (i QueueItem) WorkflowID() string { return "execution-" + i.ExecutionID }
