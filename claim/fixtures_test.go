package claim

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

// bench is a database with one workspace, "shop", that has room for 100 executions, and a store for replica "a".
type bench struct {
	*Store
	t    *testing.T
	pool *pgxpool.Pool
	shop string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, pool: sqltest.Pool(t, sqltest.URL(t)+"&pool_max_conns=20")}
	b.Store = b.replica("a")
	b.shop = b.workspace("shop", 100)
	return b
}

// replica returns another replica's store.
func (b *bench) replica(owner string) *Store {
	return &Store{Pool: b.pool, Owner: owner, Lease: 30 * time.Second}
}

// workspace makes a workspace with a definition that has one version.
func (b *bench) workspace(name string, limit int) string {
	b.t.Helper()
	id := scalar[string](b, `insert into pgdispatch.workspaces (name, max_concurrent_workflows) values ($1, $2) returning id::text`, name, limit)
	b.execute(`with d as (
			insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
			values ($1::uuid, 'order', 'Order', 'orders') returning id
		)
		insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select id, 1, '{"nodes": [{"id": "n1"}, {"id": "n2"}], "edges": []}' from d`, id)
	return id
}

// enqueue inserts so many items of a workspace.
func (b *bench) enqueue(workspace string, items int) {
	b.t.Helper()
	b.execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select d.workspace_id, d.id from pgdispatch.workflow_definitions d, generate_series(1, $2::integer)
		where d.workspace_id = $1::uuid`, workspace, items)
}

// claimed enqueues items of the shop and has a replica claim them.
func (b *bench) claimed(store *Store, items int) []Item {
	b.t.Helper()
	b.enqueue(b.shop, items)
	batch, err := store.Claim(b.t.Context(), items)
	require.NoError(b.t, err)
	require.Len(b.t, batch.Items, items)
	return batch.Items
}

// dispatched enqueues items of the shop, and has a replica claim and dispatch them.
func (b *bench) dispatched(store *Store, items int) []Item {
	b.t.Helper()
	claimed := b.claimed(store, items)
	for _, item := range claimed {
		ids, err := store.Settle(b.t.Context(), Dispatched, []Settlement{{ID: item.ID, Token: item.Token, RunID: "run-" + item.ExecutionID}})
		require.NoError(b.t, err)
		require.Equal(b.t, []int64{item.ID}, ids)
	}
	return claimed
}

// expire ages items' leases.
func (b *bench) expire(items ...Item) {
	b.t.Helper()
	ids := make([]int64, len(items))
	for n, item := range items {
		ids[n] = item.ID
	}
	b.execute(`update pgdispatch.workflow_execution_queue set lease_expires_at = clock_timestamp() - interval '1 millisecond' where id = any ($1)`, ids)
}

// row is everything that is stored of an item and its execution.
func (b *bench) row(item Item) string {
	b.t.Helper()
	return scalar[string](b, `select row_to_json(q)::text || coalesce(row_to_json(e)::text, '')
		from pgdispatch.workflow_execution_queue q
		left join pgdispatch.workflow_executions e on e.id = q.execution_id
		where q.id = $1`, item.ID)
}

func (b *bench) status(item Item) string {
	b.t.Helper()
	return scalar[string](b, "select status from pgdispatch.workflow_execution_queue where id = $1", item.ID)
}

func (b *bench) execute(statement string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(context.Background(), statement, args...)
	require.NoError(b.t, err)
}

// scalar reads one value.
func scalar[T any](b *bench, statement string, args ...any) T {
	b.t.Helper()
	var value T
	require.NoError(b.t, b.pool.QueryRow(context.Background(), statement, args...).Scan(&value))
	return value
}

// settlementOf is a settlement with everything that any verb stores.
func settlementOf(item Item, verb Verb) Settlement {
	return Settlement{Verb: verb, ID: item.ID, Token: item.Token, RunID: "run", Error: "boom", Delay: time.Hour, Unknown: true}
}

var verbs = []Verb{Dispatched, Retry, Release, Fail}
