package schedule

import (
	"maps"
	"slices"
	"time"
)

// Waiting is the waiting items of a limit key, or those without one, at a level of a lane, as read from Postgres.
type Waiting struct {
	Lane     Lane
	Number   int64
	Priority int
	Key      string
	From     Position
	// Held is how many items of the lane hold a slot. Limit is how many may; it is zero if the lane is paused, too.
	Held, Limit int
	// Burst is how many may while no other lane needs the workers.
	Burst  int
	Paused bool
	// KeyFull means that the items' key is at its limit, in the lane or over all lanes.
	KeyFull bool
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
		x := l.line(w.Priority, w.Key)
		most := most(w.Limit, w.Burst)
		due := !w.From.Due.After(now) && w.Held < most && !w.KeyFull && !s.paused && !l.waits(now)
		if due && (x == nil || w.From.Due.Before(x.from.Due) || l.closed || x.blocked()) && !missing[l] && !changed[w.Lane] {
			missing[l] = true
			missed++
		}
		if !w.KeyFull && x != nil && x.blocked() {
			s.freed(l, []string{w.Key})
		}
		if w.Held < most {
			s.opens(l)
			l.closed = false
		} else if !changed[w.Lane] {
			l.closed, l.paused = true, w.Paused
			for _, v := range l.levels {
				s.place(v)
			}
		}
		l.held, l.limit, l.burst = w.Held, w.Limit, int32(w.Burst)
		s.waits(l, w.Priority, w.Key, w.From, 0)
	}
	maps.DeleteFunc(s.keys, func(_ string, k *key) bool { return k.forgettable(now) })
	for id, l := range s.lanes {
		maps.DeleteFunc(l.keys, func(_ string, k *key) bool { return k.forgettable(now) })
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
	return slices.ContainsFunc(l.levels, func(v *level) bool {
		return v.not.After(now) || v.plain != nil && v.plain.not.After(now)
	})
}

// line returns the line of a key at a priority, or nil if nothing waits there.
func (l *lane) line(priority int, name string) *line {
	if v := l.level(priority); v != nil {
		return v.line(name)
	}
	return nil
}
