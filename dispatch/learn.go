package dispatch

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// collect takes back all finished workers, so that one claim serves them all.
func (r *run) collect() {
	for {
		select {
		case done := <-r.outcomes:
			r.learn(done)
		default:
			return
		}
	}
}

// learn takes a worker back and records what its dispatch revealed about Temporal.
func (r *run) learn(done result) {
	if done.took > 0 {
		r.gather.started(done.took)
	}
	if !r.keep(done) {
		r.idle++
	}
	if done.item != nil {
		r.of.of(done.item.Namespace).busy--
	}
	if done.outcome != temporal.Started { // its item may wait again
		r.hungry, r.look = true, true
	}
	r.hungry = r.hungry || r.starved
	if due := time.Now().Add(done.waits); done.waits > 0 && (r.dueAt.IsZero() || due.Before(r.dueAt)) {
		r.dueAt = due // no notification may announce it
	}
	if done.asked {
		r.heed(done)
	}
}

// heed records Temporal's answer, or its absence.
func (r *run) heed(done result) {
	now, name := time.Now(), done.item.Namespace
	limiter := &r.of.of(name).limiter
	switch done.outcome {
	case temporal.Blocked, temporal.Unreached, temporal.Unanswered:
		if r.of.trip(now, name, done.outcome) {
			r.Log.Error(
				"Temporal does not accept workflows; pausing starts and probing. Items stay queued and no attempt is counted",
				"outcome", done.outcome.String(), "error", done.err, "namespace", name, "remedy", temporal.Remedy(done.err, name))
		}
		r.tellPauses()
		r.hungry = true
		return
	case temporal.Throttled:
		if limiter.learn(now, done.sent, true) {
			r.Log.Warn("Temporal limits the rate of starts; slowing down. Items stay queued and no attempt is counted",
				"starts_per_second", limiter.rate, "error", done.err, "namespace", name)
		}
		r.hungry = true
	default:
		limiter.learn(now, done.sent, false)
	}
	if r.of.accepted(name) {
		r.tellPauses()
		r.hungry = true
		r.Log.Info("Temporal accepts workflows again; resuming starts", "namespace", name)
	}
}

// tellPauses reports what is paused if that has changed: with an item's outcome, or with an answer to a probe.
func (r *run) tellPauses() {
	paused, all := r.of.paused(time.Now())
	if all != r.refused || paused != r.pausedNamespaces {
		r.refused, r.pausedNamespaces = all, paused
		r.observer.Paused(paused, all)
	}
}

// free lifts rate limits that no longer hold anything back.
func (r *run) free(ctx context.Context, now time.Time) {
	for name, n := range r.of.known {
		if n.limiter.frees(now) {
			r.Log.InfoContext(ctx, "Temporal no longer limits the rate of starts; back to full speed", "namespace", name)
		}
	}
}
