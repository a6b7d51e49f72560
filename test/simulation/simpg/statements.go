package simpg

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// Postgres is the simulated Postgres as replicas see it: the statements of package sql as Go values. Each runs in a
// transaction that the caller commits.
type Postgres struct {
	tables
	// Refuses are items whose claim a user's trigger rejects, and RefusesEnd those whose settle it rejects.
	Refuses, RefusesEnd map[int64]bool
	// Beyond counts the items that claims have given beyond the limits of their workspaces, as bursts.
	Beyond int
	// Fresh means that the next claim prefers other items to unanswered starts: see claim.Wanted.
	Fresh bool
	// Unseen means that there was an item that no trigger saw.
	Unseen bool
	// Full is a limit key without room; empty if there is none.
	Full    string
	broken  string
	signals signalTable
	ended   map[int64]bool // items whose workflow has ended
}

// New returns tables with these limits and burst limits of workspaces, and no items.
func New(r *rand.Rand, limits, bursts []int) *Postgres {
	s := empty(r)
	s.limits, s.bursts = append([]int{0}, limits...), append([]int{0}, bursts...) // no workspace has the number 0
	s.insert(s.Begin(true), schedule.WorkspaceID{}, "", 0, time.Time{})           // IDs begin at 1
	s.Close(s.open[0], false)
	return s
}

func empty(r *rand.Rand) *Postgres {
	return &Postgres{ended: map[int64]bool{}, Refuses: map[int64]bool{}, RefusesEnd: map[int64]bool{},
		tables: tables{r: r,
			parked: map[int64]time.Time{}, overtaken: map[int64]overtaken{}, forgotten: map[int64]bool{},
			rates:   map[schedule.WorkspaceID]float64{},
			buckets: map[schedule.WorkspaceID]bucket{}, paces: map[schedule.WorkspaceID]*startPace{},
			graphs: graphTable{newest: map[schedule.WorkspaceID]Graph{}, replace: map[int]int{},
				lost: map[schedule.WorkspaceID]int64{}}}}
}

// SetNow sets the clock of Postgres. For the check, starts of a time that is ahead count as starts of now.
func (s *Postgres) SetNow(now time.Time) {
	if s.steps++; now.Before(s.now) {
		clear(s.overtaken)
		for n := range s.started {
			s.started[n].at = earlier(s.started[n].at, now)
		}
		for _, pace := range s.paces {
			pace.passes(s.now)
			pace.last = now
		}
	}
	s.now = now
}

// Begin begins a transaction, whose commit a crash may lose unless it is synchronous.
func (s *Postgres) Begin(sync bool) *Tx { return s.begin(sync) }

// Close commits or rolls back a transaction.
func (s *Postgres) Close(tx *Tx, commits bool) {
	for _, next := range tx.rows {
		row := s.rows[next.id]
		if commits && row.status == rowDispatched && next.status == rowEnded && !s.ended[row.id] &&
			!s.forgotten[row.id] {
			s.broken = fmt.Sprintf("item %d is ended while its workflow runs", row.id)
		}
	}
	s.close(tx, commits)
}

// Open returns the transactions of applications and replicas that have not ended.
func (s *Postgres) Open() []*Tx { return s.open }

// Claims reports whether a transaction holds the lock of claims.
func (s *Postgres) Claims() bool { return s.claiming != nil }

// Locked reports whether an open transaction has locked one of these items.
func (s *Postgres) Locked(items []int64) bool {
	return slices.ContainsFunc(items, func(id int64) bool { return s.rows[id].locked })
}

// Broken says what is wrong, or nothing.
func (s *Postgres) Broken() string { return s.broken }

// Crash loses the last asynchronous commits and all open transactions. A failover also loses commits that were on disk.
func (s *Postgres) Crash(failover bool) {
	s.crash(failover)
}

// ForgottenItems counts the items that a failover has changed.
func (s *Postgres) ForgottenItems() int { return len(s.forgotten) }

// Forgotten reports whether a failover has changed an item.
func (s *Postgres) Forgotten(id int64) bool { return s.forgotten[id] }

// ForgetsLeases lets all items that may be leased count as changed by a failover.
func (s *Postgres) ForgetsLeases() {
	clear(s.overtaken)
	for _, row := range s.rows {
		s.forgotten[row.id] = s.forgotten[row.id] || row.status != rowEnded || row.locked
	}
}

