package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/complete"
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

func newBench(t *testing.T) *bench {
	t.Helper()
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

// claimed enqueues items in the shop and claims them with a replica.
func (b *bench) claimed(store *Store, items int) []Item {
	b.t.Helper()
	b.Insert(b.Shop.Shop, items)
	batch, err := store.Claim(b.t.Context(), items)
	require.NoError(b.t, err)
	require.Len(b.t, batch.Items, items)
	return batch.Items
}

// dispatched enqueues items in the shop, then claims and dispatches them with a replica.
func (b *bench) dispatched(store *Store, items int) []Item {
	b.t.Helper()
	claimed := b.claimed(store, items)
	for _, item := range claimed {
		ids, err := store.Settle(b.t.Context(), Dispatched,
			[]Settlement{{ID: item.ID, Token: item.Token, RunID: "run-" + item.ExecutionID}})
		require.NoError(b.t, err)
		require.Equal(b.t, []int64{item.ID}, ids)
	}
	return claimed
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

var verbs = []Verb{Dispatched, Retry, Release, Fail}
