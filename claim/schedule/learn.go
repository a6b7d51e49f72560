package schedule

import (
	"slices"
	"time"
)

// Learn applies a change.
func (s *Schedule) Learn(c Change) {
	if c.Waits && (c.Priority < lowest || c.Priority > highest) {
		return
	}
	l := s.lanes[c.Lane]
	if l == nil {
		if !c.Waits {
			return // nothing waits there, or the lane would be known
		}
		l = s.add(c.Lane)
	}
	s.name(l, c.Number)
	if c.Waits {
		s.waits(l, c.Priority, Position{Due: c.Due}, c.Items)
		if c.Again {
			l.held = max(l.held-1, 0)
			s.reopen(l)
		}
		return
	}
	if l.held = max(l.held-c.Items, 0); c.Items == 0 {
		l.limit = unknown
	}
	s.reopen(l)
}

// LearnAll discards all known limits and makes every lane available again.
func (s *Schedule) LearnAll() {
	for _, l := range s.lanes {
		l.limit = unknown
		s.reopen(l)
	}
}

// Unanswered sets when the first unanswered start is to be repeated, and whether it may have crashed its holders. A
// zero time means that there is none.
func (s *Schedule) Unanswered(due time.Time, suspect bool) { s.doubt, s.suspect = due, suspect }

// Named applies a change that a notification reports for the lane with this number. Any role can send notifications.
// Named returns false if the lane is not known or the time is not plausible; then the table must be looked at.
func (s *Schedule) Named(number int64, c Change) bool {
	id, known := s.numbers[number]
	if year := c.Due.UTC().Year(); !known || c.Waits && (year < 2000 || year > 2200) {
		return false // no item has such a time, and Postgres may not support it
	}
	c.Lane, c.Number = id, number
	s.Learn(c)
	return true
}

// waits records that items wait at a level, from a position on.
func (s *Schedule) waits(l *lane, priority int, from Position, items int) {
	n, found := slices.BinarySearchFunc(l.levels, priority, func(v *level, p int) int { return p - v.priority })
	if !found {
		l.levels = slices.Insert(l.levels, n, newLevel(l, priority, from, items))
	} else {
		v := l.levels[n]
		if from.Before(v.from) {
			v.from = from
		}
		if v.items > 0 && items > 0 {
			v.items += items
		} else {
			v.items = 0
		}
		if v.passed || v.short { // the new items may use other namespaces
			v.passed, v.short, v.not = false, false, time.Time{}
		}
	}
	s.place(l.levels[n])
	s.fill(l)
}

// reopen makes a lane available again.
func (s *Schedule) reopen(l *lane) {
	s.freed(l)
	l.closed = false
	for _, v := range l.levels {
		v.not = l.rested
		s.place(v)
	}
}
