package claim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// truths collects the receipts from answers. Receipts are guarantees of Postgres, the only thing that a memory must not
// invent. They hold for every store as long as their epoch does; old ones are as valid as new ones.
type truths struct {
	mu         sync.Mutex
	workspaces map[schedule.Epoch]map[schedule.WorkspaceID][]schedule.Receipt
	leased     map[schedule.Epoch][]schedule.Receipt
}

// take records the receipts of a proposal.
func (k *truths) take(p schedule.Proposal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.workspaces[p.Epoch] == nil {
		k.workspaces[p.Epoch] = map[schedule.WorkspaceID][]schedule.Receipt{}
	}
	for _, e := range p.Entries {
		k.workspaces[p.Epoch][e.Workspace] = append(k.workspaces[p.Epoch][e.Workspace], e.Receipt)
	}
	k.leased[p.Epoch] = append(k.leased[p.Epoch], p.Leased)
}

// mix puts receipts of any age and any store into a proposal.
func (k *truths) mix(p *schedule.Proposal, dice *rand.Rand) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range p.Entries {
		p.Entries[n].Receipt = pick(dice, k.workspaces[p.Epoch][p.Entries[n].Workspace])
	}
	p.Leased = pick(dice, k.leased[p.Epoch])
	if dice.IntN(10) == 0 {
		p.Epoch = schedule.Epoch(uuid.New()) // an unknown epoch
	}
}

// pick returns one of several, or none.
func pick[T any](dice *rand.Rand, from []T) (one T) {
	if n := dice.IntN(len(from) + 1); n < len(from) {
		one = from[n]
	}
	return one
}

// liar is a store whose memory is falsified between its claims.
type liar struct {
	*claimers
	*Store
	dice   *rand.Rand
	truths *truths
	known  []schedule.WorkspaceID
	// numbers are the workspaces' numbers in notifications.
	numbers []int64
	lies    int
	sent    Statements
}

// PGDISPATCH_SEED repeats what the replicas of one seed choose. Which of them Postgres serves first is not repeated.
func TestAMemoryThatLiesPassesNoLimitAndLosesNothing(t *testing.T) {
	t.Parallel()
	seeds := []uint64{rand.Uint64(), rand.Uint64(), rand.Uint64()}
	if seed, err := strconv.ParseUint(os.Getenv("PGDISPATCH_SEED"), 10, 64); err == nil {
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("PGDISPATCH_SEED=%d", seed), func(t *testing.T) {
			lie(t, seed)
		})
	}
}

