package schedule

import (
	"slices"
	"time"
)

// Propose says what to claim now. It leaves the memory as it is: an answer changes it, see Apply, and a claim without an answer
// changes nothing.
func (s *Schedule) Propose(now time.Time, want Want) Proposal {
	s.ripen(now)
	p := Proposal{AtMost: want.Free, Leased: s.leased, Epoch: s.epoch}
	if p.Leased.Held > 0 && (s.capped || !now.Before(s.countedAt.Add(countAgain))) {
		p.Leased = p.Leased.Anew()
	}
	s.guarding = s.guarding && want.Holding > 0
	if s.paused || want.Free <= 0 {
		return p
	}
	doubtful := s.doubtful(now)
	suspect := doubtful && s.suspect && !s.besides.After(now)
	// A suspect is handed over alone: what is held beside it would be lost with it.
	s.busy = s.guarding || suspect && want.Holding > 0
	switch {
	case s.busy:
		return p
	case suspect:
		p.AtMost, p.Unanswered, p.Alone, p.Leased = 1, 1, true, p.Leased.Anew() // what the owner holds is counted, too
		return p
	case doubtful:
		p.Unanswered = want.Free
	}
	d := draft{schedule: s, proposal: &p, free: want.Free, limited: want.Limited, careful: want.Careful,
		levels: map[*level]int{}, lanes: map[*lane]int{}, open: map[*lane]bool{}}
	d.aged(now)
	d.turns()
	// Some of that may not be there: as much is asked for behind it, and taken only as far as workers are left.
	d.free, d.behind = d.free+d.unsure, true
	if want.Limited {
		d.free = max(d.free, looks)
	}
	d.turns()
	return p
}

// doubtful says whether a start that nobody answered is to be repeated now.
func (s *Schedule) doubtful(now time.Time) bool {
	return !s.doubt.IsZero() && !s.doubt.After(now) && !s.doubtNot.After(now)
}

// draft is a proposal in the making.
type draft struct {
	schedule *Schedule
	proposal *Proposal
	free     int
	unsure   int            // how many items are asked for that may not be there
	behind   bool           // what is asked for now comes after those
	limited  bool           // what is asked for may not be given
	careful  bool           // of a lane only the highest level is asked for
	levels   map[*level]int // the entry of each in the proposal, and one
	lanes    map[*lane]int  // how many items of each are asked for
	open     map[*lane]bool // of these more is asked for than may be there
	shut     bool           // what comes may not be theirs: no lower priority is asked for
}

// ask asks for so many items of a level, as far as it is believed to have them and its lane room for them. It returns how many.
func (d *draft) ask(l *level, items int) int {
	items = min(items, d.free, l.lane.room()-d.lanes[l.lane])
	place := d.levels[l]
	asked := 0
	if place > 0 {
		asked = d.proposal.Entries[place-1].Items
	}
	if d.behind && asked >= turn {
		return 0
	}
	if l.items > 0 {
		items = min(items, l.items-asked)
	}
	if items <= 0 {
		d.shut = d.shut || asked == 0 && d.open[l.lane] // its lane may have room for it after all
		return 0
	}
	d.open[l.lane] = d.open[l.lane] || l.items == 0 && (asked+items > 1 || !l.deep)
	if place == 0 {
		e := Entry{Lane: l.lane.id, Priority: l.priority, From: l.from, Receipt: l.lane.receipt}
		d.proposal.Entries = append(d.proposal.Entries, e)
		place = len(d.proposal.Entries)
		d.levels[l] = place
	}
	if l.items == 0 && !l.deep || d.limited {
		d.unsure += items
	}
	d.proposal.Entries[place-1].Items += items
	d.lanes[l.lane] += items
	if d.behind && l.items == 0 && !l.deep {
		d.free-- // only its first item is known to be there
	} else {
		d.free -= items
	}
	return items
}

// hidden says whether a level comes after a higher one of its lane whose first item may be locked.
func (d *draft) hidden(l *level) bool {
	return d.careful && l.lane.levels[0] != l && slices.ContainsFunc(l.lane.levels, func(o *level) bool {
		return o.priority > l.priority && o.at[inReady] >= 0
	})
}

// aged asks for what is owed to those that have been due for longest: one of every ten starts.
func (d *draft) aged(now time.Time) {
	s, overdue := d.schedule, now.Add(-d.schedule.Aging)
	share := min(s.owed/agedShare, d.free)
	var late []*level
	s.oldest.walk(func(l *level) bool {
		if l.from.Due.Before(overdue) {
			late = append(late, l)
		}
		return len(late) < max(share, 1) && l.from.Due.Before(overdue)
	})
	if len(late) == 0 {
		s.owed = 0 // what is owed to nobody is forgotten
	}
	for asked := true; asked && share > 0; {
		asked = false
		for _, l := range late {
			if share > 0 && d.ask(l, 1) == 1 {
				asked, share = true, share-1
				d.proposal.Entries[d.levels[l]-1].aged++
			}
		}
	}
}

// turns asks for the rest, by priority and by who was served least recently.
func (d *draft) turns() {
	s := d.schedule
	for p := len(s.ready) - 1; p >= 0 && d.free > 0 && !d.shut; p-- {
		h := &s.ready[p]
		// Rounded up: who comes last may get less, and is first in the next turn.
		share := (d.free + max(h.len(), 1) - 1) / max(h.len(), 1)
		if !d.limited {
			share = max(share, turn)
		}
		for again := true; again && d.free > 0; {
			again = false
			h.walk(func(l *level) bool {
				again = !d.hidden(l) && d.ask(l, share) > 0 && l.items > 0 || again
				return d.free > 0
			})
		}
	}
}
