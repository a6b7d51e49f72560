package schedule

import (
	"slices"
	"time"
)

// Propose returns what to claim now. Only an answer, see Apply, updates what is known of the workspaces, so a claim
// without an answer changes nothing.
func (s *Schedule) Propose(now time.Time, want Want) Proposal {
	s.ripen(now)
	s.heldAll(now)
	p := Proposal{Want: want, AtMost: want.Free, Leased: s.leased, Epoch: s.epoch}
	if p.Leased.Held > 0 && (s.capped || !now.Before(s.countedAt.Add(countAgain))) {
		p.Leased = p.Leased.Recount()
	}
	s.guarding = s.guarding && want.Holding > 0
	if s.paused || want.Free <= 0 {
		return p
	}
	repeats := s.repeats(now)
	mayRepeat := max(want.Free-want.Reserved, 0)
	s.reserved = repeats && mayRepeat == 0
	suspect := repeats && s.suspect && !s.suspectNotBefore.After(now)
	// A suspect is dispatched alone: if it crashed the replica, everything held with it would be lost.
	s.busy = s.guarding || suspect && want.Holding > 0
	switch {
	case s.busy:
		return p
	case suspect:
		p.AtMost, p.Unanswered, p.Alone, p.Leased = 1, 1, true, p.Leased.Recount() // counts the owner's own leases, too
		return p
	case repeats && !want.Fresh:
		p.Unanswered = mayRepeat
	}
	d := draft{schedule: s, proposal: &p, now: now, free: want.Free, limited: want.Limited, careful: want.Careful,
		queues: map[*keyQueue]int{}, keys: map[*key]int{}, vague: map[*key]bool{},
		workspaces: map[*workspace]int{}, open: map[*workspace]bool{}}
	d.aged(now)
	d.turns()
	// Some of these items may not exist, so ask for as many more. The claim takes only as many as workers are free.
	d.free, d.behind = d.free+d.unsure, true
	if want.Limited {
		d.free = max(d.free, looks)
	}
	d.turns()
	// Others may be of workspaces or keys that are full. However many those are, they must not delay the workspaces that
	// got items when they were last asked for: ask for those, too.
	left := d.free
	if d.free = min(d.untried, want.Free); !d.shut {
		d.serve(&s.proven)
	}
	d.free = left
	if d.burst = true; !d.shut {
		d.serve(&s.bursting)
	}
	if repeats && len(p.Entries) == 0 {
		p.Unanswered = mayRepeat
	}
	return p
}

// repeats reports whether an unanswered start is to be repeated now.
func (s *Schedule) repeats(now time.Time) bool {
	return !s.unansweredAt.IsZero() && !s.unansweredAt.After(now) && !s.unansweredNotBefore.After(now)
}

// draft is a proposal under construction.
type draft struct {
	schedule   *Schedule
	proposal   *Proposal
	now        time.Time
	free       int
	unsure     int                 // how many of the requested items may not exist
	untried    int                 // how many are of workspaces or keys whose limits no claim has reported
	behind     bool                // now asking for items behind the unsure ones
	burst      bool                // now asking for items beyond the limits of their workspaces
	limited    bool                // namespaces are limited: the claim may take less than is requested
	careful    bool                // ask only for the highest level of a workspace
	queues     map[*keyQueue]int   // a key queue's index in the proposal's entries, plus one
	keys       map[*key]int        // how many items are requested per limit key
	vague      map[*key]bool       // keys of which more is requested than may exist
	last       int                 // the index of the entry that was asked for last
	workspaces map[*workspace]int  // how many items are requested per workspace
	open       map[*workspace]bool // workspaces from which more is requested than may exist
	shut       bool                // an open workspace may have room at this priority: ask for no lower one
}

// ask requests up to items items of a level. If items of several keys wait there, their shares are the same, and those
// that have been due longest come first. It returns how many items it requested, and whether more are known to wait.
func (d *draft) ask(v *level, items int) (asked int, more bool) {
	if v.ripe.len() == 1 {
		x := v.ripe.first()
		asked = d.askQueue(x, items)
		return asked, asked > 0 && x.items > 0
	}
	share := (items + v.ripe.len() - 1) / v.ripe.len()
	visits := items + len(d.queues) // bounds the cost of key queues that yield nothing
	v.ripe.walk(func(x *keyQueue) bool {
		n := d.askQueue(x, min(share, items-asked))
		asked, more = asked+n, more || n > 0 && x.items > 0
		visits--
		return asked < items && visits > 0
	})
	return asked, more
}

