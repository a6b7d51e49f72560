package sql_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

const denied = "42501"

// login returns the same database, used by a role with only this membership.
func (f fixture) login(role string) fixture {
	return f.on(sqltest.Pool(f.t, sqltest.Login(f.t, f.pool.Config().ConnString(), "in role pgdispatch_"+role)))
}

func TestAnEnqueuerSetsWhatIsAClients(t *testing.T) {
	f, w := openFor(t, "PRO")
	app := f.login("enqueuer")
	id := app.item(w)
	require.Equal(t, "PENDING", app.status(id))
	require.NotEmpty(t, app.execution(id), "the workflow ID is derived from it")
	require.Len(t, app.items(w, 3), 3)
	require.NoError(t, app.copyText("workspace_id, workflow_definition_id", w.workspace+"\t"+w.definition+"\n"))
	require.EqualValues(t, 1, app.exec(`insert into pgdispatch.workflow_execution_queue
		(workspace_id, workflow_definition_id, priority, run_at, params, idempotency_key, traceparent)
		values ($1, $2, 5, now(), '{"a": 1}', 'once', null)
		on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing`, w.workspace, w.definition))
	require.True(t, one[bool](app,
		"select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue where idempotency_key = 'once'"))
}

func TestAnOperatorReadsWhatAReaderDoes(t *testing.T) {
	f := open(t)
	require.Empty(t, all[string](f, `
		select c.relname::text from pg_class c where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'v')
		and has_table_privilege('pgdispatch_reader', c.oid, 'SELECT') <> has_table_privilege('pgdispatch_operator', c.oid,
			'SELECT')
		union all
		select p.proname::text from pg_proc p where p.pronamespace = 'pgdispatch'::regnamespace
		and has_function_privilege('pgdispatch_reader', p.oid, 'EXECUTE')
			and not has_function_privilege('pgdispatch_operator', p.oid, 'EXECUTE')`))
}

func TestTheLogOfChangesSaysWhichLoginMadeThem(t *testing.T) {
	operator := open(t).login("operator")
	operator.exec("insert into pgdispatch.admin_log (who, action, subject) values ('me', 'settings set', 'settings')")
	require.Equal(t, one[string](operator, "select session_user::text"),
		one[string](operator, "select role from pgdispatch.admin_log"))
}

func TestAnOperatorIsAmongThoseWhomIsolationLetsSeeAllInADatabaseThatWasIsolatedBefore(t *testing.T) {
	f, w := openFor(t, "PRO")
	id := f.item(w)
	f.exec("select pgdispatch.isolate_workspaces(true)")
	f.exec("alter policy sees_all on pgdispatch.workflow_execution_queue to pgdispatch_owner, pgdispatch_dispatcher, " +
		"pgdispatch_reader")
	require.Empty(t, all[int64](f.login("operator"), "select id from pgdispatch.workflow_execution_queue"))
	require.NoError(t, migrate.Up(t.Context(), connect(t, f.pool.Config().ConnString(), nil), nil))
	require.Equal(t, []int64{id}, all[int64](f.login("operator"), "select id from pgdispatch.workflow_execution_queue"))
}

// everyColumn is an insert by a client that names every column, including those it must not set.
const everyColumn = `
insert into pgdispatch.enqueue
    (id, execution_id, workspace_id, workflow_definition_id, status, priority, run_at, params, idempotency_key,
    	traceparent,
     attempt_count, last_error, created_at, claimed_by, claimed_at, lease_expires_at, dispatched_at, finished_at)
values (7, '00000000-0000-4000-8000-000000000007', $1, $2, 'COMPLETED', $3, null, $4, null, null,
     9, 'x', '2001-01-01', 'me', '2001-01-01', '2001-01-01', '2001-01-01', '2001-01-01')
returning id, execution_id, status, priority, params, attempt_count, last_error, created_at = now(), run_at = now(),
     claimed_by, claimed_at, lease_expires_at, dispatched_at, finished_at`

