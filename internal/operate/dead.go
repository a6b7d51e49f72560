package operate

import (
	"cmp"
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// FailuresLooked is the number of newest failures that DeadGroups groups.
	FailuresLooked = 2_000
	// errorsLooked is the number of newest failures whose errors CompleteErrors looks at.
	errorsLooked = 500
)

// DeadFilter selects dead letters. The zero value selects all open ones.
type DeadFilter struct {
	Filter
	State      string   // open, replayed, discarded or any; empty means open
	After      *DeadKey // nil starts at the first page
	Workspaces []string // IDs, in addition to Workspace; nil means any
	last       *DeadKey // nil looks at all failures
}

// DeadKey is the position of the last dead letter of a page, after which the next page starts.
type DeadKey struct {
	FailedAt time.Time
	ID       int64
}

// columns returns both columns of the key, or nulls if k is nil.
func (k *DeadKey) columns() (failedAt *time.Time, id *int64) {
	if k == nil {
		return nil, nil
	}
	return &k.FailedAt, &k.ID
}

// SearchDeadLetters is FindDeadLetters among the newest failures only, or the newest after the given key. If there are
// more, and less than atMost were found, next is where to go on. Otherwise it is nil.
func (s *Store) SearchDeadLetters(ctx context.Context, filter DeadFilter, newest, atMost int) (ids []int64,
	next *DeadKey, err error) {
	failedAt, id := filter.After.columns()
	last, err := postgres.Read[DeadKey](ctx, s.DB, "find dead letters", sql.Text("dead_horizon"), newest, failedAt, id,
		s.Scope)
	if err != nil {
		return nil, nil, err
	}
	if len(last) > 0 {
		filter.last = &last[0]
	}
	if ids, err = s.FindDeadLetters(ctx, filter, atMost); len(ids) < atMost {
		next = filter.last
	}
	return ids, next, err
}

// FindDeadLetters returns the IDs of up to atMost dead letters, the latest failure first. If atMost is zero, it
// returns all.
func (s *Store) FindDeadLetters(ctx context.Context, filter DeadFilter, atMost int) ([]int64, error) {
	failedAt, id := filter.After.columns()
	lastAt, lastID := filter.last.columns()
	return postgres.ValuesWithin[int64](ctx, findTimeout, s.DB, "find dead letters", sql.Text("dead_find"),
		cmp.Or(filter.State, "open"), postgres.OrNull(filter.Workspace), postgres.OrNull(filter.Definition),
		postgres.OrNull(filter.Error),
		filter.Since.At, filter.Since.Ago, filter.Until.At, filter.Until.Ago, postgres.OrNull(atMost), failedAt, id,
		s.scoped(filter.Workspaces), lastAt, lastID)
}

// DeadGroup is a group of open dead letters whose errors differ only in IDs and numbers.
type DeadGroup struct {
	Kind       string    `json:"kind"`
	Items      int64     `json:"items"`
	Workspaces int64     `json:"workspaces"`
	FirstAt    time.Time `json:"first_at"`
	LastAt     time.Time `json:"last_at"`
	Newest     int64     `json:"newest"`  // the ID of the newest item
	Example    string    `json:"example"` // its error
}

// DeadGroups groups the open dead letters among the newest 2,000 failures. It returns up to atMost groups, the largest
// first.
func (s *Store) DeadGroups(ctx context.Context, atMost int) ([]DeadGroup, error) {
	return postgres.Read[DeadGroup](ctx, s.DB, "group dead letters", sql.Text("view_dead_groups"), FailuresLooked, atMost,
		s.Scope)
}

// DeadOfKind returns the IDs of up to atMost dead letters of a group, the latest failure first. The list starts after
// the given key, or at the first if after is nil. It looks at the same failures as DeadGroups.
func (s *Store) DeadOfKind(ctx context.Context, kind string, workspaces []string, after *DeadKey,
	atMost int) ([]int64, error) {
	failedAt, id := after.columns()
	return postgres.Values[int64](ctx, s.DB, "read a group of dead letters", sql.Text("view_dead_group"), FailuresLooked,
		kind, atMost, failedAt, id, s.scoped(workspaces))
}

// CompleteErrors returns up to atMost texts that contain part, ignoring case, and that errors of recent failures have
// in common. The most frequent comes first.
func (s *Store) CompleteErrors(ctx context.Context, part string, atMost int) ([]string, error) {
	return postgres.Values[string](ctx, s.DB, "find errors", sql.Text("view_errors"), errorsLooked, part, atMost,
		s.Scope)
}

// Replay is the item that currently replays a dead letter.
type Replay struct {
	ID          int64
	ExecutionID string // empty if the replay has ended and was deleted
	Replayed    bool   // by this call; false if an earlier replay waits, runs or has completed
}

// Replay inserts a new item for a dead letter. If the dead letter was replayed and failed again, Replay replays the
// newest of its replays. If an earlier replay waits, runs or has completed, Replay changes nothing and returns that
// item.
func (s *Store) Replay(ctx context.Context, executionID, who string) (Replay, error) {
	return postgres.Row[Replay](ctx, s.DB, "replay dead letter", sql.Text("dead_replay"), executionID, who, s.Scope)
}

// Replayed is a dead letter with the new item that replays it.
type Replayed struct {
	ID                int64  `json:"id"`
	ReplayID          int64  `json:"replay_id"`
	ReplayExecutionID string `json:"replay_execution_id"`
}

// ReplayAll inserts a new item for each given dead letter that is open, and returns them. Dead letters that are no
// longer open or whose definition was deleted are omitted.
func (s *Store) ReplayAll(ctx context.Context, items []int64, who string) ([]Replayed, error) {
	return postgres.Read[Replayed](ctx, s.DB, "replay dead letters", sql.Text("dead_replay_all"), items, who,
		s.Scope)
}

// Discard marks the given dead letters that are open as discarded, and returns their IDs.
func (s *Store) Discard(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "discard dead letters", sql.Text("dead_discard"), items, who, s.Scope)
}
