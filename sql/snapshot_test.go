package sql_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// rounds runs items through their whole lifecycle, one after another, each step in its own transaction.
func (f fixture) rounds(rounds int, later time.Duration) {
	for n := range rounds {
		f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, priority, run_at)
			select d.workspace_id, d.id, $1::int % 5 % 2, clock_timestamp() + $2
			from pgdispatch.workflow_definitions d order by d.created_at offset $1::int % 5 limit 1`, n, later)
		b := f.claim(1)
		f.dispatched(b)
		if n == rounds-1 {
			f.sweep() // with a running item, so that the sweep records the oldest lease
		}
		for _, id := range b.ids() {
			f.finish(id, "COMPLETED")
		}
	}
}

// claimBlocks returns the number of table and index blocks that a claim reads. The claim takes nothing.
func (c fixture) claimBlocks(atMost int) int {
	in, tx := c.begin()
	count := func() int {
		return one[int](in, `select sum(pg_stat_get_xact_blocks_fetched(c.oid))::int from pg_class c
			where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'i')`)
	}
	before := count()
	require.Len(c.t, in.claim(atMost).items, atMost)
	blocks := count() - before
	require.NoError(c.t, tx.Rollback(c.t.Context()))
	return blocks
}

// An old snapshot keeps every version of every row, and no vacuum can help. An ANALYZE, as autovacuum runs it, counts
// only live rows: the planner sees tiny tables, for which any index seems as good as another.
func TestClaimsStayCheapWhileASnapshotIsHeldOpen(t *testing.T) {
	type given struct {
		backlog int
		later   time.Duration
	}
	sqltest.Each(t, map[string]given{
		"idle": {0, 0}, "with a backlog": {200, 0}, "with items that are due later": {0, 5 * time.Millisecond},
	}, func(t *testing.T, c given) {
		f := open(t)
		f.exec("select setval('pgdispatch.lease_tokens', 1500000)") // which changes what the planner expects of a token
		f.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 100000")
		for range 5 {
			w := f.tenant("PRO")
			if c.backlog > 0 {
				f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, priority)
					select $1, $2, (select count(*) - 1 from pgdispatch.workflow_definitions) % 2 from generate_series(1, $3::int)`,
					w.workspace, w.definition, c.backlog)
			}
		}
		f.rounds(100, c.later)
		holder := must(f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})).in(t)
		defer func() { _ = holder.Rollback(t.Context()) }()
		require.Positive(t, one[int](f.on(holder), "select count(*) from pgdispatch.workflow_execution_queue"))
		f.rounds(20, c.later)
		claimer := f.conn()
		claimer.item(f.tenant("PRO"))
		fresh := claimer.claimBlocks(1)
		f.rounds(700, c.later)
		f.exec("analyze")
		claimer.item(f.tenant("PRO"))
		held := claimer.claimBlocks(1)
		t.Logf("%d blocks, after 700 rounds %d", fresh, held)
		require.LessOrEqual(t, held, 2*fresh, "a claim must not read dead rows")
	})
}