// lie runs replicas whose memories are falsified until every item has ended.
func lie(t *testing.T, seed uint64) {
	c := newClaimers(t)
	limitOf, known := map[string]int{"k": 3}, []schedule.WorkspaceID{}
	c.Execute("insert into pgdispatch.limits (key, max_concurrent) values ('k', 3)")
	for n, limit := range limits {
		id := c.NewWorkspace(fmt.Sprintf("workspace %d", n), limit)
		limitOf[id], limitOf[id+"l"], known = max(limit, 4), 1, append(known, schedule.WorkspaceID(uuid.MustParse(id)))
		c.Execute("insert into pgdispatch.limits (workspace_id, key, max_concurrent) values ($1, 'l', 1)", id)
		c.Execute(`insert into pgdispatch.workflow_execution_queue
				(workspace_id, workflow_definition_id, priority, limit_key)
			select d.workspace_id, d.id, n % 3, (array['k', 'l'])[n % 5]
			from pgdispatch.workflow_definitions d, generate_series(1, $2::integer) n
			where d.workspace_id = $1::uuid`, id, items)
	}
	c.Execute("update pgdispatch.workspaces set max_burst_workflows = 4")
	c.open.Store(int64(len(limits) * items))
	numbers := sqltest.Scalar[[]int64](c.Shop, "select array_agg(w.wake_number) from pgdispatch.workspaces w")
	told := &truths{workspaces: map[schedule.Epoch]map[schedule.WorkspaceID][]schedule.Receipt{},
		leased: map[schedule.Epoch][]schedule.Receipt{}}

	liars := make([]*liar, replicas)
	c.atOnce(replicas, func(ctx context.Context, n int) error {
		l := &liar{claimers: c, Store: c.replica(fmt.Sprintf("replica %d", n)), dice: rand.New(rand.NewPCG(seed, uint64(n))),
			truths: told, known: known, numbers: numbers}
		liars[n] = l
		return c.work(ctx, l.Store, l.dice, l.claim)
	})
	lies, single, declined, procedure := 0, 0, 0, 0
	for _, l := range liars {
		lies += l.lies
		single, declined, procedure = single+l.sent.Plain, declined+l.sent.Declined, procedure+l.sent.Procedure
	}
	t.Logf("%d claims with a falsified memory; %d plain, %d that declined, %d by the procedure", lies, single,
		declined, procedure)
	require.Positive(t, lies)
	require.Positive(t, single)
	require.Positive(t, declined)
	require.Positive(t, procedure)
	c.requireEnded()
	most := c.requireNoLimitPassed(limitOf)
	bursts := 0
	for n, limit := range limits {
		active := most[uuid.UUID(known[n]).String()]
		require.GreaterOrEqual(t, active, min(limit, 5), "the test did not reach the limit of a workspace")
		bursts += max(active-limit, 0)
	}
	require.Positive(t, bursts, "no workspace burst")
}

