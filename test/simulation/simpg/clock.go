package simpg

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// BringBack is the statement bring_back: what lies further ahead than its own period begins anew.
func (s *Postgres) BringBack(tx *Tx) (times int, openTo int64) {
	ahead := func(at time.Time, by time.Duration) bool { return at.Sub(s.now) > by+time.Second }
	for n, l := range s.starts {
		if ahead(l.until, l.per/20) {
			s.starts[n].until = s.now.Truncate(l.per / 20).Add(l.per / 20)
			times++
		}
	}
	for id, b := range s.buckets {
		if ahead(b.at, 0) {
			b.at = s.now
			s.buckets[id] = b
			times++
		}
	}
	for id, until := range s.parked {
		if ahead(until, 15*time.Minute) {
			s.parked[id] = s.now
			times++
		}
	}
	if times > 0 {
		tx.markAll()
	}
	for n, one := range s.signals.all {
		if one.State == signalOpen && !one.Next.Equal(never) && ahead(one.Next, 30*time.Second) {
			if s.signals.all[n].Next = s.now; one.Try > 0 {
				s.signals.all[n].Next = s.now.Add(30 * time.Second)
			}
			times++
		}
	}
	s.signals.lookedAt = earlier(s.signals.lookedAt, s.now)
	for _, r := range s.rows {
		r.sentAt = earlier(r.sentAt, s.now)
		switch {
		case r.locked:
		case r.status == rowClaimed && (ahead(r.lease, Lease) || ahead(r.due, 0)):
			next := s.change(tx, r)
			next.due, next.lease = earlier(r.due, s.now), earlier(r.lease, s.now.Add(Lease))
			times++
		case (r.status == rowWaits || r.status == rowDoubt) && ahead(r.dueSet, 0) && ahead(r.due, 0):
			next := s.change(tx, r)
			next.due, next.dueSet = s.now.Add(max(r.due.Sub(r.dueSet), 0)), s.now
			tx.mark(schedule.Change{Workspace: r.workspace, Again: true, Waits: r.status == rowWaits, Priority: r.priority,
				Due: next.due, Key: r.key, Keys: r.keys()})
			times++
		}
	}
	return times, s.snapshot().xmax
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
