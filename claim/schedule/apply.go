package schedule

import "time"

// Apply takes the answer to a proposal. It returns how many entries were asked for in vain.
func (s *Schedule) Apply(now time.Time, p Proposal, a Answer) (vain int) {
	if a.Epoch != s.epoch {
		s.forget(a.Epoch)
	}
	if a.Epoch != p.Epoch {
		p.Leased = Receipt{} // nor was it used
	}
	s.leased, s.paused = p.Leased.After(a.Leased, a.Last), a.Paused
	if a.Epoch == (Epoch{}) {
		s.leased = Receipt{} // the commit that brings the first epoch may be forgotten
	}
	if p.Leased.Held == 0 {
		s.countedAt = now
	}
	s.repeated(now, p, a)
	taken := a.Repeated
	last := -1 // that gave something
	for n := range p.Entries {
		if taken += a.Lanes[n].Taken; a.Lanes[n].Taken > 0 {
			last = n
		}
	}
	aged, ended := 0, a.ended(p, taken)
	for n, e := range p.Entries {
		cut := ended && n >= last             // it was not looked for
		aged += min(a.Lanes[n].Taken, e.aged) // what was not there takes nobody's turn
		if a.Lanes[n].Taken == 0 && !cut {
			vain++
		}
		if l := s.lanes[e.Lane]; l != nil {
			s.stands(now, l, e, a.Lanes[n], cut, a.Limited)
		}
	}
	s.owed = max(s.owed-agedShare*aged, 0) + taken
	s.capped = taken >= a.Room && taken < p.AtMost
	return vain
}

// ended says whether a claim took nothing more because it was to take no more.
func (a Answer) ended(p Proposal, taken int) bool {
	return a.Paused || taken >= min(p.AtMost, a.Room) || a.Limited && a.Repeated > 0
}

// forget gives up what was true in another epoch.
func (s *Schedule) forget(epoch Epoch) {
	s.epoch, s.leased = epoch, Receipt{}
	for _, l := range s.lanes {
		l.receipt = Receipt{}
	}
}

// repeated takes note of what came of the unanswered starts. Whether there are more, the next look says.
func (s *Schedule) repeated(now time.Time, p Proposal, a Answer) {
	if p.Unanswered == 0 {
		return
	}
	s.guarding = p.Alone && a.Repeated > 0
	switch {
	case a.Repeated > 0 && a.Repeated < p.Unanswered:
		s.doubt = time.Time{}
	case a.Repeated > 0 || a.Room == 0: // there may be more
	case p.Alone:
		s.besides = now.Add(passedOverFor)
	case a.Limited:
		s.doubtNot = now.Add(passedOverFor)
	default:
		s.doubtNot = now.Add(lockedFor)
	}
}

// stands takes note of how a lane stood.
func (s *Schedule) stands(now time.Time, l *lane, e Entry, st Standing, cut, limited bool) {
	for _, v := range l.levels {
		s.takeOut(v) // before anything changes that a heap is ordered by
	}
	s.name(l, st.Number)
	l.held, l.limit, l.receipt = st.Held, st.Limit, st.Receipt
	if s.epoch == (Epoch{}) {
		l.receipt = Receipt{} // as above
	}
	if st.Taken > 0 || st.PassedOver {
		s.served++
		l.served = s.served
	}
	if l.full = l.full && st.Taken == 0; !cut {
		cut = st.Taken >= st.Granted
	}
	if v := l.level(e.Priority); v != nil {
		s.left(now, v, st, cut, limited)
	}
	l.closed, l.paused = l.held >= l.limit && !st.Bound || st.Paused, st.Paused
	if st.Counted > costly {
		l.rested = now.Add(time.Duration(st.Counted) * rest)
	}
	for _, v := range l.levels {
		if st.RetryIn > 0 {
			v.not = now.Add(st.RetryIn)
		}
		s.place(v)
	}
	s.fill(l)
}

// left takes note of what a claim has left of a level.
func (s *Schedule) left(now time.Time, v *level, st Standing, cut, limited bool) {
	if st.Next == nil {
		s.remove(v)
		return
	}
	v.from, v.not, v.passed, v.short, v.deep = *st.Next, time.Time{}, st.PassedOver, false, !st.Next.Due.After(now)
	if v.items -= st.Taken; v.items < 0 {
		v.items = 0 // more than was known of
	}
	switch {
	case st.PassedOver:
		v.not = now.Add(passedOverFor)
	case !cut && v.deep && limited:
		v.short, v.not = true, now.Add(lockedFor)
	case !cut && v.deep: // somebody has it locked, and the lane's lower levels wait with it
		for _, o := range v.lane.levels {
			if o.priority <= v.priority {
				o.not = latest(o.not, now.Add(lockedFor))
			}
		}
	}
}

// level finds the level of a priority; nil: nothing waits at it.
func (l *lane) level(priority int) *level {
	for _, v := range l.levels {
		if v.priority == priority {
			return v
		}
	}
	return nil
}

// due says whether something of the lane is.
func (l *lane) due(now time.Time) bool {
	for _, v := range l.levels {
		if !v.from.Due.After(now) {
			return true
		}
	}
	return false
}

// room is how many more items the lane is believed to have slots for; always one, because only a claim knows.
func (l *lane) room() int { return max(l.limit-l.held, 1) }

// Defer leaves a lane alone until then, whatever is heard of its items.
func (s *Schedule) Defer(id Lane, until time.Time) {
	l := s.lanes[id]
	if l == nil {
		return
	}
	for _, v := range l.levels {
		s.takeOut(v)
		v.not = until
		s.place(v)
	}
}

// Reopened has lanes asked for again of which namespaces allowed no more; all: those that were passed over, too.
func (s *Schedule) Reopened(all bool) {
	if all {
		s.doubtNot, s.besides = time.Time{}, time.Time{}
	}
	for _, l := range s.lanes {
		for _, v := range l.levels {
			if v.short || v.passed && all {
				v.short, v.passed, v.not = false, false, time.Time{}
				s.place(v)
			}
		}
	}
}
