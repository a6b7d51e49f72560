package sql_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// crowded has 20,000 items waiting in one full workspace, 1,000 other full workspaces with one waiting item each, and a
// quiet workspace with room, where 5,000 items of a higher priority are scheduled for tomorrow. Nothing is analyzed,
// and autovacuum is off.
func crowded(t *testing.T) (f fixture, quiet tenant) {
	f = open(t)
	f.noVacuum(all[string](f,
		"select relname from pg_class where relnamespace = 'pgdispatch'::regnamespace and relkind = 'r'")...)
	f.tenants(1000, "FREE")
	big := f.tenant("FREE")
	f.untriggered(func(in fixture) {
		in.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, status, claimed_at,
			dispatched_at, lease_token)
			select workspace_id, id, 'DISPATCHED', now(), now(), nextval('pgdispatch.lease_tokens')
				from pgdispatch.workflow_definitions`)
		in.exec(`insert into pgdispatch.workflow_executions
				(id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, status, started_at)
			select q.execution_id, q.id, q.workspace_id, q.workflow_definition_id, v.id, 'RUNNING', now()
			from pgdispatch.workflow_execution_queue q
				join pgdispatch.workflow_definition_versions v using (workflow_definition_id)`)
		in.itemEach()
		in.items(big, 20000)
	})
	require.Empty(t, f.claim(1000).Items, "every other workspace is full")
	require.Empty(t, f.claim(1000).Items, "the second thousand too")
	f.exec(sql.Text("housekeep"))
	require.Equal(t, 1002, one[int](f, "select leased_from from pgdispatch.mark_trim"), "no item is leased")
	quiet = f.tenant("PRO")
	f.insert(quiet, 5000, "priority, run_at", "9, now() + interval '1 day'")
	require.Empty(t, f.claim(1).Items)
	return f, quiet
}

// noVacuum turns autovacuum off for tables.
func (f fixture) noVacuum(tables ...string) {
	for _, table := range tables {
		f.exec("alter table pgdispatch." + table + " set (autovacuum_enabled = off)")
	}
}

type scans struct{ Sequential, Index int64 }

// bounded fails if do reads the table from end to end, or more than that many of its index entries.
func (c fixture) bounded(table string, atMost int64, what string, do func()) {
	seen := c.scanned(table, do)
	require.Zero(c.t, seen.Sequential, "%s read %s from end to end", what, table)
	require.LessOrEqual(c.t, seen.Index, atMost, "index entries of %s that %s read", table, what)
}

// scanned runs do on its own connection and returns the number of sequential scans of a table and of index entries read
// meanwhile.
func (c fixture) scanned(table string, do func()) scans {
	count := func() scans {
		c.exec("select pg_stat_force_next_flush()")
		c.exec("select pg_stat_clear_snapshot()")
		var s scans
		row := c.db.QueryRow(c.t.Context(), `select t.seq_scan, (select sum(i.idx_tup_read)::bigint
			from pg_stat_user_indexes i where i.relid = t.relid)
			from pg_stat_user_tables t where t.relid = $1::text::regclass`, "pgdispatch."+table)
		require.NoError(c.t, row.Scan(&s.Sequential, &s.Index))
		return s
	}
	before := count()
	do()
	after := count()
	return scans{after.Sequential - before.Sequential, after.Index - before.Index}
}

func TestWhatIsReadDoesNotGrowWithTheBacklog(t *testing.T) {
	f, quiet := crowded(t)
	c := f.replicaConn()
	claimReads(c, quiet)
	readsRead(c, quiet)
	listsRead(c)
	enqueueReads(f.conn(), quiet)
	withdrawalReads(f.conn())
}

// withdrawalReads withdraws many items at once. Withdrawing one must not search for the remaining ones.
func withdrawalReads(c fixture) {
	ids := c.items(c.tenant("FREE"), 1000)
	seen := c.scanned("workflow_execution_queue", func() {
		c.set("status = 'CANCELLED', finished_at = clock_timestamp()", ids...)
	})
	require.LessOrEqual(c.t, seen.Index, int64(2*1000))
}

// claimReads checks an item's whole lifecycle.
func claimReads(c fixture, quiet tenant) {
	work := func() {
		c.item(quiet)
		b := c.claim(10)
		require.Len(c.t, b.Items, 1)
		c.dispatched(b)
		require.True(c.t, c.finish(b.ids()[0], "COMPLETED"))
	}
	for range 3 {
		work() // a replica's first claims count the running items, so that later ones need not
	}
	for _, table := range []string{
		"workflow_execution_queue", "rates", "marks", "workspaces", "workflow_definitions", "workflow_definition_versions",
		"workflow_executions",
	} {
		c.bounded(table, 99, "a claim", work)
	}
}

// readsRead checks the queries of the sweeper, applications and operators.
func readsRead(c fixture, quiet tenant) {
	c.items(quiet, 3)
	for statement, entries := range map[string]int64{
		// Of 26,000 waiting items at most the limit by arrival, the limit of due ones and of scheduled ones, a few for each
		// level, and the 1,000 running ones.
		"select * from pgdispatch.queue_counts(5000)": 3*5000 + 3*1000 + 1100,
		// Items claimed since the oldest lease.
		"select pgdispatch.requeue_expired(100)": 100,
		// Items that are not due yet.
		"select pgdispatch.bring_back(500)": 5000 + 100,
		// A few for each level.
		"select from pgdispatch.waiting_queues(null, null, null)":                                               3 * 1003,
		"select from pgdispatch.longest_waiting(100)":                                                           3*100 + 100,
		"select from pgdispatch.unanswered(100)":                                                                10,
		sql.Text("replicas"):                                                                                    100,
		fmt.Sprintf("select pgdispatch.pending_count('%s')", quiet.workspace):                                   5100,
		fmt.Sprintf("select * from pgdispatch.workspace_statistics where workspace_id = '%s'", quiet.workspace): 5100,
		fmt.Sprintf("select pgdispatch.cancel('%s')", nobody):                                                   100,
		fmt.Sprintf("select pgdispatch.finish('%s', 'FAILED')", nobody):                                         100,
		fmt.Sprintf("select pgdispatch.finish_all('{%s}', '{FAILED}', '{null}', '{null}')", nobody):             100,
		"select id from pgdispatch.dead_letters order by finished_at desc limit 10":                             100,
	} {
		c.bounded("workflow_execution_queue", entries, statement, func() { c.exec(statement) })
	}
	last := one[int64](c, `select max(q.id) from pgdispatch.workflow_execution_queue q where q.stage = 'WAITS'
		group by q.workspace_id order by count(*) desc limit 1`)
	c.bounded("workflow_execution_queue", 2*100+10, "item_ahead",
		func() { c.exec(sql.Text("item_ahead"), last, 100, nil) })
	for statement, args := range map[string][]any{sql.Text("sweep"): {100, "replica-1"},
		sql.Text("release_owned"): {"replica-1"}} {
		c.exec("insert into pgdispatch.activity (minute, waiting) " +
			"select date_trunc('minute', now()) + n * interval '1 minute', 0 from generate_series(0, 1) n " +
			"on conflict do nothing")
		c.bounded("workflow_execution_queue", 100, statement, func() { c.exec(statement, args...) })
	}
}

// listsRead checks the statistics recorded once a minute, and the list of longest waiting workspaces, page by page.
func listsRead(c fixture) {
	c.exec("delete from pgdispatch.activity")
	const waiting, ofLevels, running = 2*10_000 + 5000, 3 * 1003, 1100 // up to the limit; a few for each level
	note := func() { c.exec("select pgdispatch.keep_house(null)") }
	c.bounded("workflow_execution_queue", waiting+ofLevels+running, "housekeep", note)
	// The test may be in the current minute by now.
	c.exec(
		"insert into pgdispatch.activity (minute, waiting) select minute + interval '1 minute', 0 from pgdispatch.activity")
	require.Zero(c.t, c.scanned("workflow_execution_queue", note), "once a minute is enough")

	// As on the web view's connections: its lists are planned for their actual arguments.
	c.exec("set plan_cache_mode = force_custom_plan")
	const page = 50
	var rank, name, id any
	list := func() []map[string]any {
		return c.shown("view_workspaces", "oldest", rank, name, id, page, 1000, 10_000)
	}
	for range 3 {
		shown := list()
		require.Len(c.t, shown, page)
		waiting := int64(0) // the backlog is counted up to 1,000, if it is on this page
		for _, row := range shown {
			waiting += row["waiting"].(int64)
		}
		// Every level with waiting items is read, a few entries each; then the rows on the page.
		for table, entries := range map[string]int64{"workspaces": 2 * page, "workflow_execution_queue": 3*1003 + 9*page +
			waiting} {
			c.bounded(table, entries, "a page", func() { list() })
		}
		last := shown[page-1]
		rank, name, id = last["rank"], last["name"], last["id"]
	}
}

// enqueueReads checks the trigger's queries. A connection plans them once, so the first insert here is one for which
// another plan would have been better.
func enqueueReads(c fixture, quiet tenant) {
	c.itemEach()
	for _, table := range []string{"workflow_execution_queue", "workspaces", "workflow_definitions"} {
		c.bounded(table, 9, "an enqueue", func() { c.item(quiet) })
	}
}

// From Postgres 17 on, the planner drops "is not null" on a not-null column before it considers indexes, and so misses
// partial indexes with that predicate. Plans of an older Postgres would not show it.
func TestNoStatementFindsItsIndexByWhatIsDropped(t *testing.T) {
	f := open(t)
	statements := all[string](f, "select prosrc from pg_proc where pronamespace = 'pgdispatch'::regnamespace")
	for _, verb := range sql.Verbs() {
		statements = append(statements, sql.Text(verb))
	}
	columns := all[string](f, `select distinct a.attname::text
		from pg_index i
		join pg_attribute a on a.attrelid = i.indrelid and a.attnotnull
		where i.indrelid::regclass::text like 'pgdispatch.%'
			and pg_get_expr(i.indpred, i.indrelid) ~ ('\m' || a.attname || ' IS NOT NULL')`)
	require.Contains(t, columns, "enqueue_xid")
	for _, column := range columns {
		for _, statement := range statements {
			require.NotRegexp(t, `\b`+column+` is not null`, statement)
		}
	}
}

// A plan that must use a disabled type of scan costs 10^10, so Postgres would spend 20 ms on compiling it.
func TestFunctionsThatDisableAPlanTypeDisableJITToo(t *testing.T) {
	f := open(t)
	const disables = "exists (select from unnest(proconfig) s where s like 'enable%=off')"
	require.Contains(t, all[string](f, "select proname::text from pg_proc where "+disables), "finish")
	const compiles = disables + " and 'jit=off' <> all (proconfig)"
	require.Empty(t, all[string](f, "select proname::text from pg_proc where "+compiles))
}

// Without the settings of Planning, Postgres compiles a plan that costs more than jit_above_cost, for half a second.
func TestNoStatementIsCompiled(t *testing.T) {
	f := open(t)
	cost := regexp.MustCompile(`\.\.([0-9.]+)`)
	for _, verb := range sql.Verbs() {
		if slices.Contains([]string{"listen_ended", "doctor_listen", "claim_plain"}, verb) {
			continue // the first two have no plan; lock_claims, which precedes the third, disables JIT
		}
		plan := one[string](f, "explain "+sql.Text(verb), f.arguments(verb, 0, nobody, "")[0]...)
		require.Less(t, must.Get(strconv.ParseFloat(cost.FindStringSubmatch(plan)[1], 64)).In(t), 100_000.0, verb)
	}
}

// Statistics taken while nothing runs make the index of running items the smallest, and a plan made then is kept.
func TestARowIsFoundByItsKeyHoweverFewRanWhenThatWasPlanned(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.noVacuum("workflow_execution_queue", "workflow_executions")
	const execution = `insert into pgdispatch.workflow_executions
			(id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, status, started_at,
				finished_at)
		select q.execution_id, q.id, q.workspace_id, q.workflow_definition_id, gen_random_uuid(), $2, now(), case
			when $2 <> 'RUNNING' then now() end
		from pgdispatch.workflow_execution_queue q where q.status = $1`
	f.untriggered(func(in fixture) {
		in.items(w, 20_000)
		in.exec(execution, "PENDING", "COMPLETED")
	})
	f.exec("vacuum (analyze) pgdispatch.workflow_execution_queue")
	f.exec("vacuum (analyze) pgdispatch.workflow_executions")

	c := f.conn()
	c.exec("set plan_cache_mode = force_generic_plan")
	statements := map[string]func(execution string){
		"finish": func(e string) { c.exec("select pgdispatch.finish($1, 'COMPLETED')", e) },
		"finish_all": func(e string) {
			c.exec("select pgdispatch.finish_all(array[$1::uuid], '{COMPLETED}', '{null}', '{null}')", e)
		},
		"plain update": func(e string) {
			c.exec("update pgdispatch.workflow_executions set status = 'COMPLETED' where id = $1", e)
		},
		"open_among": func(e string) { c.exec(sql.Text("open_among"), []string{e}) },
	}
	for _, plan := range statements {
		plan(nobody)
	}
	f.untriggered(func(in fixture) {
		in.insert(w, 3000, "status, claimed_at, dispatched_at", "'DISPATCHED', now(), now()")
		in.exec(execution, "DISPATCHED", "RUNNING")
	})

	running := all[string](f,
		"select execution_id::text from pgdispatch.workflow_execution_queue where status = 'DISPATCHED' "+
			"order by id desc limit 8")
	for name, run := range statements {
		for _, table := range []string{"workflow_execution_queue", "workflow_executions"} {
			c.bounded(table, 19, name, func() { run(running[0]) })
			running = running[1:]
		}
	}
}

// A plan may be made between a great transaction and the statistics that count its items.
func TestAnEndReadsAFewRowsHoweverManyWait(t *testing.T) {
	f := open(t)
	f.noVacuum("workflow_execution_queue")
	w, others := f.tenant("PRO"), f.tenant("FREE")
	ends := []string{"select pgdispatch.finish($1::text::uuid, 'COMPLETED')",
		"select pgdispatch.finish_all(array[$1::text::uuid], '{COMPLETED}', '{null}', '{null}')",
		"update pgdispatch.workflow_executions set status = 'COMPLETED' where id = $1::text::uuid"}
	f.items(w, len(ends))
	b := f.claim(len(ends))
	f.dispatched(b)
	f.exec("vacuum (analyze) pgdispatch.workflow_execution_queue")
	f.untriggered(func(in fixture) { in.items(others, 20_000) })

	c := f.conn()
	c.exec("select setval('pgdispatch.gate', 1)") // a dispatcher sleeps, so that each end looks for what it may wake
	for n, end := range ends {
		c.bounded("workflow_execution_queue", 49, end, func() { c.exec(end, b.Items[n].ExecutionID) })
	}
}

// If the claim knows the watcher, the settle of an execution changes no indexed column.
func TestASettleThatTheClaimForesawIsHeapOnly(t *testing.T) {
	type given struct {
		claimed, settled any
		heapOnly         int
	}
	must.Each(t, map[string]given{
		"watched":               {"replica-1", "replica-1", 1},
		"no replica has room":   {nil, nil, 1},
		"room at the settle":    {nil, "replica-1", 0},
		"no room at the settle": {"replica-1", nil, 0},
	}, func(t *testing.T, c given) {
		f := open(t).conn()
		id := f.item(f.tenant("FREE"))
		store := &claim.Store{Pool: f.db, Owner: "replica-1", Lease: lease, CanWatch: func(int) bool {
			return c.claimed != nil
		}}
		answer, _, err := store.SettleAndClaim(t.Context(), nil, claim.Wanted{AtMost: 1, Look: true})
		require.NoError(t, err)
		require.Len(t, answer.Items, 1)
		f.exec("select pg_stat_force_next_flush()")
		before := one[int](f,
			"select n_tup_hot_upd from pg_stat_user_tables where relid = 'pgdispatch.workflow_execution_queue'::regclass")
		tokens := all[int64](f, "select lease_token from pgdispatch.workflow_execution_queue where id = $1", id)
		require.Equal(t, []int64{id}, all[int64](f, sql.Text("dispatched"), []int64{id}, tokens, []string{"run"}, c.settled))
		f.exec("select pg_stat_force_next_flush()")
		f.exec("select pg_stat_clear_snapshot()")
		require.Equal(t, c.heapOnly, one[int](f,
			"select n_tup_hot_upd from pg_stat_user_tables where relid = 'pgdispatch.workflow_executions'::regclass"))
		require.Equal(t, before+1, one[int](f,
			"select n_tup_hot_upd from pg_stat_user_tables where relid = 'pgdispatch.workflow_execution_queue'::regclass"))
		require.Equal(t, c.settled, one[any](f, "select watcher from pgdispatch.workflow_executions"))
	})
}
