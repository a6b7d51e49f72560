package simpg

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// The rates of the simulated Postgres' workspaces. Claims refill buckets and take from them as sql/claim/claim.sql and
// sql/claim/rare.sql do.

// bucket is a row of pgdispatch.rates.
type bucket struct {
	tokens, perSecond float64
	at                time.Time
}

// startPace is what the check knows of the starts of a workspace with a rate: how much time had passed at each. It
// counts time only while the clock runs forward.
type startPace struct {
	last    time.Time
	elapsed time.Duration
	starts  []pacedStart
}

// passes counts the time up to now.
func (p *startPace) passes(now time.Time) {
	p.elapsed += max(now.Sub(p.last), 0)
	p.last = now
}

type pacedStart struct {
	xid     int64
	elapsed time.Duration
}

// allows returns how many items the rate of a workspace allows to start. Rated is false if it has none.
func (p *tables) allows(workspace schedule.WorkspaceID, at time.Time) (most float64, rated bool) {
	rate, rated := p.rates[workspace]
	most = max(rate, 1)
	if b, found := p.buckets[workspace]; found {
		since := max(at.Sub(b.at), 0).Seconds()
		most = min(most, max(b.perSecond, 1), b.tokens+b.perSecond*since)
	}
	return most, rated
}

// debit takes what a claim was given out of the buckets of its workspaces, when it commits.
func (p *tables) debit(tx *Tx, q schedule.Proposal, a *schedule.Answer, given []*itemRow) {
	buckets := map[schedule.WorkspaceID]bucket{}
	for n, e := range q.Entries {
		allows, rated := p.allows(e.Workspace, a.At)
		if !rated {
			continue
		}
		items := 0
		for _, r := range given {
			if r.workspace == e.Workspace {
				items++
			}
		}
		st := &a.Standings[n]
		rate := p.rates[e.Workspace]
		if st.Rated = true; allows-float64(items) < 1 {
			st.RetryIn = time.Duration((1-allows+float64(items))/rate*float64(time.Second)) + time.Microsecond
		}
		if b, found := p.buckets[e.Workspace]; items > 0 || found && b.perSecond != rate {
			buckets[e.Workspace] = bucket{allows - float64(items), rate, a.At}
		}
	}
	if len(buckets) == 0 {
		return
	}
	tx.commits = func() {
		was := maps.Clone(p.buckets)
		maps.Copy(p.buckets, buckets)
		tx.undo = func() { p.buckets = was }
	}
}

// RateWorkspace sets how many items of a workspace may start in a second. Zero removes the rate.
func (s *Postgres) RateWorkspace(tx *Tx, workspace int, perSecond float64) {
	id := schedule.WorkspaceID{byte(workspace + 1)}
	if s.rates[id] = perSecond; perSecond == 0 {
		delete(s.rates, id)
	}
	delete(s.paces, id)
	tx.mark(schedule.Change{Workspace: id})
	tx.wakes = true
}

// checkRates compares the starts of a claim with all that came before since the rates of their workspaces were set.
func (s *Postgres) checkRates(tx *Tx, given []*itemRow) {
	for id, rate := range s.rates {
		pace := s.paces[id]
		if pace == nil {
			pace = &startPace{last: s.now}
			s.paces[id] = pace
		}
		pace.passes(s.now)
		starts := slices.Clone(pace.starts[max(len(pace.starts)-20, 0):])
		for _, r := range given {
			if r.workspace == id {
				starts = append(starts, pacedStart{tx.xid, pace.elapsed})
			}
		}
		for n, from := range starts {
			most := max(rate, 1) + rate*(pace.elapsed-from.elapsed).Seconds()
			if got := len(starts) - n; float64(got) > math.Ceil(most) {
				s.broken = fmt.Sprintf("workspace %d starts %d of %.1f within %s", id[0], got, most, pace.elapsed-from.elapsed)
			}
		}
		tx.paces = append(tx.paces, func() { pace.starts = starts })
	}
}

// forgetPaces undoes the starts of a commit.
func (p *tables) forgetPaces(xid int64) {
	for _, pace := range p.paces {
		pace.starts = slices.DeleteFunc(pace.starts, func(s pacedStart) bool { return s.xid == xid })
	}
}