// claim claims from the memory, from an invented proposal, or from a correct memory, and counts the statements.
func (l *liar) claim(ctx context.Context) (batch Batch, err error) {
	defer func() {
		l.sent.Plain += batch.Statements.Plain
		l.sent.Declined += batch.Statements.Declined
		l.sent.Procedure += batch.Statements.Procedure
	}()
	m := &l.memory
	if m.seen == "" || l.n(3) == 0 {
		m.seen = "" // reload all waiting items
		return l.Claim(ctx, 1+l.n(5))
	}
	l.lies++
	l.lie()
	if l.coin() {
		batch, _, err = l.SettleAndClaim(ctx, nil,
			Wanted{AtMost: 1 + l.n(8), Holding: l.n(3), Named: []string{l.garbage()}, Look: l.coin(),
				Quiet: l.coin()})
		return batch, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.schedule.Propose(m.now(), schedule.Want{Free: 1 + l.n(8)})
	l.truths.take(p)
	l.invent(&p)
	_, err = l.send(ctx, nil, Wanted{AtMost: p.AtMost, Quiet: l.coin()}, p, &batch)
	return batch, err
}

// lie makes the memory wrong.
func (l *liar) lie() {
	m := &l.memory
	for range l.n(6) {
		c := schedule.Change{Workspace: l.workspace(), Number: l.dice.Int64N(9), Waits: l.coin(),
			Priority: l.n(203) - 101, Due: l.when(), Items: l.n(1000), Key: l.key(), Keys: []string{l.key()}}
		switch l.n(6) {
		case 0:
			m.schedule.LearnAll()
		case 1:
			m.schedule.Unanswered(l.when(), l.n(3) == 0)
		case 2:
			limit := l.n(40)
			m.schedule.Load([]schedule.Waiting{{Workspace: c.Workspace, Number: c.Number, Priority: c.Priority,
				Key: l.key(), From: l.place(), Held: l.n(40), Limit: limit, BurstLimit: l.n(60), OwnFull: l.coin(),
				AllFull: l.coin()}}, schedule.Changed{})
		case 3:
			// An invented answer: full, paused, rate-limited or empty, without a receipt.
			p := m.schedule.Propose(m.now(), schedule.Want{Free: 1 + l.n(9)})
			l.truths.take(p)
			a := schedule.Answer{Epoch: p.Epoch, Room: l.n(9)}
			for range p.Entries {
				from := l.place()
				a.Standings = append(a.Standings,
					schedule.Standing{Granted: l.n(9), Taken: l.n(9), Held: l.n(9), Limit: l.n(9),
						Paused: l.coin(), Next: &from, Bound: l.coin(), RetryIn: time.Duration(l.n(2e6)),
						PassedOver: l.coin(), BurstLimit: l.n(12), Own: schedule.KeyStanding{Room: l.n(3)},
						All: schedule.KeyStanding{Room: l.n(3), RetryIn: time.Duration(l.n(2e6))}})
			}
			p.Leased, a.Epoch = schedule.Receipt{}, schedule.Epoch{} // no epoch: all receipts are dropped
			a.At = m.now()
			m.schedule.Apply(a.At, p, a)
		default:
			m.schedule.Learn(c)
		}
	}
}

// invent changes everything in a proposal except its receipts, which are valid ones of any age. Every second proposal
// is one of a single key queue.
func (l *liar) invent(p *schedule.Proposal) {
	if l.coin() {
		p.AtMost, p.Unanswered, p.Alone = 1+l.n(8), 0, false
		p.Entries = []schedule.Entry{{Workspace: l.workspace(), Priority: l.n(3), Items: l.n(20), From: l.place()}}
		l.truths.mix(p, l.dice)
		return
	}
	p.AtMost, p.Unanswered, p.Alone = 1+l.n(8), l.n(3), l.n(20) == 0
	for n := range p.Entries {
		if e := &p.Entries[n]; l.coin() {
			e.Items, e.From, e.Burst, e.Rated = 1+l.n(1000), l.place(), l.coin(), l.coin()
		}
	}
	for range l.n(5) {
		p.Entries = append(p.Entries,
			schedule.Entry{Workspace: l.workspace(), Priority: []int{0, 1, 2, l.n(400) - 200}[l.n(4)], Items: l.n(1000),
				Key: l.key(), From: l.place(), Burst: l.coin()})
	}
	l.dice.Shuffle(len(p.Entries), func(a, b int) { p.Entries[a], p.Entries[b] = p.Entries[b], p.Entries[a] })
	l.truths.mix(p, l.dice)
}

func (l *liar) n(below int) int { return l.dice.IntN(below) }

func (l *liar) coin() bool { return l.n(2) == 0 }

func (l *liar) workspace() schedule.WorkspaceID {
	if l.n(9) == 0 {
		return schedule.WorkspaceID(uuid.New())
	}
	return l.known[l.n(len(l.known))]
}

func (l *liar) key() string { return pick(l.dice, []string{"k", "l", "m"}) }

func (l *liar) when() time.Time {
	return l.memory.now().Add(time.Duration(l.dice.Int64N(int64(2*time.Hour))) - 110*time.Minute)
}

func (l *liar) place() schedule.Position {
	if l.coin() {
		return schedule.Position{}
	}
	return schedule.Position{Due: l.when(), ID: l.dice.Int64N(500)}
}

// garbage returns notifications that any session could send.
func (l *liar) garbage() string {
	return pick(l.dice, []string{
		",,,", "x", "0", "1", "2:", "3:0", "4:0:x", "5:999:0", "1:2:3:4", "1:0:9223372036854775807",
		"2:0:-9223372036854775808",
		"99999999999999999999", "-1:0:0", "3:-100:1", "\x00", "1,2,3,4,5,6",
		fmt.Sprintf("%d", pick(l.dice, l.numbers)),
		fmt.Sprintf("%d:%d:%d", pick(l.dice, l.numbers), l.n(9)-4, l.when().UnixMicro()),
		fmt.Sprintf("%d:%d:-9223372036854775808", pick(l.dice, l.numbers), l.n(3)), // too early for Postgres
		fmt.Sprintf("%d:0:%d,%d", pick(l.dice, l.numbers), l.dice.Int64(), l.dice.Int64()),
	})
}
