package schedule

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simReplica is a dispatcher: the product's own schedule, and the state that claim.Store keeps beside it.
type simReplica struct {
	name     int
	s        Schedule
	seen     *snapshot // nil: nothing is known
	compared time.Time
	loaded   []Waiting // not nil: a compare has read this and has yet to look
	holding  []*simRow
	waiting  *simAnswer // the claim awaiting its answer
}

// simAnswer is a claim that was sent.
type simAnswer struct {
	proposal  Proposal
	answer    Answer
	taken     []*simRow
	tx        *simTx
	committed bool
}

// simulation is one run. The same seed gives the same run.
type simulation struct {
	*simPostgres
	replicas []*simReplica
	names    int
	calm     bool // no more faults
	crashes  bool
	looks    bool // no replica compares or loads again: what it misses is never found
	missed   int
	beyond   int    // items that claims have given beyond the limits of their workspaces
	stays    bool   // nothing ends
	full     string // a limit key that is full for good; empty if there is none
	log      bytes.Buffer
	broken   string
}

func newSimulation(seed uint64) *simulation {
	r := rand.New(rand.NewPCG(seed, 9))
	m := &simulation{simPostgres: &simPostgres{r: r, now: start}, crashes: seed%2 == 0, looks: seed%4 == 1}
	for range 1 + r.IntN(3) {
		m.limits, m.bursts = append(m.limits, 1+r.IntN(3)), append(m.bursts, r.IntN(6))
	}
	for range 1 + r.IntN(4) {
		m.replicas = append(m.replicas, m.replica())
	}
	return m
}

func (m *simulation) replica() *simReplica {
	m.names++
	return &simReplica{name: m.names, s: Schedule{Aging: 5 * time.Second}}
}

func (m *simulation) say(format string, args ...any) {
	fmt.Fprintf(&m.log, "%d ", m.now.Sub(start).Milliseconds())
	fmt.Fprintf(&m.log, format+"\n", args...)
}

// rare returns true once in n calls, at random.
func (m *simulation) rare(times int) bool { return !m.calm && m.r.IntN(times) == 0 }

func (m *simulation) step() {
	m.now = m.now.Add(time.Duration(m.r.IntN(200)) * time.Millisecond)
	switch n := m.r.IntN(20); {
	case n < 3 && !m.calm:
		m.enqueue()
	case n < 7 && len(m.open) > 0:
		m.commits(m.open[m.r.IntN(len(m.open))])
	case n < 10:
		m.ends()
	case n == 10:
		m.requeue(m.begin(false))
	case n == 11 && !m.looks && m.r.IntN(5) == 0:
		m.trim()
	case m.rare(60):
		m.limitWorkspace(m.r.IntN(len(m.limits)), m.r.IntN(4), m.r.IntN(6))
	case m.rare(30):
		m.limitKey()
	case m.crashes && m.rare(25):
		m.say("crash, %d commits are not on disk", len(m.done))
		m.crash()
		for _, r := range m.replicas {
			r.waiting, r.loaded = nil, nil
		}
	case m.crashes && m.rare(25):
		m.lie(m.replicas[m.r.IntN(len(m.replicas))])
	case m.rare(60):
		at := m.r.IntN(len(m.replicas))
		m.say("%d is killed", m.replicas[at].name)
		m.replicas[at] = m.replica()
	default:
		m.turn(m.replicas[m.r.IntN(len(m.replicas))])
	}
}

func (m *simulation) enqueue() {
	tx := m.begin(m.r.IntN(4) == 0)
	workspace, priority := WorkspaceID{byte(m.r.IntN(len(m.limits)))}, m.r.IntN(3)
	for range 1 + m.r.IntN(3) {
		due := m.now.Add(time.Duration(m.r.IntN(8000)-6000) * time.Millisecond)
		m.insert(tx, workspace, m.someKey(), priority, due)
	}
}

func (m *simulation) commits(tx *simTx) {
	commits := !m.rare(20)
	m.close(tx, commits)
	m.say("%d commits: %t", tx.xid, commits)
	for _, r := range m.replicas {
		if r.waiting != nil && r.waiting.tx == tx {
			if r.waiting.committed = commits; !commits {
				r.waiting = nil
			}
		}
	}
}

