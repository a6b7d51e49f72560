package complete

import (
	"context"
	"errors"
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

	reached  atomic.Bool
	answered atomic.Int64          // when the last answered probe was sent, in Unix nanoseconds
	failure  atomic.Pointer[error] // of the last probe; nil if it was answered
}

// Reached reports whether Temporal answers. It is false until the first answer.
func (r *Reach) Reached() bool { return r.reached.Load() }

// Answered returns when the last probe that Temporal answered was sent. Zero if it has answered none.
func (r *Reach) Answered() time.Time {
	if at := r.answered.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Away reports whether Temporal does not answer. Unlike Reached, it is false until a probe has failed.
func (r *Reach) Away() bool { return !r.Reached() && r.failure.Load() != nil }

// Err returns why Temporal is not reached, or nil if it is.
func (r *Reach) Err() error {
	if r.Reached() {
		return nil
	}
	if failure := r.failure.Load(); failure != nil {
		return *failure
	}
	return errors.New("it has not answered yet")
}

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
		sent := time.Now()
		err := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			last = time.Now()
			r.failure.Store(nil)
			r.answered.Store(sent.UnixNano())
			r.reached.Store(true)
			if complained {
				complained = false
				r.Log.InfoContext(ctx, "Temporal is reachable again; resuming watches")
			}
		case time.Since(last) >= r.Limit && !complained:
			complained = true
			r.failure.Store(&err)
			r.reached.Store(false)
			r.Log.WarnContext(ctx, "Temporal is unreachable; releasing watches to other replicas", "error", err)
		default:
			r.failure.Store(&err)
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
