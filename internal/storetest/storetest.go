// Package storetest provides a database for tests, with the stores of all packages on it.
package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/request"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

type (
	operators = operate.Store
	ends      = complete.Postgres
	requests  = request.Postgres
	sweeps    = sweeper.Postgres
)

// Bench is a Shop with the stores of replica "a".
type Bench struct {
	*sqltest.Shop
	*claim.Store
	*operators
	*ends
	*requests
	*sweeps
	t testing.TB
}

// Open returns a Bench on a database of its own. From then on the test runs beside others.
func Open(t *testing.T) *Bench {
	t.Helper()
	t.Parallel()
	return New(t)
}

// New returns a Bench on a database of its own.
func New(t testing.TB) *Bench {
	t.Helper()
	return On(t, sqltest.NewShop(t), "a")
}

// On returns the stores of a replica on a shop.
func On(t testing.TB, shop *sqltest.Shop, owner string) *Bench {
	return &Bench{
		Shop: shop, t: t,
		Store:     &claim.Store{Pool: shop.Conns, Owner: owner, Lease: 30 * time.Second},
		operators: &operate.Store{DB: shop.Conns},
		ends:      &complete.Postgres{DB: shop.Conns, Owner: owner},
		requests:  &request.Postgres{DB: shop.Conns},
		sweeps:    &sweeper.Postgres{DB: shop.Conns, Owner: owner},
	}
}

// Replica returns the stores of another replica on the same database.
func (b *Bench) Replica(owner string) *Bench { return On(b.t, b.Shop, owner) }

// Alive records a heartbeat of the replica.
func (b *Bench) Alive() {
	b.t.Helper()
	b.Execute(sql.Text("replica_alive"), b.Store.Owner, "v1", 10, b.Lease, nil, "{}")
}

// Gone records that the replica has stopped.
func (b *Bench) Gone() {
	b.t.Helper()
	b.Execute(sql.Text("replica_gone"), b.Store.Owner)
}

// Claimed enqueues items in the shop and claims them with the replica.
func (b *Bench) Claimed(items int) []claim.Item {
	b.t.Helper()
	return b.ClaimedIn(b.Shop.Shop, items)
}

// ClaimedIn enqueues items in a workspace and claims them with the replica.
func (b *Bench) ClaimedIn(workspace string, items int) []claim.Item {
	b.t.Helper()
	b.Insert(workspace, items)
	batch, err := b.Claim(b.t.Context(), items)
	require.NoError(b.t, err)
	require.Len(b.t, batch.Items, items)
	return batch.Items
}

// Dispatched enqueues items in the shop, then claims and dispatches them with the replica.
func (b *Bench) Dispatched(items int) []claim.Item {
	b.t.Helper()
	claimed := b.Claimed(items)
	for _, item := range claimed {
		b.Ends(claim.Dispatched, claim.Settlement{ID: item.ID, Token: item.Token, RunID: "run-" + item.ExecutionID})
	}
	return claimed
}

// Buried enqueues items in the shop and fails them with the replica.
func (b *Bench) Buried(items int, reason string) []claim.Item {
	b.t.Helper()
	claimed := b.Claimed(items)
	for _, item := range claimed {
		b.Bury(item, reason)
	}
	return claimed
}

// Bury fails a claimed item.
func (b *Bench) Bury(item claim.Item, reason string) {
	b.t.Helper()
	b.Ends(claim.Fail, claim.Settlement{ID: item.ID, Token: item.Token, Error: reason})
}

// Ends ends one claim.
func (b *Bench) Ends(verb claim.Verb, settlement claim.Settlement) {
	b.t.Helper()
	ids, err := b.Settle(b.t.Context(), verb, []claim.Settlement{settlement})
	require.NoError(b.t, err)
	require.Equal(b.t, []int64{settlement.ID}, ids)
}