// ends ends a workflow, by a commit that a crash may lose.
func (m *simulation) ends() {
	for _, row := range m.rows {
		if row.status == rowDispatched && !row.locked && !m.stays && m.r.IntN(2) == 0 {
			tx := m.begin(false)
			m.change(tx, row).status = rowEnded
			tx.mark(Change{Workspace: row.workspace, Items: 1, Keys: row.keys()})
			return
		}
	}
}

// turn makes a replica's next step.
func (m *simulation) turn(r *simReplica) {
	switch w := r.waiting; {
	case w != nil && w.committed && m.rare(10):
		m.say("%d loses its answer", r.name)
		r.waiting = nil
	case w != nil && w.committed:
		r.waiting = nil
		vain := r.s.Apply(m.now, w.proposal, w.answer)
		m.checkSkipped(r, w)
		r.holding = append(r.holding, w.taken...)
		m.say("%d is given %d of %d, %d in vain", r.name, len(w.taken), len(w.proposal.Entries), vain)
	case w != nil:
	case len(r.holding) > 0 && m.r.IntN(2) == 0:
		m.settle(r)
	case m.claiming == nil:
		m.claims(r)
	}
	if at := r.s.broken(); at != "" {
		m.broken = at
	}
}

// settle ends a claim: the item is dispatched, released or retried, or its outcome stays unknown.
func (m *simulation) settle(r *simReplica) {
	held := r.holding[0]
	r.holding = r.holding[1:]
	row := m.rows[held.id]
	if row.token != held.token || row.status != rowClaimed || row.locked || !row.lease.After(m.now) {
		return // the lease is lost, or will be
	}
	tx := m.begin(false)
	next := m.change(tx, row)
	next.lost, next.owner = 0, 0
	switch n := m.r.IntN(8); {
	case n < 5 || m.calm && n < 7:
		next.status = rowDispatched
		return
	case n == 5:
		next.unknown = true
		next.waits()
	case n == 6:
		next.due = m.now.Add(time.Second)
		fallthrough
	default:
		next.waits()
	}
	tx.mark(Change{Workspace: row.workspace, Waits: next.status == rowWaits, Again: true, Priority: row.priority,
		Due: next.due, Key: row.key, Keys: row.keys()})
}

// claims does what claim.Store does: it looks or loads, proposes and claims.
func (m *simulation) claims(r *simReplica) {
	if !m.looks && r.seen != nil && r.loaded == nil && m.now.Sub(r.compared) > 10*time.Second {
		r.compared, r.loaded = m.now, m.load()
		return // what happens before the look is not in it
	}
	if r.seen != nil && (r.loaded != nil || m.r.IntN(3) > 0) {
		m.learn(r)
	}
	if r.seen == nil {
		now := m.snapshot()
		r.seen, r.compared = &now, m.now
		r.s.Reset()
		r.s.Load(m.load(), Changed{})
		m.say("%d loads", r.name)
	}
	r.s.Unanswered(m.unansweredAt())
	p := r.s.Propose(m.now, Want{Free: 1 + m.r.IntN(5), Holding: len(r.holding)})
	if p.Empty() {
		return
	}
	m.checkBursts(r, p)
	at := m.now
	m.passes()
	tx, a, taken := m.claim(r.name, p, at)
	m.say("%d claims: %+v %+v", r.name, p.Entries, a.Leased)
	m.check(tx, p, taken)
	r.waiting = &simAnswer{proposal: p, answer: a, taken: taken, tx: tx}
}

// learn reads changes, and compares what waits if that was read before them.
func (m *simulation) learn(r *simReplica) {
	seen, news := *r.seen, m.look(*r.seen)
	loaded := r.loaded
	if r.seen, r.loaded = &news.now, nil; news.gap {
		r.seen = nil
		return
	}
	if news.all {
		r.s.LearnAll()
	}
	changed := Changed{All: news.all, Workspaces: map[WorkspaceID]bool{}, Keys: map[string]bool{}}
	for _, c := range news.changes {
		r.s.Learn(c)
		changed.Workspaces[c.Workspace] = true
		for _, key := range c.Keys {
			changed.Keys[key] = true
		}
	}
	if loaded != nil {
		workspaces := map[WorkspaceID]bool{}
		for _, w := range r.s.Missed(m.now, loaded, changed) {
			if seen.sees(m.rows[w.From.ID].xid) { // otherwise it came after the last look, and was claimed before this one
				workspaces[w.Workspace] = true
			}
		}
		r.s.Load(loaded, changed)
		r.s.Forget()
		m.missed += len(workspaces)
		m.say("%d compares, %d were missed", r.name, len(workspaces))
	}
}

