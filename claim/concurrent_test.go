package claim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// audit records every transition in a row. The commit time of the row's transaction tells when it became visible.
const audit = `
create table public.audit (
	n bigint generated always as identity,
	item_id bigint, workspace_id uuid, limit_key text, status text, held_before boolean, holds_slot boolean, token bigint
);
create function public.audit() returns trigger language plpgsql as $$
begin
	insert into public.audit (item_id, workspace_id, limit_key, status, held_before, holds_slot, token)
	values (new.id, new.workspace_id, new.limit_key, new.status, coalesce(old.stage in ('HOLDS', 'DOUBT'), false),
		coalesce(new.stage in ('HOLDS', 'DOUBT'), false), new.lease_token);
	return null;
end $$;
create trigger audit after update on pgdispatch.workflow_execution_queue for each row
when (old.status <> new.status or old.outcome_unknown <> new.outcome_unknown) execute function public.audit()`

const (
	maxClaims = 5
	replicas  = 8
	loops     = 2 // per replica
	items     = 80
)

// limits are the limits of the five workspaces. Each workspace has the same number of items.
var limits = []int{1, 2, 3, 5, 20}

// claimers is the state shared by several replicas on one database.
type claimers struct {
	*bench
	open  atomic.Int64 // items that have not ended
	moved atomic.Int64
	held  sync.Map // item ID -> token, while a replica holds it
}

func newClaimers(t *testing.T) *claimers {
	c := &claimers{bench: newBench(t)}
	c.Execute("update pgdispatch.settings set max_claims = $1", maxClaims)
	c.Execute(audit)
	return c
}

// atOnce runs work n times at once, for a minute at most.
func (c *claimers) atOnce(n int, work func(ctx context.Context, n int) error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	all, ctx := errgroup.WithContext(ctx)
	for k := range n {
		all.Go(func() error { return work(ctx, k) })
	}
	require.NoError(c.t, all.Wait())
}

func (c *claimers) requireEnded() {
	require.Zero(c.t, c.open.Load())
	require.Zero(c.t, c.count("status not in ('COMPLETED', 'FAILED') or stage in ('HOLDS', 'DOUBT')"))
}

func TestManyClaimersAtOncePassNoLimit(t *testing.T) {
	c := newClaimers(t)
	limitOf := map[string]int{}
	for n, limit := range limits {
		id := c.NewWorkspace(fmt.Sprintf("workspace %d", n), limit)
		limitOf[id] = limit
		c.Insert(id, items)
	}
	c.open.Store(int64(len(limits) * items))

	c.atOnce(replicas*loops, func(ctx context.Context, n int) error {
		store := c.replica(fmt.Sprintf("replica %d", n%replicas))
		return c.work(ctx, store, rand.New(rand.NewPCG(rand.Uint64(), 0)), func(ctx context.Context) (Batch, error) {
			return store.Claim(ctx, 1+rand.N(5))
		})
	})
	c.requireEnded()
	requireReached(t, limitOf, c.requireNoLimitPassed(limitOf))
}

// process is a process that crashes on a poison item. A new process replaces it; its other leases are lost.
type process struct {
	*claimers
	*Store
	poison map[int64]*atomic.Int64 // number of processes that it crashed
	dead   int
	held   []Item
}

// A crashing process also loses its other items, which are claimed first.
func TestPoisonAmongManyClaimersHarmsNobodyElse(t *testing.T) {
	c := newClaimers(t)
	limitOf := map[string]int{c.Shop.Shop: 4, c.NewWorkspace("other", 20): 20}
	c.Execute("update pgdispatch.workspaces set max_concurrent_workflows = 4 where id = $1", c.Shop.Shop)
	for id := range limitOf {
		c.Insert(id, items)
	}
	c.open.Store(int64(len(limitOf) * items))
	poison := map[int64]*atomic.Int64{1: {}, 7: {}, items + 1: {}}

	c.atOnce(replicas, func(ctx context.Context, n int) (err error) {
		p := &process{claimers: c, Store: c.replica(fmt.Sprintf("replica %d", n)), poison: poison}
		for c.open.Load() > 0 && err == nil {
			err = p.step(ctx)
		}
		return err
	})
	for id, died := range poison {
		require.EqualValues(t, 3, died.Load(), "item %d", id)
	}
	require.Equal(t, []int64{1, 7, items + 1}, sqltest.Scalar[[]int64](c.Shop,
		"select array_agg(id order by id) from pgdispatch.workflow_execution_queue where status = 'FAILED'"),
		"no other item fails")
	requireReached(t, limitOf, c.requireNoLimitPassed(limitOf))
}

// step claims items for the free workers, then crashes or settles one of its items.
func (p *process) step(ctx context.Context) error {
	batch, err := p.Claim(ctx, 3-len(p.held))
	if err != nil {
		return err
	}
	p.held = append(p.held, batch.Items...)
	dies := false
	for _, item := range p.held {
		if died := p.poison[item.ID]; died != nil && item.Problem == "" {
			if died.Add(1) == 3 && len(p.held) > 1 {
				return fmt.Errorf("the third holder of item %d holds %d items", item.ID, len(p.held))
			}
			dies = true
		}
	}
	if dies {
		p.die()
	}
	if len(p.held) == 0 {
		return nil
	}
	item := p.held[0]
	p.held = p.held[1:]
	s := Settlement{Verb: Dispatched, ID: item.ID, Token: item.Token, RunID: "run", Error: string(item.Problem)}
	if item.Problem != "" {
		s.Verb = Fail
	}
	ids, err := p.Settle(ctx, s.Verb, []Settlement{s})
	if err == nil && s.Verb == Dispatched {
		_, err = p.Finish(ctx, item.ExecutionID, "COMPLETED", "", "")
	}
	if err != nil || len(ids) != 1 {
		return fmt.Errorf("%s of item %d moved %d: %w", s.Verb, item.ID, len(ids), err)
	}
	p.open.Add(-1)
	p.moved.Add(1)
	return nil
}

