package simpg

import (
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// What must hold for each claim of the simulated Postgres, by a full count, and what can still start.

// check compares a claim with a full count.
func (s *Postgres) check(tx *Tx, owner int, p schedule.Proposal, taken []*itemRow) {
	leased := len(taken)
	var given []*itemRow
	for _, row := range s.rows {
		if !slices.ContainsFunc(taken, func(o *itemRow) bool { return o.id == row.id }) {
			if s.leasedIn(tx, row) { // even if this claim puts it back: see claim_pick
				leased++
			}
			continue
		}
		expired := row.status == rowClaimed && !row.lease.After(s.now) // this claim has put it back
		if row.status != rowWaits && row.status != rowDoubt && !expired {
			s.broken = fmt.Sprintf("item %d is taken twice", row.id)
		}
		if row.status == rowWaits {
			given = append(given, row)
		}
	}
	if !slices.IsSortedFunc(p.Entries, func(a, b schedule.Entry) int { return last(a) - last(b) }) {
		s.broken = fmt.Sprintf("bursts are not asked for last: %+v", p.Entries)
	}
	s.checkUnanswered(owner, taken, given)
	s.checkWorkspaces(p, taken)
	s.checkKeys(tx, given)
	s.checkRates(tx, given)
	if len(taken) > 0 && leased > W {
		s.broken = fmt.Sprintf("%d are leased", leased)
	}
}

// last orders bursts behind other entries.
func last(e schedule.Entry) int {
	if e.Burst {
		return 1
	}
	return 0
}

// overtaken says since when claims give other items though an unanswered start is due, and how many have. token is its
// last claim's: after another claim of it, the count begins again.
type overtaken struct {
	since  time.Time
	claims int
	token  int64
}

// late reports whether that is too much: a replica whose claim has put the item back learns of it by its next look,
// which may be a poll.
func (o overtaken) late(now time.Time) bool {
	return o.claims > 8 && now.Sub(o.since) > 12*time.Second
}

// checkUnanswered checks that unanswered starts are repeated before other items are started. A replica that repeats
// one, of those that it has or takes, may leave the others to other replicas. One that tries whether Temporal accepts
// starts again prefers other items: see Fresh.
func (s *Postgres) checkUnanswered(owner int, taken, given []*itemRow) {
	repeats := func(r *itemRow) bool { return r.status == rowClaimed && r.owner == owner && r.unknown }
	if slices.ContainsFunc(s.rows, repeats) {
		return
	}
	for _, r := range s.rows {
		due := r.status == rowDoubt && !r.locked && r.lost < 2 && !r.due.After(s.now) && !s.skips(r) && s.allowed == nil
		switch {
		case !due || slices.ContainsFunc(taken, func(o *itemRow) bool { return o.id == r.id }):
			delete(s.overtaken, r.id)
		case len(given) > 0 && len(given) == len(taken) && !s.Fresh:
			o := s.overtaken[r.id]
			if o.token != r.token || r.due.After(o.since) {
				o = overtaken{since: s.now, token: r.token}
			}
			o.claims++
			if s.overtaken[r.id] = o; o.late(s.now) && s.Lies != "leases end early" {
				s.broken = fmt.Sprintf("the unanswered start of item %d is not repeated", r.id)
			}
		}
	}
}

// checkWorkspaces checks each item that a claim gives, in the claim's order, against the limit of its workspace or, if
// its entry bursts, against the burst limit.
func (s *Postgres) checkWorkspaces(q schedule.Proposal, taken []*itemRow) {
	held := s.slots()
	for _, row := range taken {
		if s.rows[row.id].holds() {
			continue // an unanswered start, which has its slot
		}
		e := q.Entries[slices.IndexFunc(q.Entries, func(e schedule.Entry) bool {
			return e.Workspace == row.workspace && e.Priority == row.priority && e.Key == row.key
		})]
		limit := s.limits[row.workspace[0]]
		if held[row.workspace]++; held[row.workspace] > limit {
			s.Beyond++
		}
		if limit == 0 || held[row.workspace] > limit && (!e.Burst || held[row.workspace] > s.burstLimit(row.workspace)) {
			s.broken = fmt.Sprintf("workspace %d has %d of %d to %d, burst %t", row.workspace[0], held[row.workspace], limit,
				s.burstLimit(row.workspace), e.Burst)
		}
	}
}

// Startable counts the items that could start if nothing ended: their workspaces and keys have room.
func (s *Postgres) Startable() (n int) {
	held := s.slots()
	for _, row := range s.rows[1:] {
		if row.locked || row.status == rowWaits && held[row.workspace] < s.burstLimit(row.workspace) &&
			!s.keyFull(scope{row.workspace, row.key}) && !s.keyFull(scope{everywhere, row.key}) {
			n++
		}
	}
	return n
}

// slots counts the items of each workspace that hold a slot.
func (p *tables) slots() map[schedule.WorkspaceID]int {
	held := map[schedule.WorkspaceID]int{}
	for _, row := range p.rows {
		if row.holds() {
			held[row.workspace]++
		}
	}
	return held
}

// checkKeys compares the keys of a claim that gives items with a full count.
func (s *Postgres) checkKeys(tx *Tx, gives []*itemRow) {
	for _, l := range s.keyLimits {
		mine, held := 0, 0
		for _, r := range s.rows {
			if l.covers(r) && r.holds() {
				held++
			}
		}
		for _, r := range gives {
			if l.covers(r) {
				mine++
			}
		}
		if mine > 0 && held+mine > l.most {
			s.broken = fmt.Sprintf("key %s in %d has %d of %d", l.key, l.workspace[0], held+mine, l.most)
		}
		for _, rate := range l.rates {
			started := mine
			for _, o := range s.started {
				if o.limit == l.id && o.per == rate.Per && o.at.After(s.now.Add(-rate.Per)) {
					started++
				}
			}
			if mine > 0 && started > rate.Most {
				s.broken = fmt.Sprintf("key %s in %d starts %d of %d in %s", l.key, l.workspace[0], started, rate.Most, rate.Per)
			}
			for range mine {
				tx.started = append(tx.started, exactStart{tx.xid, l.id, s.now, rate.Per})
			}
		}
	}
}
