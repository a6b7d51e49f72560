package complete

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Reach tracks whether this replica can reach Temporal. A replica that cannot must not keep executions that others
// could watch. Set the fields before Run and do not change them afterwards.
type Reach struct {
	// Probe makes a cheap request to Temporal.
	Probe func(ctx context.Context) error
	// Limit is how long Temporal may stay silent before it counts as unreachable. It is probed every Limit/4.
	Limit time.Duration
	Log   *slog.Logger

	reached atomic.Bool
}

// Reached reports whether Temporal answers. It is false until the first answer.
func (r *Reach) Reached() bool { return r.reached.Load() }

// Run probes Temporal until ctx is cancelled, then returns nil.
func (r *Reach) Run(ctx context.Context) error {
	last, complained := time.Now(), false
	ask := time.NewTimer(0)
	defer ask.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ask.C:
		}
		err := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			last = time.Now()
			r.reached.Store(true)
			if complained {
				complained = false
				r.Log.InfoContext(ctx, "Temporal is reachable again; resuming watches")
			}
		case time.Since(last) >= r.Limit && !complained:
			complained = true
			r.reached.Store(false)
			r.Log.WarnContext(ctx, "Temporal is unreachable; releasing watches to other replicas", "error", err)
		}
		ask.Reset(r.Limit / 4)
	}
}

func (r *Reach) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Limit/3, fmt.Errorf("probe timed out after %s", r.Limit/3))
	defer cancel()
	err := contained(ctx, r.Probe)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
