package operate

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Item is the current state of an item and its execution.
type Item struct {
	ID                   int64           `json:"id"`
	ExecutionID          string          `json:"execution_id"`
	Status               string          `json:"status"`
	WorkspaceID          string          `json:"workspace_id"`
	Workspace            string          `json:"workspace"` // its name; empty if it was deleted
	WorkflowDefinitionID string          `json:"workflow_definition_id"`
	WorkflowDefinition   string          `json:"workflow_definition"` // its name; empty if it was deleted
	Priority             int             `json:"priority"`
	RunAt                time.Time       `json:"run_at"`
	DueIn                time.Duration   `json:"-"`                // by the database's clock; zero if it is due
	Params               json.RawMessage `json:"params,omitempty"` // nil if not requested
	IdempotencyKey       string          `json:"idempotency_key,omitempty"`
	LimitKey             string          `json:"limit_key,omitempty"`
	EnqueueKey           string          `json:"enqueue_key,omitempty"` // of pgdispatch.enqueue, while it holds it
	Traceparent          string          `json:"traceparent,omitempty"`
	AttemptCount         int             `json:"attempt_count"`
	FailureCount         int             `json:"failure_count"`
	MaxAttempts          *int            `json:"max_attempts"` // nil if its definition was deleted
	LostLeaseCount       int             `json:"lost_lease_count"`
	LastError            string          `json:"last_error"`
	// Unanswered reports whether a start request got no response, so that the workflow may be running.
	Unanswered          bool            `json:"outcome_unknown" db:"outcome_unknown"`
	CreatedAt           time.Time       `json:"created_at"`
	Age                 time.Duration   `json:"-"` // by the database's clock
	ClaimedBy           string          `json:"claimed_by,omitempty"`
	ClaimedAt           *time.Time      `json:"claimed_at"`
	LeaseExpiresAt      *time.Time      `json:"lease_expires_at"`
	LeaseIsOver         bool            `json:"-"`
	DispatchedAt        *time.Time      `json:"dispatched_at"`
	FinishedAt          *time.Time      `json:"finished_at"`
	ReplayOf            *int64          `json:"replay_of"`                  // the dead letter that this item replays
	ExecutionStatus     string          `json:"execution_status,omitempty"` // empty if there is no execution yet
	RunID               string          `json:"run_id,omitempty"`           // empty if no workflow was started
	Namespace           string          `json:"namespace,omitempty"`        // of the workflow
	Watcher             string          `json:"watcher,omitempty"`          // the replica that watches it for its end
	VersionID           string          `json:"workflow_definition_version_id,omitempty"`
	Version             *int            `json:"version"`
	PreparedAt          *time.Time      `json:"prepared_at"` // when its execution was created, at its first claim
	StartedAt           *time.Time      `json:"started_at"`
	ExecutionFinishedAt *time.Time      `json:"execution_finished_at"`
	ExecutionError      string          `json:"execution_error,omitempty"`
	Result              json.RawMessage `json:"result,omitempty"`      // nil if none is stored or it was not requested
	ResultNote          string          `json:"result_note,omitempty"` // why an existing result is not stored
	Stop                string          `json:"stop,omitempty"`        // CANCEL or TERMINATE if a stop was requested
	StopState           string          `json:"stop_state,omitempty"`  // OPEN, SENT, WITHDRAWN or ENDED
	StopRequestedAt     *time.Time      `json:"stop_requested_at,omitempty"`
	StopRequestedBy     string          `json:"stop_requested_by,omitempty"`
	StopReason          string          `json:"stop_reason,omitempty"`
	StopError           string          `json:"stop_error,omitempty"` // Temporal's error at the last try
	// State is that of a dead letter: OPEN, REPLAYED or DISCARDED. Otherwise it is empty. A dead letter is OPEN again if
	// its replay was withdrawn, although Mark is REPLAYED.
	State             string     `json:"state,omitempty"`
	Mark              string     `json:"mark,omitempty"` // of a dead letter: REPLAYED, DISCARDED or empty
	MarkedAt          *time.Time `json:"marked_at"`
	MarkedBy          string     `json:"marked_by,omitempty"`
	ReplayID          *int64     `json:"replay_id"` // the item that replays this one
	ReplayExecutionID string     `json:"replay_execution_id,omitempty"`
	ReplayStatus      string     `json:"replay_status,omitempty"`
}

