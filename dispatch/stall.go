package dispatch

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

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

// claimed records the answer to a claim. It returns how long claims had been interrupted before it.
func (s *stall) claimed(now time.Time, batch claim.Batch) (stopped time.Duration) {
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

// tellStall reports a stall before a claim.
func (r *run) tellStall(batch claim.Batch) {
	if stopped := r.stall.claimed(time.Now(), batch); stopped > StallAfter {
		r.observer.Stalled(stopped)
	}
}
