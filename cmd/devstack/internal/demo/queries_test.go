package demo

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

// openDemo returns a database with the demonstration's workspaces.
func openDemo(t *testing.T) (*pgxpool.Pool, *stack) {
	t.Helper()
	url := sqltest.URL(t)
	psql := must.Get(findPsql(sqltest.Shared(t).BinDir)).In(t)
	st := &stack{databaseURL: url, psql: psql}
	require.NoError(t, st.psqlFile(t.Context(), dataDir, workspacesFile))
	return sqltest.Pool(t, url), st
}

// insertHistory writes items of the PRO workspace in their final state, bypassing every trigger. Each line is created,
// claimed, dispatched and finished in milliseconds after midnight; a negative number means never.
func insertHistory(t *testing.T, pool *pgxpool.Pool, items [][4]int) {
	t.Helper()
	conn := must.Get(pool.Acquire(t.Context())).In(t)
	defer conn.Release()
	must.Get(conn.Exec(t.Context(), "set session_replication_role = replica")).In(t)
	defer func() {
		must.Get(conn.Exec(context.Background(), "reset session_replication_role")).In(t)
	}()
	for _, at := range items {
		must.Get(conn.Exec(t.Context(), `
			with item as (
			    select timestamptz '2026-01-01' + nullif(greatest($1::int, -1), -1) * interval '1 ms' as created,
			           timestamptz '2026-01-01' + nullif(greatest($2::int, -1), -1) * interval '1 ms' as claimed,
			           timestamptz '2026-01-01' + nullif(greatest($3::int, -1), -1) * interval '1 ms' as dispatched,
			           timestamptz '2026-01-01' + nullif(greatest($4::int, -1), -1) * interval '1 ms' as finished
			)
			insert into pgdispatch.workflow_execution_queue
			    (workspace_id, workflow_definition_id, created_at, run_at, claimed_at, dispatched_at, finished_at, status)
			select 'bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000001',
			       created, created, claimed, dispatched, finished,
			       case when finished is not null then 'COMPLETED'
			            when dispatched is not null then 'DISPATCHED'
			            else 'PENDING' end
			from item`, at[0], at[1], at[2], at[3])).In(t)
	}
}

func TestPeaksAreExact(t *testing.T) {
	t.Parallel()
	pool, _ := openDemo(t)
	insertHistory(t, pool, [][4]int{
		{0, 0, 5, 100},
		{0, 50, 55, 150},
		{0, 100, 105, 200}, // claimed at the instant the first ends: never three at once
		{0, -1, -1, -1},
	})

	workspaces := must.Get(collect[workspace](t.Context(), pool, workspacesQuery)).In(t)
	require.Equal(t, []workspace{
		{Name: "Acorn Bakery", Plan: "FREE", Slots: 1},
		{Name: "Birch & Sons", Plan: "PRO", Slots: 5, Peak: 2, Completed: 3},
		{Name: "Cedar Health", Plan: "ENTERPRISE", Slots: 20},
	}, workspaces)
	require.Equal(t, []counts{{Waiting: 1, Completed: 3}}, must.Get(collect[counts](t.Context(), pool, countsQuery)).In(t))
}

func TestDataOfTheDemonstrationIsAccepted(t *testing.T) {
	t.Parallel()
	pool, st := openDemo(t)
	require.NoError(t, st.psqlFile(t.Context(), dataDir, enqueueFile))

	outcomes := must.Get(collect[outcome](t.Context(), pool, outcomesQuery)).In(t)
	require.Len(t, outcomes, 202)
	failing := 0
	for _, o := range outcomes {
		require.Equal(t, "PENDING", o.Status)
		if o.ShouldFail {
			failing++
		}
	}
	require.Equal(t, 6, failing)
	var lost int // which fail at what is no node of the dispatched version
	require.NoError(t, pool.QueryRow(t.Context(), `
		select count(*)
		from pgdispatch.workflow_execution_queue q
		where q.params ? 'fail_at' and not exists (
		    select from pgdispatch.workflow_definition_versions v
		    where v.workflow_definition_id = q.workflow_definition_id
		      and v.graph -> 'nodes' @> jsonb_build_array(jsonb_build_object('id', q.params ->> 'fail_at'))
		      and v.version = (select max(version) from pgdispatch.workflow_definition_versions n
		                       where n.workflow_definition_id = q.workflow_definition_id))`).Scan(&lost))
	require.Zero(t, lost)
}

func TestPsqlErrorsAreShown(t *testing.T) {
	t.Parallel()
	_, st := openDemo(t)
	err := st.psqlFile(t.Context(), dataDir, workspacesFile) // the second time
	require.ErrorContains(t, err, "run psql -f workspaces.sql: exit status 3")
	require.ErrorContains(t, err, "duplicate key value")
}
