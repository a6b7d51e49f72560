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
	l := s.workspaces[c.Workspace]
	if l == nil {
		if !c.Waits {
			s.freed(nil, c.Keys) // nothing waits in the workspace, or it would be known
			return
		}
		l = s.add(c.Workspace)
	}
	s.name(l, c.Number)
	s.freed(l, c.Keys)
	if c.Waits {
		s.waits(l, c.Priority, c.Key, Position{Due: c.Due}, c.Items)
		if c.Again {
			s.free(l, 1)
		}
		return
	}
	if s.free(l, c.Items); c.Items == 0 {
		l.limit = unknownLimit
	}
}

// LearnAll discards all known limits and makes every workspace available again.
func (s *Schedule) LearnAll() {
	s.forgetKeys(s.keys)
	for _, l := range s.workspaces {
		s.forgetKeys(l.keys)
		l.limit = unknownLimit
		s.reopen(l)
	}
}

// forgetKeys discards all known limits of keys.
func (s *Schedule) forgetKeys(keys map[string]*key) {
	for _, k := range keys {
		k.room, k.tried = unknownLimit, false
		s.turn(k, false, time.Time{})
	}
}

// Unanswered sets when the first unanswered start is to be repeated, and whether it may have crashed its holders. A
// zero time means that there is none.
func (s *Schedule) Unanswered(due time.Time, suspect bool) { s.unansweredAt, s.suspect = due, suspect }

// Named applies a change that a notification reports for the workspace with this number. Any role can send
// notifications. Named returns false if the table must be looked at: the workspace is not known, or the time is not
// plausible, or the workspace seems to be full. An end is announced only if items wait in its workspace, so slots may
// have become free since.
func (s *Schedule) Named(number int64, c Change) bool {
	id, known := s.numbers[number]
	if year := c.Due.UTC().Year(); !known || c.Waits && (year < 2000 || year > 2200) {
		return false // no item has such a time, and Postgres may not support it
	}
	c.Workspace, c.Number = id, number
	l := s.workspaces[id]
	full := c.Waits && l != nil && l.closed
	s.Learn(c)
	return !full
}

// freed makes limit keys available again, of which items gave their slots back. The workspace is nil if it is not
// known.
func (s *Schedule) freed(l *workspace, keys []string) {
	for _, name := range keys {
		if s.reopenKey(s.keys[name]); l != nil {
			s.reopenKey(l.keys[name])
		}
	}
}

// waits records that items of a key wait at a level, from a position on.
func (s *Schedule) waits(l *workspace, priority int, name string, from Position, items int) {
	n, found := slices.BinarySearchFunc(l.levels, priority, func(v *level, p int) int { return p - v.priority })
	if !found {
		l.levels = slices.Insert(l.levels, n, newLevel(l, priority))
	}
	v := l.levels[n]
	s.takeOut(v)
	x := v.queue(name)
	if x == nil {
		x = s.addQueue(v, name, from, items)
	} else {
		x.takeOut()
		if from.Before(x.from) {
			x.from = from
		}
		if x.items > 0 && items > 0 {
			x.items += items
		} else {
			x.items = 0
		}
		if x.passed || x.short { // the new items may use other namespaces
			x.passed, x.short, x.not = false, false, time.Time{}
		}
	}
	x.place()
	s.place(v)
	s.fill(l)
}

// free records that items of a workspace gave their slots back.
func (s *Schedule) free(l *workspace, items int) {
	s.opens(l)
	l.held = max(l.held-items, 0)
	s.reopen(l)
}

// reopen makes a workspace available again.
func (s *Schedule) reopen(l *workspace) {
	s.opens(l)
	l.closed = false
	for _, v := range l.levels {
		s.takeOut(v)
		v.not = l.rested
		s.place(v)
	}
}