func (p *process) die() {
	p.expire(p.held...)
	p.dead++
	p.held, p.Store = nil, p.replica(fmt.Sprintf("%.9s.%d", p.Owner, p.dead))
}

// work claims and settles until every item has ended.
func (c *claimers) work(ctx context.Context, store *Store, dice *rand.Rand,
	claim func(context.Context) (Batch, error)) error {
	var running []string
	for c.open.Load() > 0 {
		batch, err := claim(ctx)
		if err != nil {
			return err
		}
		for _, item := range batch.Items {
			if other, taken := c.held.LoadOrStore(item.ID, item.Token); taken {
				return fmt.Errorf("item %d is claimed with token %d and with token %v", item.ID, item.Token, other)
			}
		}
		for _, item := range batch.Items {
			dispatched, err := c.settle(ctx, store, item, dice)
			if err != nil {
				return err
			}
			if dispatched {
				running = append(running, item.ExecutionID)
			}
		}
		for len(running) > 0 && (len(batch.Items) == 0 || dice.IntN(2) == 0) {
			outcome := []string{"COMPLETED", "FAILED", "TIMED_OUT"}[dice.IntN(3)]
			first, err := c.Finish(ctx, running[0], outcome, "as it goes", "")
			if err != nil || !first {
				return fmt.Errorf("finish: first %t, %w", first, err)
			}
			running = running[1:]
			c.open.Add(-1)
		}
	}
	return nil
}

// settle ends a claim at random.
func (c *claimers) settle(ctx context.Context, store *Store, item Item,
	dice *rand.Rand) (dispatched bool, err error) {
	c.held.Delete(item.ID)
	s := Settlement{ID: item.ID, Token: item.Token, RunID: "run", Error: "as it goes", Unanswered: dice.IntN(2) == 0}
	switch n := dice.IntN(100); {
	case n < 50:
		s.Verb = Dispatched
	case n < 70:
		s.Verb = Release
	case n < 90:
		s.Verb, s.Delay = Retry, time.Duration(dice.IntN(5e6))
	default:
		s.Verb = Fail
	}
	ids, err := store.Settle(ctx, s.Verb, []Settlement{s})
	if err != nil {
		return false, err
	}
	if len(ids) != 1 {
		return false, fmt.Errorf("%s of item %d: the lease is lost, but it cannot have expired", s.Verb, item.ID)
	}
	if s.Verb == Fail {
		c.open.Add(-1)
	}
	c.moved.Add(1)
	return s.Verb == Dispatched, nil
}

type move struct {
	itemID      int64
	workspaceID string
	key         string
	status      string
	heldBefore  bool
	holdsSlot   bool
	token       int64
}

// requireNoLimitPassed replays all transitions in commit order. limitOf has the limits of workspaces and of keys, over
// all workspaces as their names and in a workspace as its ID and the name. It returns the most that was in use of each.
func (c *claimers) requireNoLimitPassed(limitOf map[string]int) (most map[string]int) {
	// Slots freed at an instant count before slots taken at the same instant.
	rows := must.Get(c.Conns.Query(c.t.Context(), `select item_id, workspace_id::text, coalesce(limit_key, ''), status,
			held_before, holds_slot, token
		from public.audit
		order by pg_xact_commit_timestamp(xmin), status = 'CLAIMED', n`)).In(c.t)
	moves, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m move, err error) {
		return m, row.Scan(&m.itemID, &m.workspaceID, &m.key, &m.status, &m.heldBefore, &m.holdsSlot, &m.token)
	})
	require.NoError(c.t, err)

	leased, tokens := map[int64]bool{}, map[int64]int64{}
	active := map[string]int{}
	most = map[string]int{}
	mostLeased := 0
	for _, m := range moves {
		if m.status == "CLAIMED" {
			require.False(c.t, leased[m.itemID], "item %d is claimed twice at once", m.itemID)
			require.Greater(c.t, m.token, tokens[m.itemID], "item %d is claimed with an old token", m.itemID)
			leased[m.itemID], tokens[m.itemID] = true, m.token
		} else {
			delete(leased, m.itemID)
		}
		mostLeased = max(mostLeased, len(leased))
		require.LessOrEqual(c.t, len(leased), maxClaims, "W is exceeded")
		names := []string{m.workspaceID}
		if m.key != "" {
			names = append(names, m.key, m.workspaceID+m.key)
		}
		for _, name := range names {
			switch {
			case m.holdsSlot && !m.heldBefore:
				active[name]++
			case !m.holdsSlot && m.heldBefore:
				active[name]--
			}
			if limit, limited := limitOf[name]; limited {
				most[name] = max(most[name], active[name])
				require.LessOrEqual(c.t, active[name], limit, "the limit of %s is exceeded", name)
			}
		}
	}
	c.t.Logf("%d claims, %d moves, at most %d leased at once, at most active %v", c.moved.Load(), len(moves), mostLeased,
		most)
	require.Equal(c.t, maxClaims, mostLeased, "the test did not reach W")
	return most
}

// requireReached checks that small limits were in full use, without which a test of them proves nothing.
func requireReached(t *testing.T, limitOf, most map[string]int) {
	for id, limit := range limitOf {
		if limit <= 5 {
			require.Equal(t, limit, most[id], "the test did not reach the limit of %s", id)
		}
	}
}
