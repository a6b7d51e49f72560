package complete

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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
	// that it has accepted. It is probed every Limit/4, and every Limit/20 while that fails.
	Limit time.Duration
	// Found is called when Temporal answers again after it was unreachable. May be nil.
	Found func()
	Log   *slog.Logger

	reached  atomic.Bool
	answered atomic.Int64          // when the last answered probe was sent, in Unix nanoseconds
	failure  atomic.Pointer[error] // of the last probe; nil if it was answered
	refusal  atomic.Pointer[temporal.NamespaceError]

	// Only Run uses these.
	accepted time.Time // when Temporal last accepted the namespace
	heard    time.Time // when Temporal last answered a probe, or when Run began
	lost     error     // why Temporal cannot be reached; nil if it can
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
	var probes sync.WaitGroup
	defer probes.Wait()
	results := make(chan probeResult)
	r.heard = time.Now()

	next := time.NewTimer(0)
	for {
		select {
		case <-ctx.Done():
			return nil

		// A probe that hangs does not delay the next one, which may use a connection that works again.
		case <-next.C:
			sent := time.Now()
			probes.Go(func() {
				result := probeResult{sent: sent, err: r.ask(ctx)}
				select {
				case results <- result:
				case <-ctx.Done():
				}
			})
			next.Reset(r.pause())

		case result := <-results:
			if ctx.Err() != nil {
				return nil
			}
			failedBefore := r.failure.Load() != nil
			r.record(ctx, result)
			if !failedBefore && r.failure.Load() != nil {
				next.Reset(r.pause())
			}
		}
	}
}

// probeResult is how a probe ended, and when it was sent.
type probeResult struct {
	sent time.Time
	err  error
}

// pause returns the time between two probes. It is short while they fail, because it delays all starts after an outage.
func (r *Reach) pause() time.Duration {
	if r.failure.Load() != nil {
		return r.Limit / 20
	}
	return r.Limit / 4
}

// record takes over the result of a probe.
func (r *Reach) record(ctx context.Context, result probeResult) {
	var refusal temporal.NamespaceError
	switch {
	case result.err == nil, errors.As(result.err, &refusal):
		silent := r.heard
		r.heard = time.Now()
		r.failure.Store(nil)
		r.answered.Store(max(r.answered.Load(), result.sent.UnixNano()))
		r.reached.Store(true)
		if r.lost != nil {
			r.Log.InfoContext(ctx, "Temporal is reachable again; resuming watches", "after_ms",
				time.Since(silent).Milliseconds(), "error", r.lost, "remedy", reachRemedy)
			r.lost = nil
			if r.Found != nil {
				r.Found()
			}
		}
		r.judge(ctx, refusal)

	case result.sent.Before(r.Answered()):
		// A later probe was answered.

	default:
		r.failure.Store(&result.err)
		if time.Since(r.heard) >= r.Limit && r.lost == nil {
			r.lose(ctx, result.err)
		}
	}
}

// lose records that Temporal cannot be reached.
func (r *Reach) lose(ctx context.Context, err error) {
	r.lost = err
	r.reached.Store(false)

	message, remedy := "Temporal is unreachable; releasing watches to other replicas", reachRemedy
	var codec *temporal.CodecError
	if errors.As(err, &codec) {
		message, remedy = "The codec server is unreachable; releasing watches to other replicas", codec.Remedy()
	}
	r.Log.WarnContext(ctx, message, "error", err, "remedy", remedy)
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