func TestTheViewTakesAClientsColumnsWhateverElseIsNamed(t *testing.T) {
	f, w := openFor(t, "PRO")
	for _, role := range []string{"enqueuer", "owner"} {
		app, tx := f.login(role).beginOn()
		for _, given := range []struct {
			priority, params any
			has              int
		}{{nil, nil, 0}, {4, `{"a": 1}`, 4}} {
			var id int64
			var execution, status, params string
			var priority, attempts int
			var created, runs bool
			nulls := make([]*string, 6)
			require.NoError(t,
				app.db.QueryRow(t.Context(), everyColumn, w.workspace, w.definition, given.priority, given.params).Scan(
					&id, &execution, &status, &priority, &params, &attempts, &nulls[0], &created, &runs, &nulls[1], &nulls[2],
					&nulls[3], &nulls[4], &nulls[5]))
			require.NotEqual(t, "00000000-0000-4000-8000-000000000007", execution)
			require.Equal(t, "PENDING", status)
			require.Equal(t, given.has, priority)
			require.Zero(t, attempts)
			require.True(t, created && runs)
			require.Equal(t, make([]*string, 6), nulls)
			require.Equal(t, []int64{id},
				all[int64](app, "select id from pgdispatch.enqueue where execution_id = $1", execution), "its transaction reads it")
		}
		require.NoError(t, tx.Commit(t.Context()))
		require.Empty(t, all[int64](app.on(f.pool), "select id from pgdispatch.enqueue"), "other transactions do not")
	}
	same := all[bool](f, `select q.status = 'PENDING' and q.attempt_count = 0 and q.params = case q.priority when 4
		then '{"a": 1}' else '{}' end::jsonb
		from pgdispatch.workflow_execution_queue q`)
	require.Equal(t, []bool{true, true, true, true}, same)
	f.login("enqueuer").refusedAs("PGD04", "", `insert into pgdispatch.enqueue
		(workspace_id, workflow_definition_id, params) values ($1, $2, '[]')`, w.workspace, w.definition)
}

// beginOn returns the same fixture in a transaction of its own pool.
func (f fixture) beginOn() (fixture, pgx.Tx) {
	tx := must.Get(f.db.(*pgxpool.Pool).Begin(f.t.Context())).In(f.t)
	f.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return f.on(tx), tx
}

func TestIsolationKeepsNoOtherRoleFromAnItem(t *testing.T) {
	f, mine, other := openForTwo(t, "PRO", "FREE")
	first, second := f.item(other), f.item(other)
	f.isolated(mine.workspace).exec(`insert into pgdispatch.enqueue (workspace_id, workflow_definition_id)
		values ($1, $2)`, mine.workspace, mine.definition)
	for _, role := range []string{"owner", "reader", "operator", "dispatcher"} {
		require.Equal(t, "PENDING", f.login(role).status(first), role)
	}
	require.True(t, f.login("operator").cancel(first))
	require.True(t, f.login("owner").cancel(second))
	f.login("owner").exec("select pgdispatch.isolate_workspaces(false)")
	f.login("enqueuer").item(other)
}

func TestIsolationChangesNoPlanOfADispatcher(t *testing.T) {
	f := open(t)
	dispatcher := f.login("dispatcher")
	plans := func() []string {
		found := []string{}
		for _, query := range []string{
			"select * from pgdispatch.workflow_execution_queue where workspace_id = gen_random_uuid() and stage = 'WAITS' " +
				"and run_at < now()",
			"update pgdispatch.workflow_execution_queue set status = 'PENDING' where id = any ('{1,2}') and lease_token = 1 " +
				"and claimed_by is not null",
			"select pgdispatch.requeue_expired(1)",
		} {
			found = append(found, all[string](dispatcher, "explain (costs off, verbose) "+query)...)
		}
		return found
	}
	before := plans()
	f.exec("select pgdispatch.isolate_workspaces(true)")
	require.Equal(t, before, plans())
}

func TestADispatcherDoesItsWorkInIsolation(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.exec("select pgdispatch.isolate_workspaces(true)")
	f.items(w, 3)
	dispatcher := f.login("dispatcher")
	b := dispatcher.claim(10)
	require.Len(t, b.Items, 3)
	dispatcher.dispatched(b)
	require.True(t, dispatcher.finish(b.ids()[0], "COMPLETED"))
}

