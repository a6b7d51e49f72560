package dispatch

import (
	"time"

	"github.com/sethvargo/go-retry"
)

const (
	// probeBase is the first pause and probeCap the longest one. probeCap bounds the time from Temporal's recovery to
	// the first started workflow.
	probeBase = 100 * time.Millisecond
	probeCap  = 3 * time.Second
	// probeRarely is how long probes may be postponed while Temporal does not answer questions either. After that an
	// item is tried anyway, because questions may be all that is unanswered.
	probeRarely = 30 * time.Second
	// quietAfter is how long no item may have been refused before an answer to a probe ends a reported outage. It exceeds
	// the time between two items that are tried as probes.
	quietAfter = 10 * time.Second
	// retryBase is the delay of an item after its first failure. The delay doubles up to retryCap.
	retryBase = time.Second
	retryCap  = 5 * time.Minute
	// jitterPercent keeps replicas and items that failed together from retrying together.
	jitterPercent = 20
)

// breaker stops claims while Temporal accepts no workflows, so that an outage costs probes and not attempts. It starts
// closed. Only the claim loop uses it: it is not safe for concurrent use.
type breaker struct {
	backoff retry.Backoff // nil if closed
	until   time.Time
	tripped time.Time // time of the last failed probe
}

func (b *breaker) open() bool { return b.backoff != nil }

// trip opens the breaker, or backs off further if it is open. It ignores a failure during a pause, because the request
// was in progress before the pause began.
func (b *breaker) trip(now time.Time) {
	if b.open() && now.Before(b.until) {
		return
	}
	if b.backoff == nil {
		b.backoff = newBackoff(probeBase, probeCap)
	}
	pause, _ := b.backoff.Next()
	b.until, b.tripped = now.Add(pause), now
}

// postpone delays the next probe by up to probeBase, because the probe would only hold up its item.
func (b *breaker) postpone(now time.Time) {
	if soon := now.Add(probeBase); b.open() && b.until.Before(soon) && now.Sub(b.tripped) < probeRarely {
		b.until = soon
	}
}

func (b *breaker) close() { *b = breaker{} }

// refuses reports whether the breaker is open and nothing has changed since. It is false if no item was tried lately
// and Temporal has answered a probe since the last one failed: the next item decides.
func (b *breaker) refuses(now, answered time.Time) bool {
	return b.open() && !(answered.After(b.tripped) && now.Sub(b.tripped) >= quietAfter)
}

// allows returns how many items may be claimed now: free while the breaker is closed, one as a probe after each pause.
func (b *breaker) allows(now time.Time, free, busy int) int {
	switch {
	case !b.open():
		return free
	case now.Before(b.until) || busy > 0:
		return 0
	default:
		return min(free, 1)
	}
}

// retryDelay returns the delay of an item after the given number of failures, counted from 1.
func retryDelay(failures int) time.Duration {
	backoff := newBackoff(retryBase, retryCap)
	var delay time.Duration
	for range min(failures, 32) {
		delay, _ = backoff.Next()
	}
	return delay
}

// newBackoff returns a new Backoff for each use, because a Backoff is stateful.
func newBackoff(base, longest time.Duration) retry.Backoff {
	return retry.WithJitterPercent(jitterPercent, retry.WithCappedDuration(longest, retry.NewExponential(base)))
}
