package schedule

import "time"

// Apply applies the answer to a proposal. It returns how many entries yielded no item although the claim came to them.
func (s *Schedule) Apply(now time.Time, p Proposal, a Answer) (vain int) {
	if a.Epoch != s.epoch {
		s.forget(a.Epoch)
	}
	if a.Epoch != p.Epoch {
		p.Leased = Receipt{} // a receipt of another epoch is invalid, so the claim did not use it
	}
	s.leased, s.paused = p.Leased.After(a.Leased, a.Last), a.Paused
	if a.Epoch == (Epoch{}) {
		s.leased = Receipt{} // the commit that creates the first epoch may be lost
	}
	if p.Leased.Held == 0 {
		s.countedAt = now
	}
	s.answered(now, p, a)
	taken := a.Unanswered
	last := -1 // the last entry that yielded an item
	for n := range p.Entries {
		if taken += a.Standings[n].Taken; a.Standings[n].Taken > 0 {
			last = n
		}
	}
	s.applied = s.served
	aged, ended := 0, a.ended(p, taken)
	for n, e := range p.Entries {
		cut := ended && n >= last                 // the claim may have stopped before this entry or within it
		aged += min(a.Standings[n].Taken, e.aged) // an entry that yields nothing uses up no share of age
		if a.Standings[n].Taken == 0 && !cut {
			vain++
		}
		if l := s.workspaces[e.Workspace]; l != nil {
			s.stands(now, l, e, a, n, cut)
		}
	}
	s.owed = max(s.owed-agedShare*aged, 0) + taken
	s.capped = taken >= a.Room && taken < p.AtMost
	s.heldAll(now)
	return vain
}

// ended reports whether a claim stopped because it was not allowed to take more.
func (a Answer) ended(p Proposal, taken int) bool {
	return a.Paused || taken >= min(p.AtMost, a.Room) || a.Limited && a.Unanswered > 0
}

// forget drops the receipts of the previous epoch.
func (s *Schedule) forget(epoch Epoch) {
	s.epoch, s.leased = epoch, Receipt{}
	for _, l := range s.workspaces {
		l.receipt = Receipt{}
	}
}

// answered records the result for unanswered starts. The next look reports whether there are more.
func (s *Schedule) answered(now time.Time, p Proposal, a Answer) {
	if p.Unanswered == 0 {
		return
	}
	s.guarding = p.Alone && a.Unanswered > 0
	switch {
	case a.Unanswered > 0 && a.Unanswered < p.Unanswered:
		s.unansweredAt = time.Time{}
	case a.Unanswered > 0 || a.Room == 0: // there may be more
	case p.Alone:
		s.suspectNotBefore = now.Add(passedOverFor)
	case a.Limited:
		s.unansweredNotBefore = now.Add(passedOverFor)
	default:
		s.unansweredNotBefore = now.Add(lockedFor)
	}
}

// stands records the state of a workspace after the nth entry. cut means that the claim stopped before or within it.
func (s *Schedule) stands(now time.Time, l *workspace, e Entry, a Answer, n int, cut bool) {
	st := a.Standings[n]
	for _, v := range l.levels {
		s.takeOut(v) // because the heaps are ordered by what changes below
	}
	s.name(l, st.Number)
	l.held, l.limit, l.burstLimit, l.receipt = st.Held, st.Limit, int32(st.BurstLimit), st.Receipt
	if delete(s.rated, l.id); st.Rated {
		s.rated[l.id] = true
	}
	if st.Bound {
		// Held may be too high: as far as known, the workspace need not burst.
		l.held = min(l.held, max(l.limit-1, 0))
	}
	if s.epoch == (Epoch{}) {
		l.receipt = Receipt{} // the first epoch may be lost, as in Apply
	}
	if st.Taken > 0 || st.PassedOver || !cut { // a turn is used up even if it yields nothing
		nothingDue := st.Granted > 0 && !st.leaves(a.At) // then an empty turn does not mean that the workspace is full
		l.proven = st.Taken > 0 || l.proven && (nothingDue || l.served > s.applied)
		s.served++
		l.served = s.served
	}
	if l.full = l.full && st.Taken == 0; !cut {
		cut = st.Taken >= st.Granted
	}
	if x := l.queue(e.Priority, e.Key); x != nil {
		s.left(now, x, a, st, cut)
	}
	s.limits(a.At, l, e.Key, st)
	l.closed, l.paused = l.held >= l.slots() && !st.Bound || st.Paused, st.Paused
	if st.Counted > costly {
		l.rested = latest(l.rested, now.Add(time.Duration(st.Counted)*rest))
	}
	if st.RetryIn > 0 {
		l.heldBack = a.At.Add(st.RetryIn)
	}
	for _, v := range l.levels {
		s.takeOut(v)
		if st.RetryIn > 0 {
			v.not = a.At.Add(st.RetryIn)
		}
		s.place(v)
	}
	s.fill(l)
}