// Insert adds an item. It returns its ID.
func (s *Postgres) Insert(tx *Tx, workspace int, key string, priority int, due time.Time) int64 {
	return s.insert(tx, schedule.WorkspaceID{byte(workspace + 1)}, key, priority, due).id
}

// Item is a row of a claim, of which the product reads more.
type Item struct {
	ID, Token          int64
	Workspace          schedule.WorkspaceID
	Attempts, Failures int
	Unanswered         bool
	UnansweredFor      time.Duration
	Tries              int
	MissingFor         time.Duration
	Lost               int
	Waited             time.Duration
	Priority           int
	Key                string
}

// Claimed is what a claim answers: its items, and the standing of its last row in JSON.
type Claimed struct {
	Items    []Item
	Standing string
	// Declined means that only the statement claim can serve it. Rated are the workspaces whose rates are a reason.
	Declined bool
	Rated    []schedule.WorkspaceID
	// Refused means that a user's trigger rejects one of the items, and Waits that another transaction has locked one. In
	// both cases the transaction must be rolled back.
	Refused, Waits bool
}

// Allow limits the items of lanes for the next claims, as the proposals say.
func (s *Postgres) Allow(lanes map[string]int, laneOf func(schedule.WorkspaceID) string) {
	if s.allowed, s.laneOf = lanes, laneOf; s.Lies == "lanes are not limited" {
		s.allowed = nil
	}
}

// Head is the statement claim_head: the first item that a claim is about to take, or none.
func (s *Postgres) Head(owner int, p schedule.Proposal) *Item {
	last, epochs := s.last, s.epochs
	tx := s.begin(true)
	_, taken := s.claimIn(tx, owner, p, s.now)
	s.close(tx, false)
	if s.last, s.epochs = last, epochs; len(taken) == 0 {
		return nil
	}
	return &Item{ID: taken[0].id, Workspace: taken[0].workspace}
}

// Park is the statement of that name.
func (s *Postgres) Park(id int64) (isNew bool) {
	_, found := s.parked[id]
	s.parked[id] = s.now.Add(time.Minute)
	return !found
}

// IsParked reports whether an item has been parked.
func (s *Postgres) IsParked(id int64) bool { return !s.parked[id].IsZero() }

// Plain is the statement claim_plain.
func (s *Postgres) Plain(tx *Tx, owner int, watches bool, p schedule.Proposal) Claimed {
	expired := func(r *itemRow) bool { return r.status == rowClaimed && !r.lease.After(s.now) }
	var rated []schedule.WorkspaceID
	for _, e := range p.Entries {
		if _, has := s.rates[e.Workspace]; has || s.Lies == "each plain claim is declined" {
			rated = append(rated, e.Workspace)
		}
	}
	if len(rated) > 0 || slices.ContainsFunc(s.rows, expired) || s.epoch == (schedule.Epoch{}) || s.epoch != p.Epoch {
		s.claiming = tx
		answer := schedule.Answer{At: s.now, Epoch: s.epoch, Last: s.last, Room: W,
			Standings: make([]schedule.Standing, len(p.Entries))}
		return Claimed{Standing: s.standingOf(p, answer, nil, true), Declined: true, Rated: rated}
	}
	return s.Claim(tx, owner, watches, p)
}

// Claim is the statement claim.
func (s *Postgres) Claim(tx *Tx, owner int, watches bool, p schedule.Proposal) (c Claimed) {
	answer, taken := s.claimIn(tx, owner, p, s.now)
	if c.Waits = s.waits; c.Waits {
		return c
	}
	if c.Refused = slices.ContainsFunc(taken, func(r *itemRow) bool { return s.Refuses[r.id] }); c.Refused {
		return c
	}
	s.check(tx, owner, p, taken)
	unanswered := taken[:answer.Unanswered]
	for _, row := range taken {
		row.attempts++
		if row.watcher = 0; watches {
			row.watcher = owner
		}
		i := Item{ID: row.id, Token: row.token, Workspace: row.workspace, Attempts: row.attempts,
			Failures: row.failures, Unanswered: slices.Contains(unanswered, row), Lost: row.lost,
			Waited: s.now.Sub(row.due), Priority: row.priority, Key: row.key}
		if !i.Unanswered || row.sentAt.IsZero() {
			row.sentAt = s.now
		} else {
			i.UnansweredFor = max(s.now.Sub(row.sentAt), time.Microsecond)
		}
		if i.Unanswered {
			i.Tries = row.tries
			if s.now.Sub(row.notFound.askedAt) < 3*time.Minute {
				i.MissingFor = s.now.Sub(row.notFound.since)
			}
		}
		c.Items = append(c.Items, i)
	}
	c.Standing = s.standingOf(p, answer, taken[answer.Unanswered:], false)
	return c
}

