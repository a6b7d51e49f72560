package claim

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// findTimeout bounds a search through all dead letters.
	findTimeout = time.Minute
	// deleteTimeout bounds the deletion of one batch of finished items.
	deleteTimeout = 30 * time.Second
)

// DeadLetter is an item that failed for good, whoever has seen to it.
type DeadLetter struct {
	ID                   int64           `json:"id"`
	ExecutionID          string          `json:"execution_id"`
	State                string          `json:"state"` // OPEN, REPLAYED or DISCARDED
	WorkspaceID          string          `json:"workspace_id"`
	Workspace            string          `json:"workspace"` // its name; "": it is gone
	WorkflowDefinitionID string          `json:"workflow_definition_id"`
	WorkflowDefinition   string          `json:"workflow_definition"` // its name; "": it is gone
	Priority             int             `json:"priority"`
	Params               json.RawMessage `json:"params"`
	Traceparent          string          `json:"traceparent,omitempty"`
	AttemptCount         int             `json:"attempt_count"`
	FailureCount         int             `json:"failure_count"`
	LastError            string          `json:"last_error"`
	ExecutionStatus      string          `json:"execution_status,omitempty"` // how the workflow ended; see RunID
	RunID                string          `json:"run_id,omitempty"`           // "": no workflow was started
	CreatedAt            time.Time       `json:"created_at"`
	DispatchedAt         *time.Time      `json:"dispatched_at"`
	FinishedAt           time.Time       `json:"finished_at"`
	FailedAgo            time.Duration   `json:"-"`         // by the database's clock
	ReplayOf             *int64          `json:"replay_of"` // the dead letter that this item replayed
	MarkedAt             *time.Time      `json:"marked_at"`
	MarkedBy             string          `json:"marked_by,omitempty"`
	ReplayID             *int64          `json:"replay_id"` // the item that replays this one
	ReplayExecutionID    string          `json:"replay_execution_id,omitempty"`
	ReplayStatus         string          `json:"replay_status,omitempty"`
}

// Failure is one that was counted against an item.
type Failure struct {
	Failure  int       `json:"failure"` // 1 is the first
	Attempt  int       `json:"attempt"`
	FailedAt time.Time `json:"failed_at"`
	Error    string    `json:"error"`
	Replica  string    `json:"replica,omitempty"`
}

// DeadFilter says which dead letters are meant. Its zero value means all that are open.
type DeadFilter struct {
	State      string // open, replayed, discarded or any; "": open
	Workspace  string // ID or name; "": any. A name may be that of several.
	Definition string // likewise
	Error      string // a part of last_error, whatever its case; "": any
	Since      Moment
	Until      Moment
	After      *DeadKey // nil: from the first
}

// DeadKey is where a page of dead letters ends and the next one goes on.
type DeadKey struct {
	FailedAt time.Time
	ID       int64
}

// columns are both, or null.
func (k *DeadKey) columns() (failedAt *time.Time, id *int64) {
	if k == nil {
		return nil, nil
	}
	return &k.FailedAt, &k.ID
}

// Moment is a time, or a time that long ago by the database's clock. Its zero value is no limit.
type Moment struct {
	At  *time.Time
	Ago *time.Duration
}

// FindDeadLetters returns the IDs of dead letters, those that failed last first; at most so many, 0: all.
func (s *Store) FindDeadLetters(ctx context.Context, filter DeadFilter, atMost int) ([]int64, error) {
	state := filter.State
	if state == "" {
		state = "open"
	}
	failedAt, id := filter.After.columns()
	return rows(ctx, s.Pool, findTimeout, "find dead letters", pgx.RowTo[int64], sql.DeadFind,
		state, optional(filter.Workspace), optional(filter.Definition), optional(filter.Error),
		filter.Since.At, filter.Since.Ago, filter.Until.At, filter.Until.Ago, optional(atMost), failedAt, id)
}

