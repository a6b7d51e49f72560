package simpg

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// A simulated Postgres: rows, transactions that commit in any order, snapshots, marks, one sequence, an unlogged epoch,
// and crashes that lose asynchronous commits. Its claims count as sql/claim/claim.sql does.

const (
	Lease = 10 * time.Second
	W     = 4
	// mostForgotten is how many commits a failover may forget.
	mostForgotten = 30
)

type itemRow struct {
	item
	status byte // rowWaits, rowClaimed, rowDispatched, rowDoubt or rowEnded
	token  int64
	owner  int
	lease  time.Time
	lost   int
	// unknown means that the item keeps its slot while it waits for another try.
	unknown bool
	sentAt  time.Time // the first start that may have been carried out; zero if none may
	tries   int       // how many failed while others of its lane were accepted
	xid     int64     // of the inserting transaction
	locked  bool
	// For the simulation of replicas: attempts and failures are counts of the item; watcher is the replica that watches
	// its workflow, and over means that its end was reported before its start was settled.
	attempts, failures, watcher int
	over                        bool
	run                         string
	startedAt                   time.Time // when its start was settled
	missing                     missing   // of its execution
	notFound                    missing   // of the lookups before it fails
	claimedAt                   int       // the step
	dueSet                      time.Time // when pgdispatch set its due time
}

// waits puts an item back.
func (r *itemRow) waits() {
	if r.status = rowWaits; r.unknown {
		r.status = rowDoubt
	}
}

func (r *itemRow) holds() bool { return r.status > rowWaits && r.status < rowEnded }

// keys are the limit keys that a mark of the row's slot names.
func (r *itemRow) keys() []string {
	if r.key == "" {
		return nil
	}
	return []string{r.key}
}

// snapshot is a transaction's snapshot: all transactions before xmax except the open ones.
type snapshot struct {
	xmax int64
	open []int64
}

func (s snapshot) sees(xid int64) bool { return xid < s.xmax && !slices.Contains(s.open, xid) }

func (s snapshot) xmin() int64 { return slices.Min(append([]int64{s.xmax}, s.open...)) }

type mark struct {
	xid int64
	schedule.Change
	all bool // all limits may have changed
}

// Tx is a transaction: its row versions and its marks.
type Tx struct {
	xid   int64
	rows  []*itemRow // the new versions; ID is the position in the table
	marks []mark
	epoch schedule.Epoch
	sync  bool
	wakes bool      // its notification names nothing
	was   []itemRow // before its commit
	// commits and undo do what rows do not say: at the commit, and if a crash loses it.
	commits, undo func()
	// starts are those that count for the rates of limit keys; started are the same for the check.
	starts  []countedStart
	started []exactStart
	paces   []func() // what its commit adds to the starts of workspaces with a rate
}

type tables struct {
	r      *rand.Rand
	now    time.Time
	rows   []*itemRow
	limits []int
	bursts []int // burst limits; at most limit: none beyond it
	// keyLimits are the limits of keys, and starts what counts for their rates.
	keyLimits []*keyLimit
	limitIDs  int
	starts    []countedStart
	started   []exactStart
	// rates are how many items of workspaces may start in a second.
	rates    map[schedule.WorkspaceID]float64
	buckets  map[schedule.WorkspaceID]bucket
	paces    map[schedule.WorkspaceID]*startPace // for the check
	open     []*Tx
	done     []*Tx // the last commits, of which flushed are on disk
	flushed  int
	marks    []mark
	last     int64
	next     int64 // transaction ID
	epoch    schedule.Epoch
	epochs   byte
	trimmed  int64
	trimNext int64
	claiming *Tx  // holder of the lock
	waits    bool // the last claim would wait for a row that an application has locked
	// alive reports whether a replica renews its presence: its lost leases do not count. Nil: none does.
	alive func(replica int) bool
	// allowed is how many items of a lane a claim may take, for lanes that are limited; laneOf names a workspace's lane.
	allowed   map[string]int
	laneOf    func(schedule.WorkspaceID) string
	forgotten map[int64]bool      // items that a failover has changed
	parked    map[int64]time.Time // items that claims skip until then
	paused    bool                // by the settings
	graphs    graphTable
	steps     int
	overtaken map[int64]overtaken // unanswered starts that are due
	// Lies is a planted mistake: see plantedMistakes in package simulation.
	Lies string
}

func (p *tables) begin(sync bool) *Tx {
	p.next++
	tx := &Tx{xid: p.next, sync: sync}
	p.open = append(p.open, tx)
	return tx
}

// insert adds an item in a transaction.
func (p *tables) insert(tx *Tx, workspace schedule.WorkspaceID, key string, priority int, due time.Time) *itemRow {
	row := &itemRow{xid: tx.xid, status: rowEnded, dueSet: p.now,
		item: item{workspace: workspace, priority: priority, id: int64(len(p.rows)), key: key, due: due}}
	p.rows = append(p.rows, row) // invisible before its commit
	p.change(tx, row).status = rowWaits
	return row
}

