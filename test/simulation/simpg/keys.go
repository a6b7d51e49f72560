package simpg

import (
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// The limit keys of the simulated Postgres. Claims count them as sql/claim/rare.sql does.

// everywhere is the workspace of a limit over all workspaces.
var everywhere = schedule.WorkspaceID{255}

// Keys are the limit keys that items have.
var Keys = []string{"k", "l", "m"}

// keyLimit is a row of pgdispatch.limits.
type keyLimit struct {
	scope
	id    int
	most  int // NoLimit if it limits only rates
	rates []Rate
}

// Rate allows so many starts in a period.
type Rate struct {
	Most int
	Per  time.Duration
}

// countedStart is a start that counts for a period of a limit from until on, which is up to a twentieth of the period
// later than the start.
type countedStart struct {
	xid   int64
	limit int
	per   time.Duration
	until time.Time
}

// exactStart is a start at its exact time, for the check.
type exactStart struct {
	xid   int64
	limit int
	at    time.Time
	per   time.Duration
}

// keyRoom is what a limit allows a claim.
type keyRoom struct {
	room, starts int
	again        time.Duration
}

func (l *keyLimit) covers(r *itemRow) bool {
	return r.key == l.key && (l.workspace == everywhere || l.workspace == r.workspace)
}

func (p *tables) keyHolders(l *keyLimit) (held int) {
	for _, r := range p.rows {
		if l.covers(r) && r.holds() {
			held++
		}
	}
	return held
}

func (p *tables) keyLimit(s scope) *keyLimit {
	n := slices.IndexFunc(p.keyLimits, func(l *keyLimit) bool { return l.scope == s })
	if n < 0 {
		return nil
	}
	return p.keyLimits[n]
}

// keyRoom is what the limit of a scope allows a claim.
func (p *tables) keyRoom(s scope) keyRoom {
	free := keyRoom{room: schedule.NoLimit, starts: schedule.NoLimit}
	l := p.keyLimit(s)
	if l == nil {
		return free
	}
	if l.most != schedule.NoLimit {
		free.room = l.most - min(p.keyHolders(l), l.most) // the count stops at the limit
	}
	var soonest, latest time.Duration
	for _, r := range l.rates {
		started, again := 0, r.Per
		for _, s := range p.starts {
			if s.limit == l.id && s.per == r.Per && s.until.After(p.now.Add(-r.Per)) {
				started, again = started+1, min(again, s.until.Add(r.Per).Sub(p.now))
			}
		}
		free.starts = min(free.starts, r.Most-started)
		if soonest = min(soonest, again); soonest == 0 {
			soonest = again
		}
		if started >= r.Most {
			latest = max(latest, again)
		}
	}
	if free.again = soonest; latest > 0 {
		free.again = latest
	}
	return free
}

// standing is how a scope stands after a claim of so many of its items.
func (f keyRoom) standing(taken int) (st schedule.KeyStanding) {
	if st.Room = schedule.NoLimit; f.room != schedule.NoLimit {
		st.Room = max(f.room-taken, 0)
	}
	if f.starts <= taken {
		st.RetryIn = f.again + time.Microsecond
	}
	return st
}

// keyed returns the entries with the items that their limit keys allow, and what each scope allows.
func (p *tables) keyed(entries []schedule.Entry) ([]schedule.Entry, map[scope]keyRoom) {
	entries, rooms := slices.Clone(entries), map[scope]keyRoom{}
	own := func(id schedule.WorkspaceID) schedule.WorkspaceID { return id }
	all := func(schedule.WorkspaceID) schedule.WorkspaceID { return everywhere }
	for _, of := range []func(schedule.WorkspaceID) schedule.WorkspaceID{own, all} {
		used := map[scope]int{}
		for n := range entries {
			e := &entries[n]
			if e.Key == "" {
				continue
			}
			s := scope{of(e.Workspace), e.Key}
			rooms[s] = p.keyRoom(s)
			switch room := rooms[s]; p.Lies {
			case "a key's limit is not read":
				e.Items = max(min(e.Items, room.starts-used[s]), 0)
			case "a key's rate is not read":
				e.Items = max(min(e.Items, room.room-used[s]), 0)
			default:
				e.Items = max(min(e.Items, min(room.room, room.starts)-used[s]), 0)
			}
			used[s] += e.Items
		}
	}
	return entries, rooms
}

// keysStand adds the standing of the entries' keys to an answer, and counts the claim's starts for their rates.
func (p *tables) keysStand(tx *Tx, q schedule.Proposal, a *schedule.Answer, rooms map[scope]keyRoom, taken []*itemRow) {
	for n, e := range q.Entries {
		own, all := 0, 0
		for _, r := range taken {
			if all += same(r.key, e.Key); r.workspace == e.Workspace {
				own += same(r.key, e.Key)
			}
		}
		if e.Key != "" {
			a.Standings[n].Own = rooms[scope{e.Workspace, e.Key}].standing(own)
			a.Standings[n].All = rooms[scope{everywhere, e.Key}].standing(all)
		}
	}
	for _, r := range taken {
		for _, l := range p.keyLimits {
			for _, rate := range l.rates {
				if l.covers(r) {
					until := p.now.Truncate(rate.Per / 20).Add(rate.Per / 20)
					tx.starts = append(tx.starts, countedStart{tx.xid, l.id, rate.Per, until})
				}
			}
		}
	}
}

func same(a, b string) int {
	if a == b {
		return 1
	}
	return 0
}

// keyFull is the own_full and the all_full of sql/claim/memory.sql.
func (p *tables) keyFull(s scope) bool {
	l := p.keyLimit(s)
	return l != nil && p.keyHolders(l) >= l.most
}

// setKeyLimit inserts, changes or deletes the limit of a scope. A new row has no starts.
func (p *tables) setKeyLimit(tx *Tx, s scope, most int, rates []Rate, deleted bool) {
	l := p.keyLimit(s)
	switch {
	case deleted && l == nil:
		return
	case deleted:
		p.keyLimits = slices.DeleteFunc(p.keyLimits, func(o *keyLimit) bool { return o == l })
	case l == nil:
		p.limitIDs++
		p.keyLimits = append(p.keyLimits, &keyLimit{scope: s, id: p.limitIDs, most: most, rates: rates})
	default:
		l.most, l.rates = most, rates
	}
	tx.markAll()
}