// KnowsName returns whether there is a workspace, and a definition, of that name.
func (s *Store) KnowsName(ctx context.Context, workspace, definition string) (workspaceKnown, definitionKnown bool, err error) {
	type answer struct{ Workspace, Definition bool }
	known, err := read[answer](ctx, s.Pool, "look for names", sql.DeadKnown, workspace, definition)
	if err != nil || len(known) == 0 {
		return false, false, err
	}
	return known[0].Workspace, known[0].Definition, nil
}

// DeadLetters reads dead letters by the IDs of items and of executions, those that failed last first. What is none is left out.
func (s *Store) DeadLetters(ctx context.Context, items []int64, executions []string) ([]DeadLetter, error) {
	return read[DeadLetter](ctx, s.Pool, "read dead letters", sql.DeadRead, items, executions)
}

// Failures reads what was counted against an item, the first failure first.
func (s *Store) Failures(ctx context.Context, item int64) ([]Failure, error) {
	return read[Failure](ctx, s.Pool, "read failures", sql.DeadHistory, item)
}

// Replay is the item that stands for a dead letter now.
type Replay struct {
	ID          int64
	ExecutionID string // "": it has ended, and has been deleted since
	Replayed    bool   // by this call; false: by an earlier one, whose replay waits, runs or has completed
}

// Replay makes a new item for a dead letter or, where it has been replayed and has failed again, for the newest of its replays.
func (s *Store) Replay(ctx context.Context, executionID, who string) (Replay, error) {
	replays, err := read[Replay](ctx, s.Pool, "replay dead letter", sql.DeadReplay, executionID, who)
	if err != nil || len(replays) == 0 {
		return Replay{}, err
	}
	return replays[0], nil
}

// Replayed is a dead letter and the new item that replays it.
type Replayed struct {
	ID                int64  `json:"id"`
	ReplayID          int64  `json:"replay_id"`
	ReplayExecutionID string `json:"replay_execution_id"`
}

// ReplayAll makes a new item for each of these that is open, and returns them. What is no longer open, or has lost its
// definition, is left out.
func (s *Store) ReplayAll(ctx context.Context, items []int64, who string) ([]Replayed, error) {
	return read[Replayed](ctx, s.Pool, "replay dead letters", sql.DeadReplayAll, items, who)
}

// Discard marks those of these dead letters that are open as seen to, and returns which they were.
func (s *Store) Discard(ctx context.Context, items []int64, who string) ([]int64, error) {
	return rows(ctx, s.Pool, settleTimeout, "discard dead letters", pgx.RowTo[int64], sql.DeadDiscard, items, who)
}

// Deleted is what a batch of the retention deleted.
type Deleted struct {
	Items       int // COMPLETED and CANCELLED ones
	DeadLetters int
	Executions  int
	More        bool // there is more to look at now
}

// DeleteFinished looks at the next so many items and deletes those whose retention is over. Any number may run at once.
func (s *Store) DeleteFinished(ctx context.Context, atMost int) (Deleted, error) {
	deleted, err := rows(ctx, s.async(), deleteTimeout, "remove finished items", pgx.RowToStructByPos[Deleted], sql.DeleteFinished, atMost)
	if err != nil || len(deleted) == 0 {
		return Deleted{}, err
	}
	return deleted[0], nil
}

// SetRetention changes how long finished items are kept, dead letters excepted; nil: for ever.
func (s *Store) SetRetention(ctx context.Context, keep *time.Duration, who string) (Settings, error) {
	return s.settings(ctx, "change retention", sql.RetentionSet, true, keep, false, (*time.Duration)(nil), who)
}

// SetDeadLetterRetention changes how long dead letters are kept that nobody has seen to; nil: until somebody has.
func (s *Store) SetDeadLetterRetention(ctx context.Context, keep *time.Duration, who string) (Settings, error) {
	return s.settings(ctx, "change retention of dead letters", sql.RetentionSet, false, (*time.Duration)(nil), true, keep, who)
}

// optional is nil where the value is its type's zero.
func optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
