package sql_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// shown executes a statement of the web view and returns its rows.
func (c fixture) shown(verb string, args ...any) []map[string]any {
	rows := must.Get(c.db.Query(c.t.Context(), sql.Text(verb), args...)).In(c.t)
	return must.Get(pgx.CollectRows(rows, pgx.RowToMap)).In(c.t)
}

// reads fails if a statement reads the table from end to end, or more than that many of its index entries.
func (c fixture) reads(table string, atMost int64, verb string, args ...any) {
	c.bounded(table, atMost, verb, func() { c.shown(verb, args...) })
}

// pages is a connection as the web view opens it: its queries are planned for their actual arguments.
func (c fixture) pages() fixture {
	p := c.conn()
	p.exec("set plan_cache_mode = force_custom_plan")
	return p
}

func TestTheOverviewOfManyWorkspacesTakesOneIndexStepForEach(t *testing.T) {
	f, _ := crowded(t)
	c := f.pages()
	mine := all[string](c, "select id::text from pgdispatch.workspaces where name like 'full %'")
	require.Len(t, mine, 1000)
	// Each has one waiting and one running item: both are counted, and the waiting one is the longest due. These are as
	// many key queues as it looks at, so it counts the scheduled items, all 5,000, by their own index.
	c.reads("workflow_execution_queue", 3*1000+5000+20, "view_depth", mine, 10_000)
	c.reads("workspaces", 10, "view_depth", mine, 10_000)
	// There are more waiting items than it counts, in two ways: by arrival and, of each of the levels, by due time.
	c.reads("workflow_execution_queue", 2*10_000+6_000+3*1003, "queue_depth", 10_000)
	const page = 50
	for order, entries := range map[string]int64{"oldest": 1000 + 5*page, "running": 1000 + 5*page, "failures": 5 * page,
		"name": 5 * page} {
		args := []any{mine, nil, order, nil, nil, nil, page, 1000, 10_000}
		c.reads("workflow_execution_queue", entries, "view_workspaces_of", args...)
		c.reads("workspaces", 1000+page, "view_workspaces_of", args...)
	}
}

func TestTheListsOfTheWebViewReadABoundedNumberOfRows(t *testing.T) {
	f, quiet := crowded(t)
	c := f.pages()
	for _, search := range []string{"full 77", "%", "nobody", quiet.workspace} {
		c.reads("workspaces", 100+5*20+1, "workspace_search", search, 100, 20)
	}
	f.exec(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
		select $1, 'definition ' || n, 'T', 'q' from generate_series(1, 500) n`, quiet.workspace)
	f.exec(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select $1, n, '{"nodes": []}' from generate_series(2, 500) n`, quiet.definition)
	f.exec("analyze pgdispatch.workflow_definitions, pgdispatch.workflow_definition_versions")
	c.reads("workflow_definitions", 20, "definition_complete", quiet.workspace, "nothing", 20, 10, nil)
	c.reads("workflow_definitions", 20, "definition_list", quiet.workspace, 20, nil)
	c.reads("workspaces", 3, "workspace_find", nil, "full", 20, []string{quiet.workspace})
	c.reads("workflow_definition_versions", 20, "definition_list", quiet.workspace, 20, nil)
	c.reads("workflow_definitions", 100, "view_items", nil, nil, "nothing", nil, nil, nil, nil, nil, int64(1<<62), 50, 100,
		nil, nil, nil, nil)
	c.reads("workflow_definitions", 100, "view_items", nil, nil, nobody, nil, nil, nil, nil, nil, int64(1<<62), 50, 100,
		nil, "a key", []string{"a"}, "value")
}

// longEnded inserts items that have ended, the nth of them n seconds ago. status is an SQL expression of n.
func (f fixture) longEnded(w tenant, items int, status string) {
	f.untriggered(func(in fixture) {
		in.insert(w, items, "status, claimed_at, dispatched_at, finished_at, last_error",
			status+", now(), now(), now() - n * interval '1 s', 'no'")
	})
	f.exec("vacuum (analyze) pgdispatch.workflow_execution_queue")
}

