package sweeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Finished is the part of the store that the retention needs.
type Finished interface {
	DeleteFinished(ctx context.Context, atMost int) (claim.Deleted, error)
}

const (
	// deleteBatch is how many items one statement looks at. It deletes all of them in some 10 ms at the worst.
	deleteBatch = 500
	// deletePause is between two batches, so that the deletion leaves most of the database's time to others: 8,000 items a
	// second are the most that it does.
	deletePause = 50 * time.Millisecond
)

// Retention deletes finished items whose time is over, as the settings have it; where they are off, it does nothing. Every
// replica has one, and they take turns batch by batch. It is a loop of its own, so that no lease waits for it to be swept.
type Retention struct {
	Store Finished
	// Interval is how long there is between two looks.
	Interval time.Duration
	// Wanted says whether a retention is set, as far as somebody has seen. Nil: it may be.
	Wanted func() bool
	Log    *slog.Logger
}

// Run deletes until ctx is cancelled, and returns nil then. An error of the database is logged and the batch repeated.
func (r *Retention) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if r.Wanted == nil || r.Wanted() {
			r.look(ctx)
		}
		pause(ctx, r.Interval)
	}
	return nil
}

// look deletes batch by batch until there is no more to look at, and logs what that was.
func (r *Retention) look(ctx context.Context) {
	var sum claim.Deleted
	for more := true; more && ctx.Err() == nil; {
		deleted, err := r.Store.DeleteFinished(ctx, deleteBatch)
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
		r.Log.InfoContext(ctx, "Deleted finished items", "items", sum.Items, "dead_letters", sum.DeadLetters, "executions", sum.Executions)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