// ItemFilter selects items. The zero value selects all.
type ItemFilter struct {
	States     []string // such as PENDING; nil means any
	Workspace  string   // ID or name; empty means any; a name selects all workspaces with that name
	Definition string   // ID or name; empty means any
	Error      string   // a part of last_error, ignoring case; empty means any
	Since      Moment   // enqueued at or after
	Until      Moment   // enqueued at or before
	Before     int64    // only items with a lower ID; zero means any
	// WaitsAgain selects only items that failed and wait for their next attempt.
	WaitsAgain bool
}

// FindItems returns the IDs of up to atMost items, the newest first. If atMost is zero, it returns all.
func (s *Store) FindItems(ctx context.Context, f ItemFilter, atMost int) ([]int64, error) {
	return postgres.ValuesWithin[int64](ctx, findTimeout, s.DB, "find items", sql.Text("item_find"),
		f.States, postgres.OrNull(f.Workspace), postgres.OrNull(f.Definition), postgres.OrNull(f.Error),
		f.Since.At, f.Since.Ago, f.Until.At, f.Until.Ago, postgres.OrNull(f.Before), postgres.OrNull(atMost), f.WaitsAgain)
}

// Items returns items by item ID, in that order, and by execution ID. Unknown IDs are omitted.
func (s *Store) Items(ctx context.Context, items []int64, executions []string, withParams bool) ([]Item, error) {
	found, err := postgres.Read[Item](ctx, s.DB, "read items", sql.Text("item_read"), items, executions, withParams,
		s.Scope)
	places := make(map[int64]int, len(items))
	for place, id := range items {
		places[id] = place
	}
	slices.SortStableFunc(found, func(a, b Item) int { return places[a.ID] - places[b.ID] })
	return found, err
}

// CancelItems cancels the given items that are PENDING and returns their IDs. It skips items with Unanswered, whose
// workflow may be running.
func (s *Store) CancelItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "cancel items", sql.Text("item_cancel"), items, who, s.Scope)
}

// RetryItems makes the given items that are PENDING due now, even if they are parked, and returns their IDs.
func (s *Store) RetryItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "retry items", sql.Text("item_retry"), items, who, s.Scope)
}

// PurgeItems deletes the given items that have ended, with their executions and history, and returns their IDs. It
// needs the owner's role.
func (s *Store) PurgeItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "purge items", sql.Text("item_purge"), items, who)
}

// NewItem is an item to enqueue.
type NewItem struct {
	WorkspaceID          string
	WorkflowDefinitionID string
	Params               string // a JSON object
	Priority             int
	RunAt                *time.Time     // nil means after RunIn
	RunIn                *time.Duration // from the database's current time; nil means at once
	IdempotencyKey       string         // empty means none
	LimitKey             string         // empty means none
	Traceparent          string         // empty means none; only EnqueueAll sets it
}

// Enqueued is the item that Enqueue inserted or found.
type Enqueued struct {
	ID          int64  `json:"id"`
	ExecutionID string `json:"execution_id"`
	Inserted    bool   `json:"inserted"` // false if the workspace has an item with this idempotency key
}

// Enqueue inserts an item as an application would. If the workspace has an item with the same idempotency key, Enqueue
// returns that item instead.
func (s *Store) Enqueue(ctx context.Context, n NewItem, who string) (Enqueued, error) {
	made, err := postgres.Read[Enqueued](ctx, s.DB, "enqueue item", sql.Text("item_enqueue"), n.WorkspaceID,
		n.WorkflowDefinitionID, n.Params, n.Priority,
		n.RunAt, n.RunIn, postgres.OrNull(n.IdempotencyKey), who,
		postgres.OrNull(n.LimitKey))
	if err != nil || len(made) == 0 {
		return Enqueued{}, err
	}
	return made[0], nil
}

// EndedAgo returns how long ago the item ended, by the database's clock. It is zero if it has not.
func (i Item) EndedAgo() time.Duration {
	if i.FinishedAt == nil {
		return 0
	}
	return i.CreatedAt.Add(i.Age).Sub(*i.FinishedAt)
}

// WorkflowID returns the ID of the item's workflow in Temporal, even if it has not been started.
func (i Item) WorkflowID() string { return temporal.WorkflowID(i.ExecutionID) }