// askQueue requests up to items items of a key queue, limited by what is believed to wait there and by the room of its
// workspace and its key. It returns how many it requested.
func (d *draft) askQueue(x *keyQueue, items int) int {
	l := x.level.workspace
	place := d.queues[x]
	asked := 0
	if place > 0 {
		asked = d.proposal.Entries[place-1].Items
	}
	if d.behind && asked >= turn {
		return 0
	}
	items = min(items, d.free, l.room()-d.workspaces[l])
	if x.items > 0 {
		items = min(items, x.items-asked)
	}
	if items <= 0 {
		d.shut = d.shut || asked == 0 && d.open[l] // if the items asked for do not exist, there is room for this key queue
		return 0
	}
	if items = min(items, x.room()-max(d.keys[x.own], d.keys[x.all])); items <= 0 {
		if d.behind && (d.vague[x.own] || d.vague[x.all]) {
			d.free = 0 // if the items asked for do not exist, the key has room for this key queue: nothing may overtake it
		}
		return 0
	}
	d.open[l] = d.open[l] || x.items == 0 && (asked+items > 1 || !x.deep)
	if place == 0 {
		e := Entry{Workspace: l.id, Priority: x.level.priority, Key: x.name, From: x.from, Receipt: l.receipt,
			Burst: d.burst, Rated: d.schedule.rated[l.id], Startable: d.schedule.startableFrom(x, d.now)}
		d.proposal.Entries = append(d.proposal.Entries, e)
		place = len(d.proposal.Entries)
		d.queues[x] = place
	}
	if !x.tried() {
		d.untried += items
	}
	if x.items == 0 && !x.deep || d.limited {
		d.unsure += items
		if x.own != nil {
			d.vague[x.own], d.vague[x.all] = true, true
		}
	}
	d.last = place - 1
	d.proposal.Entries[d.last].Items += items
	d.workspaces[l] += items
	if x.own != nil {
		d.keys[x.own] += items
		d.keys[x.all] += items
	}
	if d.behind && x.items == 0 && !x.deep {
		d.free-- // only the first item of the key queue is known to exist
	} else {
		d.free -= items
	}
	return items
}

// hidden reports whether a careful draft must skip the level: its workspace has a higher level that may be asked for,
// and the first item there may be locked.
func (d *draft) hidden(l *level) bool {
	return d.careful && l.workspace.levels[0] != l && slices.ContainsFunc(l.workspace.levels, func(o *level) bool {
		return o.priority > l.priority && o.offered()
	})
}

// aged requests the share of the items that have been due longest: one in ten starts.
func (d *draft) aged(now time.Time) {
	s, overdue := d.schedule, now.Add(-d.schedule.Aging)
	share := min(s.owed/agedShare, d.free)
	var late []*level
	s.oldest.walk(func(l *level) bool {
		due := l.ripe.first().from.Due
		if due.Before(overdue) {
			late = append(late, l)
		}
		return len(late) < max(share, 1) && due.Before(overdue)
	})
	if len(late) == 0 {
		s.owed = 0 // an unused share is forfeited
	}
	for asked := true; asked && share > 0; {
		asked = false
		for _, l := range late {
			if share == 0 {
				break
			}
			if n, _ := d.ask(l, 1); n == 1 {
				asked, share = true, share-1
				d.proposal.Entries[d.last].aged++
			}
		}
	}
}

// turns requests the rest, by priority and then by the least recently served workspace.
func (d *draft) turns() {
	s := d.schedule
	for p := len(s.ready) - 1; p >= 0 && d.free > 0 && !d.shut; p-- {
		d.serve(&s.ready[p])
	}
}

// serve requests items of the levels of a heap, in its order.
func (d *draft) serve(h *levels) {
	// The share is rounded up. The last workspaces may get less, and come first in the next turn.
	share := (d.free + max(h.len(), 1) - 1) / max(h.len(), 1)
	if !d.limited {
		share = max(share, turn)
	}
	for again := true; again && d.free > 0; {
		again = false
		h.walk(func(l *level) bool {
			if !d.hidden(l) {
				_, more := d.ask(l, share)
				again = again || more
			}
			return d.free > 0
		})
	}
}