// A role that may not create roles gets a working schema and a warning about missing roles.
func TestWhoMayNotCreateRolesIsToldAndMigratesAllTheSame(t *testing.T) {
	t.Parallel()
	cluster := must.Get(sqltest.StartCluster(t.Context(), sqltest.Options{})).In(t)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	admin := connect(t, cluster.URL("postgres"), nil)
	for _, statement := range []string{
		"create role plain login", "create role maker login createrole", "create database theirs owner plain",
		"create database made owner maker",
	} {
		must.Get(admin.Exec(t.Context(), statement)).In(t)
	}
	as := func(role, database string) string {
		return strings.Replace(cluster.URL(database), "postgres@", role+"@", 1)
	}

	var warnings []*pgconn.Notice
	plain := connect(t, as("plain", "theirs"), &warnings)
	require.NoError(t, migrate.Up(t.Context(), plain, nil))
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0].Message, "role plain may not create roles")
	require.Contains(t, warnings[0].Hint,
		"create role pgdispatch_operator nologin; create role pgdispatch_reader nologin; grant pgdispatch_owner to plain;")
	owned := fixture{t: t, db: plain, replicas: &sync.Map{}}
	owned.item(owned.tenant("FREE"))
	require.Len(t, owned.claim(1).Items, 1)

	// A role that may create roles becomes a member of the owner and hands over its objects.
	warnings = nil
	made := connect(t, as("maker", "made"), &warnings)
	require.NoError(t, migrate.Up(t.Context(), made, nil))
	require.Empty(t, warnings)
	require.Equal(t, "pgdispatch_owner",
		one[string](fixture{t: t, db: made}, "select nspowner::regrole::text from pg_namespace where nspname = 'pgdispatch'"))
	require.NoError(t, migrate.To(t.Context(), made, 0, nil), "as a member of the owner")
	require.NoError(t, migrate.Up(t.Context(), made, nil))

	// The roles exist now, and the first role may not become their member: it applies the grants and gets a warning.
	require.NoError(t, migrate.Up(t.Context(), plain, nil))
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0].Hint, "grant pgdispatch_owner to plain;")
	must.Get(admin.Exec(t.Context(), "grant pgdispatch_owner to plain")).In(t)
	require.NoError(t, migrate.Up(t.Context(), plain, nil))
	require.Equal(t, "pgdispatch_owner",
		one[string](owned, "select nspowner::regrole::text from pg_namespace where nspname = 'pgdispatch'"))
	require.Equal(t, all[string](fixture{t: t, db: made}, privileges, "pgdispatch_dispatcher"),
		all[string](owned, privileges, "pgdispatch_dispatcher"))
}

// Roles belong to the cluster, and all of these migrations create them at the same time.
func TestDatabasesOfOneClusterMigrateAtOnce(t *testing.T) {
	t.Parallel()
	cluster := must.Get(sqltest.StartCluster(t.Context(), sqltest.Options{})).In(t)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	admin := connect(t, cluster.URL("postgres"), nil)
	conns := []*pgx.Conn{}
	for n := range 6 {
		must.Get(admin.Exec(t.Context(), fmt.Sprintf("create database shop_%d", n))).In(t)
		conns = append(conns, connect(t, cluster.URL(fmt.Sprintf("shop_%d", n)), nil))
	}
	var databases errgroup.Group
	for _, conn := range conns {
		databases.Go(func() error { return migrate.Up(t.Context(), conn, nil) })
	}
	require.NoError(t, databases.Wait())
	for _, conn := range conns {
		require.NotEmpty(t, all[string](fixture{t: t, db: conn}, privileges, "pgdispatch_enqueuer"))
	}
}

// connect opens a connection that keeps the server's warnings.
func connect(t *testing.T, url string, warnings *[]*pgconn.Notice) *pgx.Conn {
	config := must.Get(pgx.ParseConfig(url)).In(t)
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if warnings != nil && notice.Severity == "WARNING" {
			*warnings = append(*warnings, notice)
		}
	}
	conn := must.Get(pgx.ConnectConfig(t.Context(), config)).In(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}
