package schedule

import (
	"slices"
	"time"
)

// Waiting is a level of a lane with waiting items, as read from Postgres.
type Waiting struct {
	Lane     Lane
	Number   int64
	Priority int
	From     Position
	// Held is how many items of the lane hold a slot. Limit is how many may; it is zero if the lane is paused, too.
	Held, Limit int
	Paused      bool
}

// Reset forgets everything except Aging and the count of turns.
func (s *Schedule) Reset() { *s = Schedule{Aging: s.Aging, served: s.served} }

// Load adds all levels with waiting items. It returns in how many lanes something is due that the schedule would not
// have asked for; after Reset that is every lane with something due. Lanes in changed are not counted, because they
// changed after all was read. Receipts are kept: a load does not hold the lock of claims.
func (s *Schedule) Load(now time.Time, all []Waiting, changed map[Lane]bool) (missed int) {
	s.ripen(now)
	waits := map[*lane]bool{}
	missing := map[*lane]bool{}
	for _, w := range all {
		if w.Priority < lowest || w.Priority > highest {
			continue
		}
		l := s.lanes[w.Lane]
		if l == nil {
			l = s.add(w.Lane)
		}
		waits[l] = true
		s.name(l, w.Number)
		v := l.level(w.Priority)
		due := !w.From.Due.After(now) && w.Held < w.Limit && !s.paused && !l.waits(now)
		if due && (v == nil || w.From.Due.Before(v.from.Due) || l.closed) && !missing[l] && !changed[w.Lane] {
			missing[l] = true
			missed++
		}
		if w.Held < w.Limit {
			s.freed(l)
			l.closed = false
		} else if !changed[w.Lane] {
			l.closed, l.paused = true, w.Paused
			for _, v := range l.levels {
				s.place(v)
			}
		}
		l.held, l.limit = w.Held, w.Limit
		s.waits(l, w.Priority, w.From, 0)
	}
	for id, l := range s.lanes {
		if !waits[l] && len(l.levels) == 0 {
			delete(s.lanes, id)
			if len(s.numbers) > mostNumbers {
				delete(s.numbers, l.number)
			}
		}
	}
	return missed
}

// waits reports whether the lane is skipped for a while, because of its rate limit, its namespaces, or locked rows.
func (l *lane) waits(now time.Time) bool {
	return slices.ContainsFunc(l.levels, func(v *level) bool { return v.not.After(now) })
}
