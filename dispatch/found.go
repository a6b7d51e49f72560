package dispatch

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// tell logs what a claim returned besides items.
func (r *run) tell(ctx context.Context, batch claim.Batch) {
	if batch.Paused != r.paused {
		r.paused = batch.Paused
		message := "Resumed: items are claimed again"
		if r.paused {
			message = "Paused: nothing is claimed until the setting is changed"
		}
		r.Log.InfoContext(ctx, message)
	}
	if batch.Unannounced > 0 {
		r.Log.WarnContext(ctx, "Found due items that nobody announced: please report this, unless rows were changed with triggers off", "workspaces", batch.Unannounced)
	}
	for _, parked := range batch.Parked {
		if parked.New {
			r.Log.ErrorContext(ctx, "Cannot claim an item: the database refuses it. It is passed over, and tried again in a minute",
				"queue_item_id", parked.ID, "workspace_id", parked.WorkspaceID, "error", parked.Err)
		}
	}
	for _, full := range batch.AtCapacity {
		r.Log.InfoContext(ctx, "Workspace at capacity", "workspace_id", full.WorkspaceID, "active_count", full.Active, "limit", full.Limit)
	}
}

// claimFailed delays the next claim, with exponential backoff.
func (r *run) claimFailed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if r.errorGap == nil {
		r.errorGap = newBackoff(claimErrorBase, claimErrorCap)
		r.Log.ErrorContext(ctx, "Cannot claim: items wait, and nothing is counted against them", "error", err)
	}
	r.failing.Store(&err)
	pause, _ := r.errorGap.Next()
	r.retryAt = time.Now().Add(pause)
}

// Failing returns the error of the last claim, or nil if it succeeded.
func (d *Dispatcher) Failing() error {
	if err := d.failing.Load(); err != nil {
		return *err
	}
	return nil
}