// change gives a transaction a copy of a row to write, and locks the row.
func (p *tables) change(tx *Tx, r *itemRow) *itemRow {
	if mine := tx.version(r); mine != nil {
		return mine
	}
	r.locked = true
	next := *r
	next.locked = false
	tx.rows = append(tx.rows, &next)
	return &next
}

// version returns the transaction's own version of a row, or nil.
func (tx *Tx) version(r *itemRow) *itemRow {
	n := slices.IndexFunc(tx.rows, func(mine *itemRow) bool { return mine.id == r.id })
	if n < 0 {
		return nil
	}
	return tx.rows[n]
}

func (tx *Tx) mark(c schedule.Change) { tx.marks = append(tx.marks, mark{xid: tx.xid, Change: c}) }

// markAll marks that all limits may have changed.
func (tx *Tx) markAll() {
	tx.marks, tx.wakes = append(tx.marks, mark{xid: tx.xid, all: true}), true
}

func (p *tables) close(tx *Tx, commits bool) {
	p.open = slices.DeleteFunc(p.open, func(o *Tx) bool { return o == tx })
	if p.claiming == tx {
		p.claiming = nil
	}
	for _, next := range tx.rows {
		row := p.rows[next.id]
		tx.was = append(tx.was, *row)
		if row.locked = false; commits {
			*row = *next
		}
	}
	if !commits {
		return
	}
	if tx.commits != nil {
		tx.commits()
	}
	p.marks = append(p.marks, tx.marks...)
	for _, adds := range tx.paces {
		adds()
	}
	for n := range tx.started { // the clock may have been set back since
		tx.started[n].at = earlier(tx.started[n].at, p.now)
	}
	p.starts, p.started = append(p.starts, tx.starts...), append(p.started, tx.started...)
	if p.epoch == (schedule.Epoch{}) {
		p.epoch = tx.epoch
	}
	if p.done = append(p.done, tx); tx.sync && (len(tx.rows) > 0 || tx.commits != nil) {
		p.flushed = len(p.done) // a commit that wrote nothing flushes nothing
	}
	if surplus := min(len(p.done)-mostForgotten, p.flushed); surplus > 0 {
		p.done, p.flushed = p.done[surplus:], p.flushed-surplus
	}
}

func (p *tables) snapshot() (s snapshot) {
	s.xmax = p.next + 1
	for _, tx := range p.open {
		s.open = append(s.open, tx.xid)
	}
	return s
}

func (p *tables) holders(workspace schedule.WorkspaceID, floor int64) (held int, lowest int64) {
	lowest = p.last + 1
	for _, r := range p.rows {
		if r.workspace == workspace && r.holds() && r.token >= floor {
			held, lowest = held+1, min(lowest, r.token)
		}
	}
	return held, lowest
}

// requeue is sql/claim/lease.sql.
func (p *tables) requeue(tx *Tx) {
	if p.Lies == "expired leases stay" {
		return
	}
	for _, r := range p.rows {
		if r.status == rowClaimed && !r.lease.After(p.now) && !r.locked {
			next := p.change(tx, r)
			p.last++
			if p.alive == nil || !p.alive(r.owner) {
				next.lost++
			}
			next.status, next.token, next.owner, next.unknown = rowDoubt, p.last, 0, true
			tx.mark(schedule.Change{Workspace: r.workspace, Keys: r.keys()})
		}
	}
}

// trim deletes the marks that every transaction saw at the previous sweep.
func (p *tables) trim() {
	p.marks = slices.DeleteFunc(p.marks, func(m mark) bool { return m.xid < p.trimNext })
	p.trimmed, p.trimNext = p.trimNext, p.snapshot().xmin()
}

// claim makes a claim in a transaction of its own, which it leaves open.
func (p *tables) claim(owner int, q schedule.Proposal, at time.Time) (tx *Tx, a schedule.Answer, taken []*itemRow) {
	tx = p.begin(true)
	a, taken = p.claimIn(tx, owner, q, at)
	return tx, a, taken
}