func TestAListOfItemsEndsWithItsPage(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.longEnded(w, 5000, "'FAILED'")
	c := f.pages()
	list := func(status string, key any) []any {
		return []any{status, nil, nil, nil, nil, nil, nil, nil, int64(1 << 62), 50, 1000, nil, key, nil, nil}
	}
	c.reads("workflow_execution_queue", 1000+50+5, "view_items", list("FAILED", nil)...)
	f.keyed(w, "rare", 3)
	f.keyed(w, "smtp", 5000) // not analyzed
	require.Len(t, c.shown("view_items", list("PENDING", "rare")...), 3, "however much arrived since")
	c.reads("workflow_execution_queue", 1000+50+5, "view_items", list("PENDING", "smtp")...)
	require.Len(t, c.shown("view_items", list("PENDING", "smtp")...), 50)
}

func TestASearchOfDeadLettersReadsABoundedNumberOfFailures(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.longEnded(w, 5000, "'FAILED'")
	f.exec(`insert into pgdispatch.workspaces (name) select 'w ' || n from generate_series(1, 5000) n`)
	f.exec("analyze pgdispatch.workspaces")
	c := f.pages()
	last := c.shown("dead_horizon", 100, nil, nil, nil)
	require.Len(t, last, 1)
	c.reads("workflow_execution_queue", 100, "dead_horizon", 100, nil, nil, nil)
	for _, filter := range [][]any{{nil, nil, "nothing like it"}, {"nobody", nil, nil}, {nil, "nothing", nil}} {
		args := []any{"open", filter[0], filter[1], filter[2], nil, nil, nil, nil, 51, nil, nil, nil, last[0]["failed_at"],
			last[0]["id"]}
		c.reads("workflow_execution_queue", 100, "dead_find", args...)
		c.reads("workspaces", 10, "dead_find", args...)
		c.reads("workflow_definitions", 100, "dead_find", args...)
	}
}

func TestEndedItemsAreCountedByABoundedNumberOfRows(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.longEnded(w, 20000, "case n % 10 when 0 then 'FAILED' else 'COMPLETED' end")
	c := f.pages()
	const all, some = 1000, 100
	c.reads("workflow_execution_queue", all, "view_ended", nil, all, some)
	c.reads("workflow_execution_queue", some, "view_ended", []string{w.workspace}, all, some)
	c.reads("workflow_execution_queue", some, "view_ended", []string{nobody}, all, some)
}

func TestTheLongestDueItemOfEachOfSomeWorkspacesIsFound(t *testing.T) {
	f := open(t)
	first, second, idle := f.tenant("FREE"), f.tenant("FREE"), f.tenant("FREE")
	later := f.tenant("FREE")
	const insert = `insert into pgdispatch.workflow_execution_queue
		(workspace_id, workflow_definition_id, priority, limit_key, run_at)
		values ($1, $2, $3, $4, clock_timestamp() - $5::interval)`
	for _, item := range []struct {
		of       tenant
		priority int
		key      any
		due      string
	}{{first, 9, "a", "1 hour"}, {first, 9, "b", "2 hours"}, {first, 9, nil, "3 hours"}, {first, 0, "a", "4 hours"},
		{first, 0, nil, "1 minute"}, {second, 5, nil, "5 hours"}, {second, 1, nil, "-1 hour"}, {later, 1, nil, "-1 day"}} {
		f.exec(insert, item.of.workspace, item.of.definition, item.priority, item.key, item.due)
	}
	oldest := func(atMost int, of ...string) map[string]int {
		hours := map[string]int{}
		for _, row := range rowsOf[struct {
			ID    string
			Hours int
		}](f, `select workspace_id::text, round(extract(epoch from clock_timestamp() - oldest_due) / 3600)::integer
			from pgdispatch.waiting_among($1::text[]::uuid[], $2)`, of, atMost) {
			hours[row.ID] = row.Hours
		}
		return hours
	}
	require.Equal(t, map[string]int{first.workspace: 4, second.workspace: 5},
		oldest(1000, first.workspace, second.workspace, idle.workspace, later.workspace, nobody))
	require.Equal(t, map[string]int{first.workspace: 1, second.workspace: 5}, oldest(2, first.workspace,
		second.workspace), "the first of each is read before the second of any")
	require.Empty(t, oldest(1000))
}

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
	require.Len(c.t, in.claim(atMost).Items, atMost)
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
	must.Each(t, map[string]given{
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
		holder := must.Get(f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})).In(t)
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
