package schedule

import (
	"maps"
	"slices"
	"time"
)

// Waiting is the waiting items of a limit key, or those without one, at a level of a workspace, as read from Postgres.
type Waiting struct {
	Workspace WorkspaceID
	Number    int64
	Priority  int
	Key       string
	From      Position
	// Held is how many items of the workspace hold a slot. Limit is how many may; it is also zero if the workspace is
	// paused.
	Held, Limit int
	// BurstLimit is how many may while no other workspace needs the workers.
	BurstLimit int
	Paused     bool
	// OwnFull and AllFull mean that the items' key is at its limit, in the workspace and over all workspaces.
	OwnFull, AllFull bool
}

// Changed is what has changed after waiting items were read. The zero value means nothing.
type Changed struct {
	// All means that limits of any workspace may have changed.
	All        bool
	Workspaces map[WorkspaceID]bool
	// Keys are the limit keys of which items gave their slots back.
	Keys map[string]bool
}

// Reset forgets everything except Aging and the number of the last turn.
func (s *Schedule) Reset() { *s = Schedule{Aging: s.Aging, served: s.served} }

// Missed returns those of the items read that are due and that the schedule would not ask for. It has missed them if it
// was told of everything since it was loaded. Missed leaves out workspaces that have changed meanwhile.
func (s *Schedule) Missed(now time.Time, all []Waiting, changed Changed) (missed []Waiting) {
	if s.paused || changed.All {
		return nil
	}
	s.ripen(now)
	for _, w := range all {
		l := s.workspaces[w.Workspace]
		switch {
		case w.Priority < lowest, w.Priority > highest, changed.Workspaces[w.Workspace]:
		case w.From.Due.After(now), w.Held >= w.slots(), w.OwnFull, w.AllFull:
		case l == nil:
			missed = append(missed, w)
		case l.waits(now):
		default:
			if x := l.queue(w.Priority, w.Key); x == nil || w.From.Due.Before(x.from.Due) || l.closed || x.blocked() {
				missed = append(missed, w)
			}
		}
	}
	return missed
}

// Load adds key queues of waiting items. It closes workspaces and keys that were full, except those that have changed
// meanwhile, which nothing would open again. It keeps receipts, because a load does not hold the lock of claims.
func (s *Schedule) Load(all []Waiting, changed Changed) {
	known := map[*workspace]bool{}
	for _, w := range all {
		if w.Priority < lowest || w.Priority > highest {
			continue
		}
		l := s.workspaces[w.Workspace]
		if l == nil {
			l = s.add(w.Workspace)
		}
		if !known[l] {
			known[l] = true
			s.holds(l, w, !changed.All && !changed.Workspaces[w.Workspace])
		}
		s.waits(l, w.Priority, w.Key, w.From, 0)
		if k := l.keys[w.Key]; k != nil {
			current := !changed.All && !changed.Keys[w.Key]
			s.loaded(k, w.OwnFull, current)
			s.loaded(s.keys[w.Key], w.AllFull, current)
		}
	}
}

// Forget forgets workspaces and keys without waiting items.
func (s *Schedule) Forget() {
	forget := func(_ string, k *key) bool { return k.queues.len() == 0 }
	maps.DeleteFunc(s.keys, forget)
	for id, l := range s.workspaces {
		maps.DeleteFunc(l.keys, forget)
		if len(l.levels) == 0 {
			delete(s.workspaces, id)
			delete(s.rated, id)
			if len(s.numbers) > mostNumbers {
				delete(s.numbers, l.number)
			}
		}
	}
}

// slots returns how many items of the workspace may hold a slot while no other workspace needs the workers.
func (w Waiting) slots() int { return max(w.Limit, w.BurstLimit) }

// holds records how many slots of a workspace are held. It closes a full workspace only if the figures are current.
func (s *Schedule) holds(l *workspace, w Waiting, current bool) {
	s.name(l, w.Number)
	if w.Held < w.slots() {
		s.opens(l)
		l.closed = false
	} else if current {
		l.closed, l.paused = true, w.Paused
	}
	l.held, l.limit, l.burstLimit = w.Held, w.Limit, int32(w.BurstLimit)
	for _, v := range l.levels {
		s.place(v)
	}
}

// loaded opens a key that is not full. It closes a full key only if the figures are current: if an item has ended
// since, and the schedule has already learnt of that end, nothing would open the key again.
func (s *Schedule) loaded(k *key, full, current bool) {
	if k.closed && !full {
		s.reopenKey(k)
	} else if full && current {
		s.turn(k, true, k.not)
	}
}

// waits reports whether the workspace is skipped for a while because of its rate of starts, its namespaces, or locked
// rows.
func (l *workspace) waits(now time.Time) bool {
	return slices.ContainsFunc(l.levels, func(v *level) bool {
		return v.not.After(now) || v.plain != nil && v.plain.not.After(now)
	})
}

// queue returns the key queue of a key at a priority, or nil if nothing waits there.
func (l *workspace) queue(priority int, name string) *keyQueue {
	if v := l.level(priority); v != nil {
		return v.queue(name)
	}
	return nil
}