// standingOf is the inverse of the function schedule in package claim.
func (s *Postgres) standingOf(p schedule.Proposal, a schedule.Answer, given []*itemRow, declined bool) string {
	key := func(k schedule.KeyStanding, taken int) map[string]any {
		is := map[string]any{}
		if k.Room != schedule.NoLimit {
			is["room"] = k.Room + taken
		}
		if k.RetryIn > 0 {
			is["starts"], is["again"] = taken, (k.RetryIn - time.Microsecond).Seconds()
		}
		return is
	}
	entries, next := []map[string]any{}, []map[string]any{}
	for n, e := range p.Entries {
		st := a.Standings[n]
		is := map[string]any{"granted": st.Granted, "slots": st.Limit, "burst_slots": st.BurstLimit,
			"wake_number": int64(e.Workspace[0])}
		if !st.Bound && !declined {
			is["holders"], is["lowest_token"] = st.Counted, st.Receipt.Floor
		}
		if allows, rated := s.allows(e.Workspace, a.At); rated && !declined {
			is["rate"], is["allows"] = s.rates[e.Workspace], allows
		}
		own, all := 0, 0
		for _, row := range given {
			if all += same(row.key, e.Key); row.workspace == e.Workspace {
				own += same(row.key, e.Key)
			}
		}
		if e.Key != "" {
			is["own"], is["shared"] = key(st.Own, own), key(st.All, all)
		}
		entries = append(entries, is)
		if st.Next != nil {
			next = append(next, map[string]any{"entry": n + 1, "run_at": st.Next.Due, "id": st.Next.ID})
		}
	}
	all := map[string]any{"at_time": a.At, "declined": declined, "room": a.Room, "last_token": a.Last, "tokens": a.Leased,
		"entries": entries, "next": next, "paused": a.Paused}
	if a.Epoch != (schedule.Epoch{}) {
		all["epoch"] = uuid.UUID(a.Epoch)
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// held returns the row of a claim of an owner if it may still be settled.
func (s *Postgres) held(owner int, id, token int64) *itemRow {
	if id >= int64(len(s.rows)) {
		return nil
	}
	row := s.rows[id]
	owns := row.token == token || s.Lies == "tokens are not compared"
	if !owns || row.status != rowClaimed || !row.lease.After(s.now) {
		return nil
	}
	if row.owner != owner {
		s.broken = fmt.Sprintf("item %d of replica %d is settled by %d", id, row.owner, owner)
	}
	return row
}

// LeaseLeft is how long a lease lasts. Negative means that it has ended.
func (s *Postgres) LeaseLeft(id, token int64) time.Duration {
	if row := s.rows[id]; row.status == rowClaimed && row.token == token {
		return row.lease.Sub(s.now)
	}
	return -1
}

// Settlement is how a claim ends: see claim.Settlement.
type Settlement struct {
	Delay                      time.Duration
	Unanswered, Alone, Missing bool
	Watcher                    int
	Run                        string
}

// Settle is one of the statements dispatched, retry, release and fail. It returns whether it ended the claim.
func (s *Postgres) Settle(tx *Tx, owner int, verb string, id, token int64, end Settlement) bool {
	row := s.held(owner, id, token)
	if row == nil || s.Lies == "settles change nothing" {
		return false
	}
	next := s.change(tx, row)
	next.owner = 0
	mark := schedule.Change{Workspace: row.workspace, Again: true, Priority: row.priority, Key: row.key, Keys: row.keys()}
	switch verb {
	case "dispatched":
		next.status, next.watcher, next.unknown, next.lost, next.run = rowDispatched, end.Watcher, false, 0, end.Run
		next.startedAt = s.now
		if next.over {
			next.status = rowEnded
			tx.mark(schedule.Change{Workspace: row.workspace, Items: 1, Keys: row.keys()})
		}
		return true
	case "fail":
		next.status = rowEnded
		tx.sync = true
		tx.mark(schedule.Change{Workspace: row.workspace, Items: 1, Keys: row.keys()})
		return true
	case "retry":
		next.failures++
		next.due, next.dueSet = s.now.Add(end.Delay), s.now
	case "release":
		if next.attempts--; end.Delay > 0 {
			next.due, next.dueSet = s.now.Add(end.Delay), s.now
		}
		if end.Alone {
			next.tries++
		}
		if end.Missing {
			next.notFound = row.notFound.again(s.now)
		}
	}
	if !end.Unanswered {
		next.sentAt = time.Time{}
	}
	if next.unknown = end.Unanswered || end.Alone; !end.Missing {
		next.lost = 0
	}
	next.waits()
	mark.Waits, mark.Due = next.status == rowWaits, next.due
	tx.mark(mark)
	return true
}

// Heartbeat is the statement of that name for one item.
func (s *Postgres) Heartbeat(tx *Tx, owner int, id, token int64, lease time.Duration) bool {
	row := s.held(owner, id, token)
	if row == nil {
		return false
	}
	if s.Lies == "lost leases are not told" {
		return false
	}
	s.change(tx, row).lease = s.now.Add(lease)
	return true
}

// GiveBack is the statement of that name.
func (s *Postgres) GiveBack(tx *Tx, owner int, held []int64, last int64) (given []int64) {
	for _, row := range s.rows {
		mine := row.owner == owner && row.status == rowClaimed && row.token <= last && !slices.Contains(held, row.token)
		if mine && row.lease.After(s.now) && !row.locked {
			next := s.change(tx, row)
			s.last++
			next.status, next.token, next.owner, next.unknown = rowDoubt, s.last, 0, true
			tx.mark(schedule.Change{Workspace: row.workspace, Keys: row.keys()})
			given = append(given, row.id)
		}
	}
	return given
}

// ReleaseUnread is the statement of that name.
func (s *Postgres) ReleaseUnread(tx *Tx, owner int, after, last int64) {
	for _, row := range s.rows {
		mine := row.owner == owner && row.status == rowClaimed && row.token > after && row.token <= last
		if mine && row.lease.After(s.now) && !row.locked && s.Lies != "unread claims are kept" {
			next := s.change(tx, row)
			next.owner = 0
			next.waits()
			tx.mark(schedule.Change{Workspace: row.workspace, Again: true, Waits: next.status == rowWaits,
				Priority: row.priority, Due: next.due, Key: row.key, Keys: row.keys()})
		}
	}
}

// LastToken is the statement of that name.
func (s *Postgres) LastToken() int64 { return s.last }

// ClearKeys deletes the limits of all keys.
func (s *Postgres) ClearKeys(tx *Tx) {
	for _, l := range slices.Clone(s.keyLimits) {
		s.setKeyLimit(tx, l.scope, 0, nil, true)
	}
}

// Delayed returns the item that has been due for the longest time although its workspace has room, and that time. It
// ignores the items that leftOut names.
func (s *Postgres) Delayed(leftOut func(id int64) bool) (id int64, by time.Duration) {
	held := s.slots()
	for _, row := range s.rows[1:] {
		since := s.now.Sub(row.due)
		if row.status == rowWaits && !row.locked && !leftOut(row.id) && since > by &&
			held[row.workspace] < s.limits[row.workspace[0]] {
			id, by = row.id, since
		}
	}
	return id, by
}

// Hasten is the statement of that name.
func (s *Postgres) Hasten(tx *Tx, ids []int64) (hastened []int64) {
	for _, r := range s.rows {
		waits := r.status == rowWaits || r.status == rowDoubt
		if slices.Contains(ids, r.id) && waits && !r.locked && r.due.After(s.now) {
			next := s.change(tx, r)
			next.due, next.dueSet, next.tries = s.now, s.now, 0
			tx.mark(schedule.Change{Workspace: r.workspace, Again: true, Waits: r.status == rowWaits, Priority: r.priority,
				Due: next.due, Key: r.key, Keys: r.keys()})
			hastened = append(hastened, r.id)
		}
	}
	return hastened
}
