package sweeper

import (
	"context"
	"log/slog"
	"time"
)

// Finished is the part of the store that Retention needs.
type Finished interface {
	DeleteFinished(ctx context.Context, atMost int) (Deleted, error)
}

const (
	// deleteBatch is how many items one statement examines. Deleting all of them takes about 10 ms at worst.
	deleteBatch = 500
	// deletePause is the pause between two batches. It leaves most of the database's time to other work and bounds
	// deletion to 8,000 items per second.
	deletePause = 50 * time.Millisecond
)

// Retention deletes finished items whose retention is over. If retention is disabled in the settings, it does nothing.
// Every replica runs one, and they take turns batch by batch. It is a separate loop, so that deletion does not delay
// the sweep of expired leases.
type Retention struct {
	Store Finished
	// Interval is the time between two runs.
	Interval time.Duration
	// Wanted reports whether a retention is set, as last observed. If nil, one may be set.
	Wanted func() bool
	// Deleted is called after each batch with its result. It must not block. If nil, nothing is reported.
	Deleted func(Deleted, error)
	Log     *slog.Logger
}

// Run deletes until ctx is cancelled and returns nil then. A database error is logged and the batch is retried.
func (r *Retention) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if r.Wanted == nil || r.Wanted() {
			r.deleteDue(ctx)
		}
		pause(ctx, r.Interval)
	}
	return nil
}

// deleteDue deletes batch by batch until nothing is left to examine, and logs the totals.
func (r *Retention) deleteDue(ctx context.Context) {
	var sum Deleted
	for more := true; more && ctx.Err() == nil; {
		deleted, err := r.Store.DeleteFinished(ctx, deleteBatch)
		if r.Deleted != nil {
			r.Deleted(deleted, err)
		}
		if err != nil && ctx.Err() == nil {
			r.Log.ErrorContext(ctx, "Cannot delete finished items", "error", err)
		}
		sum.Items += deleted.Items
		sum.DeadLetters += deleted.DeadLetters
		sum.Executions += deleted.Executions
		if more = err == nil && deleted.More; more {
			pause(ctx, deletePause)
		}
	}
	if sum.Items+sum.DeadLetters > 0 {
		r.Log.InfoContext(ctx, "Deleted finished items", "items", sum.Items, "dead_letters", sum.DeadLetters, "executions",
			sum.Executions)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
