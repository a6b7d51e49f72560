package claim

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

// bench is a database with one workspace, "shop", with room for 100 executions, and a store for replica "a".
type bench struct {
	*Store
	*operators
	*ends
	*sweeps
	*sqltest.Shop
	t *testing.T
}

type (
	operators = operate.Store
	ends      = complete.Postgres
	sweeps    = sweeper.Postgres
)

// newBench returns a bench. From then on the test runs beside others.
func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{t: t, Shop: sqltest.NewShop(t)}
	b.Store = b.replica("a")
	b.operators, b.ends, b.sweeps = &operators{DB: b.Conns}, &ends{DB: b.Conns, Owner: "a"},
		&sweeps{DB: b.Conns, Owner: "a"}
	return b
}

// replica returns another replica's store.
func (b *bench) replica(owner string) *Store {
	return &Store{Pool: b.Conns, Owner: owner, Lease: 30 * time.Second}
}

// with returns the bench with another store as its own.
func (b *bench) with(store *Store) *bench {
	other := *b
	other.Store = store
	return &other
}

// claim claims with the bench's own replica.
func (b *bench) claim(atMost int) Batch {
	batch := must.Get(b.Claim(b.t.Context(), atMost)).In(b.t)
	return batch
}

// want is claim with what is wanted.
func (b *bench) want(wanted Wanted) Batch {
	batch, _, err := b.SettleAndClaim(b.t.Context(), nil, wanted)
	require.NoError(b.t, err)
	return batch
}

// settleAndClaim settles an item as dispatched and claims in one transaction.
func (b *bench) settleAndClaim(started Item, atMost int) Batch {
	batch, settled, err := b.SettleAndClaim(b.t.Context(), []Settlement{settlementOf(started, Dispatched)},
		Wanted{AtMost: atMost, Look: true})
	require.NoError(b.t, err)
	require.Equal(b.t, []int64{started.ID}, settled)
	return batch
}

// settle settles with the bench's own replica, and returns the items that it moved.
func (b *bench) settle(verb Verb, batch ...Settlement) []int64 {
	ids := must.Get(b.Settle(b.t.Context(), verb, batch)).In(b.t)
	return ids
}

// renew renews the leases of items, and returns those that are kept.
func (b *bench) renew(items ...Item) []int64 {
	var held []Held
	for _, item := range items {
		held = append(held, Held{item.ID, item.Token})
	}
	ids := must.Get(b.Heartbeat(b.t.Context(), held)).In(b.t)
	return ids
}

// sweep sweeps at most ten leases.
func (b *bench) sweep() sweeper.Swept {
	swept := must.Get(b.Sweep(b.t.Context(), 10)).In(b.t)
	return swept
}

// enqueue enqueues an item of each definition, with SQL expressions for further columns. It returns the last one's ID.
func (b *bench) enqueue(columns, values string, args ...any) int64 {
	return sqltest.Scalar[int64](b.Shop, `with i as (
			insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, `+columns+`)
			select d.workspace_id, d.id, `+values+` from pgdispatch.workflow_definitions d returning id
		) select max(id) from i`, args...)
}

// open executes a statement in a transaction that is rolled back when the test ends, if not before.
func (b *bench) open(statement string, args ...any) pgx.Tx {
	tx, err := b.Conns.Begin(b.t.Context())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	must.Get(tx.Exec(b.t.Context(), statement, args...)).In(b.t)
	return tx
}

// lock locks items' rows until the test ends.
func (b *bench) lock(ids ...int64) {
	b.open("select from pgdispatch.workflow_execution_queue where id = any ($1) for update", ids)
}

const lockClaims = "lock table pgdispatch.claim_lock in share row exclusive mode"

// claimed enqueues items in the shop and claims them.
func (b *bench) claimed(items int) []Item {
	b.Insert(b.Shop.Shop, items)
	claimed := b.claim(items).Items
	require.Len(b.t, claimed, items)
	return claimed
}

// dispatched enqueues an item in the shop, and claims and dispatches it.
func (b *bench) dispatched() Item {
	item := b.claimed(1)[0]
	require.Equal(b.t, []int64{item.ID}, b.settle(Dispatched, settlementOf(item, Dispatched)))
	return item
}

func (b *bench) expire(items ...Item) {
	for _, item := range items {
		b.Expire(item.ID)
	}
}

// settlementOf returns a settlement with every field that any verb stores.
func settlementOf(item Item, verb Verb) Settlement {
	return Settlement{Verb: verb, ID: item.ID, Token: item.Token, RunID: "run", Error: "boom", Delay: time.Hour,
		Unanswered: true}
}

func settlementsOf(items []Item, verb Verb) (batch []Settlement) {
	for _, item := range items {
		batch = append(batch, settlementOf(item, verb))
	}
	return batch
}

var verbs = []Verb{Dispatched, Retry, Release, Fail}
