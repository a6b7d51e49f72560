package complete

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Adopt takes over up to atMost open executions that no live replica watches, and returns them. It also returns this
// replica's own executions that are not in watching. Executions of workspaces with items due come first.
func (s *Postgres) Adopt(ctx context.Context, atMost int, watching []string) ([]temporal.Execution, error) {
	if watching == nil {
		watching = []string{} // comparing with a null array is never true: own executions would be missed
	}
	return postgres.Read[temporal.Execution](ctx, s.DB, "adopt executions", sql.Text("adopt"), s.Owner, atMost, watching)
}

// GiveUpWatches records that this replica no longer watches these executions, so that other replicas can adopt them.
// Nil means all of its executions.
func (s *Postgres) GiveUpWatches(ctx context.Context, executionIDs []string) error {
	return postgres.Exec(ctx, s.DB, "release watches", sql.Text("give_up_watches"), s.Owner, executionIDs)
}

// SwapWatches takes over up to atMost unwatched executions of workspaces with items due. In exchange it gives up as
// many of this replica's executions of workspaces without items due.
func (s *Postgres) SwapWatches(ctx context.Context,
	atMost int) (taken []temporal.Execution, dropped []string, err error) {
	type swapped struct {
		ID        string
		RunID     *string
		Namespace string
	}
	both, err := postgres.Read[swapped](ctx, s.DB, "swap watches", sql.Text("swap_watches"), s.Owner, atMost)
	for _, e := range both {
		if e.RunID == nil {
			dropped = append(dropped, e.ID)
		} else {
			taken = append(taken, temporal.Execution{ID: e.ID, RunID: *e.RunID, Namespace: e.Namespace})
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
func (s *Postgres) CloseTurns(ctx context.Context, often, wide time.Duration) ([]Turn, error) {
	return postgres.Read[Turn](ctx, s.DB, "claim listing turns", sql.Text("close_turn"), often, wide, s.Namespace)
}

// CloseDone records the newest close time that was listed in a namespace. The zero time means that the list was empty.
func (s *Postgres) CloseDone(ctx context.Context, namespace string, newest time.Time, wide bool) error {
	var seen *time.Time
	if !newest.IsZero() {
		seen = &newest
	}
	return postgres.Exec(ctx, s.DB, "finish listing turn", sql.Text("close_done"), namespace, seen, wide)
}

// OpenAmong returns those of the given executions that are recorded as RUNNING.
func (s *Postgres) OpenAmong(ctx context.Context, executionIDs []string) ([]temporal.Execution, error) {
	return postgres.Read[temporal.Execution](ctx, s.DB, "read open executions", sql.Text("open_among"), executionIDs)
}

// Silent returns up to atMost open executions that no live replica watches and that were started or last asked about
// longer than after ago. It records them as asked about now.
func (s *Postgres) Silent(ctx context.Context, atMost int, after time.Duration) ([]temporal.Execution, error) {
	return postgres.Read[temporal.Execution](ctx, s.DB, "read silent executions", sql.Text("silent"), atMost, after)
}
