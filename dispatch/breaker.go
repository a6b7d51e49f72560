package dispatch

import (
	"time"

	"github.com/sethvargo/go-retry"
)

const (
	// probeBase is how long the first pause lasts, and probeCap the longest: it bounds how long after Temporal's return
	// the first workflow is started.
	probeBase = 100 * time.Millisecond
	probeCap  = 3 * time.Second
	// probeRarely is how long no item is tried while Temporal does not even answer a question: it may be that only questions are
	// not answered.
	probeRarely = 30 * time.Second
	// retryBase is how long an item waits after its first own failure; the wait doubles up to retryCap.
	retryBase = time.Second
	retryCap  = 5 * time.Minute
	// jitterPercent keeps replicas and items that failed together from coming back together.
	jitterPercent = 20
)

// breaker stops claiming while Temporal does not take workflows, so that an outage costs probes and not attempts. It is
// closed at first, and belongs to the claim loop: it is not safe for concurrent use.
type breaker struct {
	backoff retry.Backoff // nil: closed
	until   time.Time
	tripped time.Time // by the last probe
}

func (b *breaker) open() bool { return b.backoff != nil }

// trip opens the breaker, or lets it pause longer where it is open. A failure that was under way before the present pause
// began says nothing new, and changes nothing.
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

// postpone puts the next probe off for a moment: it would only hold up its item.
func (b *breaker) postpone(now time.Time) {
	if soon := now.Add(probeBase); b.open() && b.until.Before(soon) && now.Sub(b.tripped) < probeRarely {
		b.until = soon
	}
}

func (b *breaker) close() { *b = breaker{} }

// allows says how many items may be claimed now: all that are free while closed, one as a probe after a pause.
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

// retryDelay is how long an item waits after so many failures of its own; the first is 1.
func retryDelay(failures int) time.Duration {
	backoff := newBackoff(retryBase, retryCap)
	var delay time.Duration
	for range min(failures, 32) {
		delay, _ = backoff.Next()
	}
	return delay
}

// newBackoff makes a new one for each use, because a Backoff is single-use state.
func newBackoff(base, longest time.Duration) retry.Backoff {
	return retry.WithJitterPercent(jitterPercent, retry.WithCappedDuration(longest, retry.NewExponential(base)))
}