// check compares a claim with a full count.
func (m *simulation) check(tx *simTx, q Proposal, taken []*simRow) {
	leased := len(taken)
	var given []*simRow
	for _, row := range m.rows {
		if !slices.ContainsFunc(taken, func(o *simRow) bool { return o.id == row.id }) {
			if m.leasedIn(tx, row) { // even if this claim puts it back: see claim_pick
				leased++
			}
			continue
		}
		expired := row.status == rowClaimed && !row.lease.After(m.now) // this claim has put it back
		if row.status != rowWaits && row.status != rowDoubt && !expired {
			m.broken = fmt.Sprintf("item %d is taken twice", row.id)
		}
		if row.status == rowWaits {
			given = append(given, row)
		}
	}
	m.checkWorkspaces(q, taken)
	m.checkKeys(tx, given)
	if len(taken) > 0 && leased > simW {
		m.broken = fmt.Sprintf("%d are leased", leased)
	}
}

// left counts the items that have not ended and can.
func (m *simulation) left() (left int) {
	for _, row := range m.rows {
		if (row.status != rowEnded || row.locked) && (row.key != m.full || row.status != rowWaits) {
			left++
		}
	}
	return left
}

// drains runs until all items that can have ended.
func (m *simulation) drains() string {
	for steps := 0; m.left() > 0; steps++ {
		if m.step(); m.broken != "" {
			return m.broken
		}
		if steps > 20_000 {
			return fmt.Sprintf("%d items have not ended", m.left())
		}
	}
	return ""
}

// run injects faults, then runs without faults until no slot is left, and until all items have ended, those of a limit
// key without room last.
func (m *simulation) run() string {
	for range 400 {
		if m.step(); m.broken != "" {
			return m.broken
		}
	}
	m.calm = true
	for n := range m.limits {
		m.limitWorkspace(n, max(m.limits[n], 1), m.bursts[n])
	}
	full, opens := m.calmKeys()
	m.full = full
	for n := 0; m.crashes && n < len(m.replicas); n++ {
		m.lie(m.replicas[n])
	}
	if said := m.fills(); said != "" {
		return said
	}
	if said := m.drains(); said != "" {
		return said
	}
	m.full = ""
	opens()
	if said := m.drains(); said != "" {
		return said
	}
	if !m.crashes && m.missed > 0 {
		return fmt.Sprintf("%d workspaces were missed though no commit was lost", m.missed)
	}
	return ""
}

func TestReplicasOverAPostgresThatFailsPassNoLimitAndLoseNothing(t *testing.T) {
	t.Parallel()
	seeds := 300
	if more, err := strconv.Atoi(os.Getenv("PGDISPATCH_SEEDS")); err == nil {
		seeds = more
	}
	missed, rows, beyond, crashes, kills, lost, lies := 0, 0, 0, 0, 0, 0, 0
	for seed := range seeds {
		m := newSimulation(uint64(seed))
		said := m.run()
		if said != "" {
			t.Log(m.log.String())
		}
		require.Empty(t, said, "seed %d", seed)
		missed += m.missed
		rows += len(m.rows)
		beyond += m.beyond
		crashes += bytes.Count(m.log.Bytes(), []byte("crash, "))
		kills += bytes.Count(m.log.Bytes(), []byte("is killed"))
		lost += bytes.Count(m.log.Bytes(), []byte("loses its answer"))
		lies += bytes.Count(m.log.Bytes(), []byte("is wrong about"))
	}
	t.Logf(
		"%d seeds, %d items, %d beyond limits, %d crashes, %d kills, %d lost answers, %d lies, %d workspaces missed after "+
			"crashes",
		seeds,
		rows,
		beyond,
		crashes,
		kills,
		lost,
		lies,
		missed,
	)
	require.Positive(t, min(beyond, crashes, kills, lost, lies))
}

func TestASeedGivesTheSameRunAgain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		one, two := newSimulation(seed), newSimulation(seed)
		require.Equal(t, one.run(), two.run())
		require.True(t, bytes.Equal(one.log.Bytes(), two.log.Bytes()), "seed %d", seed)
	}
}