// left records what a claim has left of a key queue. The caller has taken the workspace's levels out of all heaps.
func (s *Schedule) left(now time.Time, x *keyQueue, a Answer, st Standing, cut bool) {
	v := x.level
	if st.Next == nil {
		s.removeQueue(x)
		return
	}
	x.takeOut()
	due := st.leaves(a.At)
	x.from, x.not, x.passed, x.short, x.deep = *st.Next, time.Time{}, st.PassedOver, false, due && (x.deep || st.Taken > 0)
	if x.items -= st.Taken; x.items < 0 {
		x.items = 0 // more were taken than were known; zero means unknown
	}
	switch {
	case st.PassedOver:
		x.not = now.Add(passedOverFor)
		x.heldBack = x.not
	case !cut && due && a.Limited:
		x.short, x.not = true, now.Add(lockedFor)
		x.heldBack = x.not
	case !cut && due: // another transaction has locked the next item; lower levels of the workspace must not overtake it
		for _, o := range v.workspace.levels {
			if o.priority <= v.priority {
				o.not = latest(o.not, now.Add(lockedFor))
			}
		}
	}
	x.place()
}

// level returns the level of a priority, or nil if nothing waits there.
func (l *workspace) level(priority int) *level {
	for _, v := range l.levels {
		if v.priority == priority {
			return v
		}
	}
	return nil
}

// due reports whether the workspace has a due item.
func (l *workspace) due(now time.Time) bool {
	for _, v := range l.levels {
		if v.plain != nil && !v.plain.from.Due.After(now) || v.ripe.len() > 0 ||
			v.unripe.len() > 0 && !v.unripe.first().due().After(now) {
			return true
		}
	}
	return false
}

// room returns how many free slots the workspace is believed to have, up to its burst limit if it bursts. It is at
// least one, because only a claim knows the true number.
func (l *workspace) room() int {
	if l.bursts() {
		return l.slots() - l.held
	}
	return max(l.limit-l.held, 1)
}

// Defer skips the workspace until the given time. Reports of new items and of free slots do not shorten that.
func (s *Schedule) Defer(id WorkspaceID, until time.Time) {
	l := s.workspaces[id]
	if l == nil {
		return
	}
	l.rested = until
	for _, v := range l.levels {
		s.takeOut(v)
		v.not = until
		s.place(v)
	}
}

// Reopened makes levels available again whose namespaces allowed no more items. If all is true, that includes levels
// and unanswered starts that were skipped.
func (s *Schedule) Reopened(all bool) {
	if all {
		s.unansweredNotBefore, s.suspectNotBefore = time.Time{}, time.Time{}
		s.heldBack = latest(s.heldBack, s.clock)
	}
	for _, l := range s.workspaces {
		for _, v := range l.levels {
			s.takeOut(v)
			for x := range v.queues() {
				if x.short || x.passed && all {
					x.takeOut()
					x.short, x.passed, x.not = false, false, time.Time{}
					x.heldBack = s.clock
					x.place()
				}
			}
			s.place(v)
		}
	}
}