// claimIn is sql/claim/claim.sql: it counts, and takes items that were due at the given time.
func (p *tables) claimIn(tx *Tx, owner int, q schedule.Proposal, at time.Time) (a schedule.Answer, taken []*itemRow) {
	p.claiming, p.waits = tx, false
	same := p.epoch != (schedule.Epoch{}) && p.epoch == q.Epoch
	a = schedule.Answer{Epoch: p.epoch, At: at, Last: p.last, Room: W,
		Standings: make([]schedule.Standing, len(q.Entries))}
	beyond, waits := int64(0), false
	if same {
		beyond, a.Room = q.Leased.To, W-q.Leased.Held
	}
	for _, r := range p.rows {
		if p.leasedIn(tx, r) && r.token > beyond {
			a.Leased = append(a.Leased, r.token)
			a.Room--
			waits = waits || r.owner == owner && r.lease.After(p.now) && (q.Alone || r.lost >= 2)
		}
	}
	if a.Room, a.Paused = max(a.Room, 0), p.paused; waits || p.paused {
		a.Room = 0
	}
	if p.Lies == "W is not read" {
		a.Room = q.AtMost
	}
	entries, rooms := p.keyed(q.Entries)
	p.grant(entries, same, &a)
	p.requeue(tx)
	most, rows := min(q.AtMost, a.Room), slices.DeleteFunc(p.inOrder(), p.skips)
	allowed := maps.Clone(p.allowed)
	for _, r := range rows {
		if mine := tx.version(r); mine != nil { // it has just been put back
			r = mine
		}
		asks := q.Unanswered > a.Unanswered && (p.Lies != "unanswered starts come last" || len(q.Entries) == 0)
		if asks && most > a.Unanswered && r.status == rowDoubt && !r.locked && !r.due.After(at) &&
			(r.lost >= 2) == q.Alone && p.lets(allowed, r) {
			a.Unanswered++
			taken = append(taken, p.take(tx, owner, r))
		}
	}
	if a.Unanswered > 0 && allowed != nil {
		most = a.Unanswered
	}
	for n, e := range q.Entries {
		st := &a.Standings[n]
		for _, r := range rows {
			if r.workspace != e.Workspace || r.priority != e.Priority || r.key != e.Key || r.status != rowWaits ||
				r.position().Before(e.From) {
				continue
			}
			mine := slices.ContainsFunc(taken, func(o *itemRow) bool { return o.id == r.id })
			free := st.Taken < st.Granted && len(taken) < most && !r.due.After(at)
			p.waits = p.waits || free && r.locked && !q.Want.Careful && p.allowed == nil
			if !mine && !r.locked && free && p.lets(allowed, r) {
				st.Taken++
				taken = append(taken, p.take(tx, owner, r))
			} else if left := r.position(); !mine && st.Next == nil {
				st.Next = &left
			}
		}
	}
	p.keysStand(tx, q, &a, rooms, taken[a.Unanswered:])
	p.debit(tx, q, &a, taken[a.Unanswered:])
	for _, r := range taken[a.Unanswered:] {
		for n, e := range q.Entries {
			if e.Workspace == r.workspace {
				a.Standings[n].Held++
			}
		}
	}
	return a, taken
}

// grant is sql/claim/claim.sql.
func (p *tables) grant(entries []schedule.Entry, same bool, a *schedule.Answer) {
	used := map[schedule.WorkspaceID]int{}
	for n, e := range entries {
		st := &a.Standings[n]
		*st = schedule.Standing{
			Limit:      p.limits[e.Workspace[0]],
			BurstLimit: p.burstLimit(e.Workspace),
			Bound:      true,
			Receipt:    e.Receipt,
			Number:     int64(e.Workspace[0]),
		}
		slots, known := st.Limit, st.Limit
		if e.Burst {
			slots, known = st.BurstLimit, 0
		}
		st.Held = e.Receipt.Held + int(p.last-e.Receipt.To)
		if !same || e.Receipt.To > p.last || st.Held+e.Items >= known {
			floor := e.Receipt.Floor
			if !same {
				floor = 0
			}
			held, lowest := p.holders(e.Workspace, floor)
			st.Held, st.Counted, st.Bound = held, held, false
			st.Receipt = schedule.Receipt{Floor: lowest, Held: held, To: p.last}
		}
		free := slots - st.Held - used[e.Workspace]
		if allows, rated := p.allows(e.Workspace, a.At); rated && p.Lies != "a workspace's rate is not read" {
			free = min(free, int(allows)-used[e.Workspace])
		}
		st.Granted = max(min(e.Items, free), 0)
		if p.Lies == "a workspace's limit is not read" {
			st.Granted = e.Items
		}
		used[e.Workspace] += st.Granted
	}
}

func (p *tables) take(tx *Tx, owner int, r *itemRow) *itemRow {
	p.beginEpoch(tx)
	next := p.change(tx, r)
	p.last++
	next.status, next.token, next.owner, next.lease = rowClaimed, p.last, owner, p.now.Add(Lease)
	next.claimedAt = p.steps
	if p.Lies == "leases end early" {
		next.lease = p.now.Add(3 * time.Second)
	}
	return next
}

// burstLimit is sql/claim/claim.sql.
func (p *tables) burstLimit(workspace schedule.WorkspaceID) int {
	if limit := p.limits[workspace[0]]; limit > 0 {
		return max(limit, p.bursts[workspace[0]])
	}
	return 0
}

func (p *tables) inOrder() []*itemRow {
	rows := slices.DeleteFunc(slices.Clone(p.rows), func(r *itemRow) bool { return r.status == rowEnded })
	slices.SortFunc(rows, func(a, b *itemRow) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id)) })
	return rows
}
