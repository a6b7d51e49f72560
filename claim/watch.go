package claim

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Execution is a workflow execution to watch or to ask Temporal about.
type Execution struct {
	ID        string
	RunID     string
	Namespace string // empty means the replica's: executions from before there were several namespaces
}

// Adopt takes over up to atMost open executions that no live replica watches, and returns them. It also returns this
// replica's own executions that are not in watching. Executions of workspaces with items due come first.
func (s *Store) Adopt(ctx context.Context, atMost int, watching []string) ([]Execution, error) {
	if watching == nil {
		watching = []string{} // comparing with a null array is never true: own executions would be missed
	}
	return read[Execution](ctx, s.async(), "adopt executions", sql.Adopt, s.Owner, atMost, watching)
}

// GiveUpWatches records that this replica no longer watches these executions, so that other replicas can adopt them.
// Nil means all of its executions.
func (s *Store) GiveUpWatches(ctx context.Context, executionIDs []string) error {
	return s.exec(ctx, "give up watches", sql.GiveUpWatches, s.Owner, executionIDs)
}

// SwapWatches takes over up to atMost unwatched executions of workspaces with items due. In exchange it gives up as
// many of this replica's executions of workspaces without items due.
func (s *Store) SwapWatches(ctx context.Context, atMost int) (taken []Execution, dropped []string, err error) {
	type swapped struct {
		ID        string
		RunID     *string
		Namespace string
	}
	both, err := read[swapped](ctx, s.async(), "swap watches", sql.SwapWatches, s.Owner, atMost)
	for _, e := range both {
		if e.RunID == nil {
			dropped = append(dropped, e.ID)
		} else {
			taken = append(taken, Execution{ID: e.ID, RunID: *e.RunID, Namespace: e.Namespace})
		}
	}
	return taken, dropped, err
}

// Turn is the turn to list the workflows that closed in a namespace. One replica takes the turns at a time.
type Turn struct {
	Namespace string
	Wide      bool      // list further back, for workflows that became visible too late for the previous lists
	Since     time.Time // the close time to list from, by Temporal's clock
}

// CloseTurns takes the turns to list closed workflows: one for each namespace with open executions that no live replica
// watches, or whose last wide list is older than `wide`. Empty if no namespace needs a list, or if another replica took
// the turns within `often`.
func (s *Store) CloseTurns(ctx context.Context, often, wide time.Duration) ([]Turn, error) {
	return read[Turn](ctx, s.async(), "take turns", sql.CloseTurn, often, wide, s.Namespace)
}

// CloseDone records the newest close time that was listed in a namespace. The zero time means that the list was empty.
func (s *Store) CloseDone(ctx context.Context, namespace string, newest time.Time, wide bool) error {
	var seen *time.Time
	if !newest.IsZero() {
		seen = &newest
	}
	return s.exec(ctx, "end turn", sql.CloseDone, namespace, seen, wide)
}

// OpenAmong returns those of the given executions that are recorded as RUNNING.
func (s *Store) OpenAmong(ctx context.Context, executionIDs []string) ([]Execution, error) {
	return read[Execution](ctx, s.async(), "read open executions", sql.OpenAmong, executionIDs)
}

// Silent returns up to atMost open executions that no live replica watches and that were started or last asked about
// longer than after ago. It records them as asked about now.
func (s *Store) Silent(ctx context.Context, atMost int, after time.Duration) ([]Execution, error) {
	return read[Execution](ctx, s.async(), "read silent executions", sql.Silent, atMost, after)
}
