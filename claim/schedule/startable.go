package schedule

import "time"

// Tell sets the time at which the following changes are learnt.
func (s *Schedule) Tell(now time.Time) { s.clock = latest(s.clock, now) }

// startableFrom returns the last time, at most now, at which something other than the replicas is known to have held
// the key queue back: its workspace's limits or a pause, its key, W, or a namespace that accepts no workflows. A row
// that another transaction has locked does not count. Zero means that nothing is known to have held it back. A burst
// has been held back until now.
func (s *Schedule) startableFrom(x *keyQueue, now time.Time) time.Time {
	if x.level.workspace.bursts() {
		return now
	}
	from := latest(latest(s.heldBack, x.level.workspace.heldBack), x.heldBack)
	if from.After(now) {
		return now
	}
	return from
}

// opens notes that a workspace which was at its limit or paused is so no longer.
func (s *Schedule) opens(l *workspace) {
	if l.closed || l.bursts() {
		l.heldBack = latest(l.heldBack, s.clock)
	}
}

// heldAll notes that W or a pause held back everything at a claim.
func (s *Schedule) heldAll(now time.Time) {
	if s.capped || s.paused {
		s.heldBack = latest(s.heldBack, now)
	}
}
