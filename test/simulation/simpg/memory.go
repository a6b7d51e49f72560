package simpg

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// What replicas read from the simulated Postgres into their memory: see sql/claim/memory.sql.

// news is what a look finds.
type news struct {
	now     snapshot
	changes []schedule.Change
	all     bool // all limits may have changed
	gap     bool
}

// keyQueue identifies a key queue.
type keyQueue struct {
	schedule.WorkspaceID
	priority int
	key      string
}

// look simulates the statement look of sql/claim/memory.sql. It reads at most so many new items.
func (p *tables) look(seen snapshot, most int) (news news) {
	if news.now = p.snapshot(); seen.xmin() < p.trimmed || seen.xmax > news.now.xmax {
		news.gap = true
		return news
	}
	came := map[keyQueue]int{}
	for _, r := range p.rows {
		if r.status != rowWaits || seen.sees(r.xid) || most == 0 {
			continue
		}
		most--
		at := keyQueue{r.workspace, r.priority, r.key}
		n, found := came[at]
		if !found {
			n, came[at] = len(news.changes), len(news.changes)
			news.changes = append(news.changes,
				schedule.Change{Workspace: r.workspace, Waits: true, Priority: r.priority, Key: r.key, Due: r.due})
		}
		c := &news.changes[n]
		if c.Items++; r.due.Before(c.Due) {
			c.Due = r.due
		}
	}
	for _, m := range p.marks {
		switch {
		case seen.sees(m.xid):
		case m.all:
			news.all = true
		default:
			news.changes = append(news.changes, m.Change)
		}
	}
	return news
}

// load is sql/claim/memory.sql, of some rows.
func (p *tables) load(of func(*itemRow) bool) []schedule.Waiting {
	all, places, held := []schedule.Waiting{}, map[keyQueue]int{}, p.slots()
	for _, r := range p.rows {
		if r.status != rowWaits || !of(r) {
			continue
		}
		n, found := places[keyQueue{r.workspace, r.priority, r.key}]
		if !found {
			places[keyQueue{r.workspace, r.priority, r.key}] = len(all)
			all = append(all,
				schedule.Waiting{Workspace: r.workspace, Number: int64(r.workspace[0]), Priority: r.priority, Key: r.key,
					From: r.position(), Held: held[r.workspace], Limit: p.limits[r.workspace[0]],
					BurstLimit: p.burstLimit(r.workspace),
					OwnFull:    p.keyFull(scope{r.workspace, r.key}), AllFull: p.keyFull(scope{everywhere, r.key})})
		} else if r.position().Before(all[n].From) {
			all[n].From = r.position()
		}
	}
	return all
}

// unansweredAt returns when the first unanswered start is to be repeated.
func (p *tables) unansweredAt() (due time.Time, suspect bool) {
	for _, r := range p.rows {
		if r.status == rowDoubt && (due.IsZero() || r.due.Before(due)) {
			due, suspect = r.due, r.lost >= 2
		}
	}
	return due, suspect
}

// leasedIn reports whether a row is leased as a transaction sees it, which may have settled it.
func (p *tables) leasedIn(tx *Tx, r *itemRow) bool {
	if mine := tx.version(r); mine != nil && mine.status == rowDispatched {
		return false
	}
	return r.status == rowClaimed
}

// skips reports whether an item is parked.
func (p *tables) skips(r *itemRow) bool { return p.parked[r.id].After(p.now) }

// lets reports whether a claim may take another item of a row's lane, and counts it.
func (p *tables) lets(allowed map[string]int, r *itemRow) bool {
	if allowed == nil {
		return true
	}
	lane := p.laneOf(r.workspace)
	left, limited := allowed[lane]
	if limited && left == 0 {
		return false
	}
	if limited {
		allowed[lane]--
	}
	return true
}
