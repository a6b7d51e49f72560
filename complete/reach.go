package complete

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Reach knows whether this replica reaches Temporal. One that does not must not keep what others could watch. Its fields are set
// before Run and not changed after.
type Reach struct {
	// Probe asks Temporal something cheap.
	Probe func(ctx context.Context) error
	// Limit is how long Temporal may stay silent until it counts as out of reach. It is asked four times as often.
	Limit time.Duration
	Log   *slog.Logger

	reached atomic.Bool
}

// Reached is true while Temporal answers; before the first answer it is false.
func (r *Reach) Reached() bool { return r.reached.Load() }

// Run asks until ctx is cancelled, and returns nil then.
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
				r.Log.InfoContext(ctx, "Temporal answers again: watching")
			}
		case time.Since(last) >= r.Limit && !complained:
			complained = true
			r.reached.Store(false)
			r.Log.WarnContext(ctx, "Temporal is out of reach: giving up watches, so that other replicas may take them", "error", err)
		}
		ask.Reset(r.Limit / 4)
	}
}

func (r *Reach) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Limit/3, fmt.Errorf("probe gave up after %s", r.Limit/3))
	defer cancel()
	err := contained(ctx, r.Probe)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
