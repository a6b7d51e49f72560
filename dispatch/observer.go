package dispatch

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

// Observer is told what the dispatcher does, for metrics and traces. Its methods must not block. They are called from
// several goroutines.
type Observer interface {
	// Woken is called before each claim. source is the reason to look.
	Woken(source string)
	// Claimed is called after each claim, which also ended the claims of the settled items.
	Claimed(began time.Time, batch claim.Batch, settled []int64, err error)
	// Stalled is called after a claim of an item that had been startable for that long, more than StallAfter, while this
	// replica knew that something waits and had a free worker.
	Stalled(time.Duration)
	// Starting is called before a workflow is started, with the request to send. It may change the request's
	// Traceparent. started is called with the result.
	Starting(request *claim.Item) (started func(runID string, outcome engine.Outcome, err error))
	// Fails is called before an item is settled as failed, with the outcome that ends it. It may not have been started.
	Fails(item *claim.Item, outcome engine.Outcome)
	// Settled is called after each settle other than a claim's.
	Settled(began time.Time, verb claim.Verb, settled []int64, err error)
	// Renewed is called after each heartbeat.
	Renewed(err error)
	// Lost is called when this replica could not end an item's claim. Each dispatch ends with exactly one Lost or one
	// settlement.
	Lost(itemID int64)
	// Paused is called when pauses may have changed. namespaces is how many accept no workflows; all means that only
	// probes are claimed, and cause is the last answer, or its absence, that paused something.
	Paused(namespaces int, all bool, cause error)
}

// noObserver is the Observer of a dispatcher without one.
type noObserver struct{}

func (noObserver) Woken(string)                                   {}
func (noObserver) Claimed(time.Time, claim.Batch, []int64, error) {}
func (noObserver) Stalled(time.Duration)                          {}
func (noObserver) Starting(*claim.Item) func(string, engine.Outcome, error) {
	return func(string, engine.Outcome, error) {}
}
func (noObserver) Fails(*claim.Item, engine.Outcome)             {}
func (noObserver) Settled(time.Time, claim.Verb, []int64, error) {}
func (noObserver) Renewed(error)                                 {}
func (noObserver) Lost(int64)                                    {}
func (noObserver) Paused(int, bool, error)                       {}

// StallAfter is the time from which an interruption of claims counts as a stall.
const StallAfter = 50 * time.Millisecond

// stall measures interruptions of claims: how long a claimed item was startable while this replica knew that something
// waits and had a free worker. It tells a replica that does not claim from one that has nothing to claim.
type stall struct {
	known time.Time // since when something may wait that no claim has asked for; zero: nothing is known to
	free  time.Time // since when a worker has been free; zero: none is
}

// knows records that something may wait.
func (s *stall) knows(now time.Time) {
	if s.known.IsZero() {
		s.known = now
	}
}

// workers records whether a worker is free.
func (s *stall) workers(now time.Time, free bool) {
	switch {
	case !free:
		s.free = time.Time{}
	case s.free.IsZero():
		s.free = now
	}
}

// stopped records the answer to a claim. It returns how long claims had been interrupted before it.
func (s *stall) stopped(now time.Time, batch claim.Batch) (stopped time.Duration) {
	if !s.known.IsZero() && !s.free.IsZero() {
		for _, item := range batch.Items {
			stopped = max(stopped, item.Startable)
		}
		stopped = min(stopped, now.Sub(s.known), now.Sub(s.free))
	}
	if batch.Asked > 0 {
		s.known = time.Time{}
	}
	if batch.More || batch.Arrived > 0 && len(batch.Items) == 0 {
		s.knows(now)
	}
	return stopped
}

// reportStall reports a stall before a claim.
func (r *run) reportStall(batch claim.Batch) {
	if stopped := r.stall.stopped(time.Now(), batch); stopped > StallAfter {
		r.observer.Stalled(stopped)
	}
}
