package complete

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// reachRemedy is what an operator can do about it.
const reachRemedy = "see whether Temporal runs and this machine reaches it: `pgdispatch doctor`"

// Reach tracks whether this replica can reach Temporal, and whether Temporal serves its namespace. A replica that
// cannot reach Temporal must not keep executions that others could watch. Set the fields before Run and do not change
// them afterwards.
type Reach struct {
	// Probe makes a cheap request to Temporal. A temporal.NamespaceError is an answer.
	Probe func(ctx context.Context) error
	// Limit is how long Temporal may stay silent before it counts as unreachable, and how long it may refuse a namespace
	// that it has accepted. It is probed every Limit/4.
	Limit time.Duration
	Log   *slog.Logger

	reached  atomic.Bool
	answered atomic.Int64          // when the last answered probe was sent, in Unix nanoseconds
	failure  atomic.Pointer[error] // of the last probe; nil if it was answered
	refusal  atomic.Pointer[temporal.NamespaceError]
	accepted time.Time // when Temporal last accepted the namespace; only Run uses it
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

// Refused returns why Temporal does not serve this replica's namespace, or nil if it does or has not answered yet.
func (r *Reach) Refused() error {
	if refusal := r.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// Run probes Temporal until ctx is cancelled, then returns nil.
func (r *Reach) Run(ctx context.Context) error {
	last, complained := time.Now(), false
	var cause error
	var silent time.Time // when Temporal had last answered before this time
	ask := time.NewTimer(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ask.C:
		}
		sent := time.Now()
		err := r.ask(ctx)
		var refusal temporal.NamespaceError
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil, errors.As(err, &refusal):
			silent, last = last, time.Now()
			r.failure.Store(nil)
			r.answered.Store(sent.UnixNano())
			r.reached.Store(true)
			if complained {
				complained = false
				r.Log.InfoContext(ctx, "Temporal is reachable again; resuming watches", "after_ms",
					time.Since(silent).Milliseconds(), "error", cause, "remedy", reachRemedy)
			}
			r.judge(ctx, refusal)
		case time.Since(last) >= r.Limit && !complained:
			complained = true
			r.failure.Store(&err)
			r.reached.Store(false)
			cause = err
			message, remedy := "Temporal is unreachable; releasing watches to other replicas", reachRemedy
			var codec *temporal.CodecError
			if errors.As(err, &codec) {
				message, remedy = "The codec server is unreachable; releasing watches to other replicas", codec.Remedy()
			}
			r.Log.WarnContext(ctx, message, "error", err, "remedy", remedy)
		default:
			r.failure.Store(&err)
		}
		ask.Reset(r.Limit / 4)
	}
}

// judge records what an answered probe said about the namespace. The refusal is empty if it is served.
func (r *Reach) judge(ctx context.Context, refusal temporal.NamespaceError) {
	known := r.refusal.Load() != nil
	switch {
	case refusal == "":
		r.accepted = time.Now()
		r.refusal.Store(nil)
		if known {
			r.Log.InfoContext(ctx, "Temporal accepts this replica's namespace")
		}
	case time.Since(r.accepted) >= r.Limit: // at once if it was never accepted
		r.refusal.Store(&refusal)
		if !known {
			r.Log.ErrorContext(ctx, "Temporal refuses this replica's namespace; its items wait, and the replica is not ready",
				"error", refusal)
		}
	}
}

func (r *Reach) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Limit/3, fmt.Errorf("probe timed out after %s", r.Limit/3))
	defer cancel()
	err := attempt.Contain(ctx, r.Probe)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
