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
		message := "Resumed by the settings; claiming items"
		if r.paused {
			message = "Paused by the settings; claiming no items"
		}
		r.Log.InfoContext(ctx, message)
	}
	if batch.Unannounced > 0 {
		r.Log.WarnContext(ctx,
			"Found due items without a notification. Please report this, unless rows were changed with triggers disabled",
			"workspaces", batch.Unannounced)
	}
	for _, parked := range batch.Parked {
		if parked.New {
			r.Log.ErrorContext(ctx,
				"Cannot claim an item: the database rejects the update. Skipping it and retrying in a minute",
				"queue_item_id", parked.ID, "workspace_id", parked.WorkspaceID, "error", parked.Err)
		}
	}
	for _, full := range batch.AtCapacity {
		r.Log.InfoContext(ctx, "Workspace at capacity", "workspace_id", full.WorkspaceID, "active_count", full.Active,
			"limit", full.Limit)
	}
}

// claimFailed delays the next claim, with exponential backoff.
func (r *run) claimFailed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if r.errorGap == nil {
		r.errorGap = newBackoff(claimErrorBase, claimErrorCap)
		r.Log.ErrorContext(ctx, "Cannot claim items; they stay queued and no attempt is counted", "error", err)
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
