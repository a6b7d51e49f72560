package migrate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn := must.Get(pgx.Connect(t.Context(), url)).In(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	must.Get(conn.Exec(t.Context(), statement)).In(t)
}

func read[T any](t *testing.T, conn *pgx.Conn, query string) (value T) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&value))
	return value
}

func status(t *testing.T, conn *pgx.Conn) migrate.State {
	t.Helper()
	state := must.Get(migrate.Status(t.Context(), conn)).In(t)
	return state
}

func relations(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	return read[int](t, conn, `select count(*) from pg_class
		where relnamespace in (select oid from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema')`)
}

func TestStatusOfAnEmptyDatabaseChangesNothing(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.EmptyURL(t))
	state := status(t, conn)
	require.Zero(t, state.Current)
	require.Equal(t, migrate.Newest(), state.Newest)
	require.Len(t, state.Names, int(state.Newest))
	require.Zero(t, relations(t, conn))
	require.True(t, read[bool](t, conn, "select to_regnamespace('pgdispatch') is null"))
}

func TestUpReportsEachStepAndTwiceIsANoOp(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.EmptyURL(t))
	steps := []string{}
	report := func(s migrate.Step) { steps = append(steps, fmt.Sprintf("%s %d %s", s.Direction, s.Version, s.Name)) }
	require.NoError(t, migrate.Up(t.Context(), conn, report))
	require.Len(t, steps, int(migrate.Newest())+len(sql.Functions()))
	require.Equal(t, "up 1 001_baseline.sql", steps[0])
	require.Equal(t, "replace 0 triggers", steps[len(steps)-1])
	before := relations(t, conn)

	steps = nil
	require.NoError(t, migrate.Up(t.Context(), conn, report))
	require.Empty(t, steps)
	require.Equal(t, before, relations(t, conn))
	state := status(t, conn)
	require.Equal(t, state.Newest, state.Current)
	require.Empty(t, state.Outdated)
}

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := sqltest.EmptyURL(t)
	steps := make(chan migrate.Step, 1000)
	conns := []*pgx.Conn{}
	for range 8 {
		conns = append(conns, connect(t, url))
	}
	var replicas errgroup.Group
	for _, conn := range conns {
		replicas.Go(func() error { return migrate.Up(t.Context(), conn, func(s migrate.Step) { steps <- s }) })
	}
	require.NoError(t, replicas.Wait())
	require.Len(t, steps, int(migrate.Newest())+len(sql.Functions()), "exactly one migrator takes each step")
	state := status(t, connect(t, url))
	require.Equal(t, migrate.Newest(), state.Current)
}

func TestAVersionThatThereIsNotIsRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.URL(t))
	for _, version := range []int32{-1, migrate.Newest() + 1} {
		require.ErrorContains(t, migrate.To(t.Context(), conn, version, nil), fmt.Sprintf("migrate to version %d: ", version))
	}
	state := status(t, conn)
	require.Equal(t, state.Newest, state.Current)
}

func TestAMigrationThatFailsLeavesTheVersionBeforeIt(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.EmptyURL(t))
	execute(t, conn, "create schema pgdispatch; create table pgdispatch.workspaces ()")
	require.ErrorContains(t, migrate.Up(t.Context(), conn, nil), "workspaces")
	state := status(t, conn)
	require.Zero(t, state.Current)
	execute(t, conn, "drop table pgdispatch.workspaces")
	require.NoError(t, migrate.Up(t.Context(), connect(t, conn.Config().ConnString()), nil), "the lock is free")
}

func TestTriggersAreReplacedWithoutADeadlockWithATransactionThatWritesSeveralTables(t *testing.T) {
	must.Each(t, map[string]string{
		"changed": "update pgdispatch.applied_functions set sha256 = '' where name = 'triggers'",
		"refuse_truncate is missing": `do $$ declare guarded regclass; begin
			for guarded in select t.tgrelid from pg_trigger t where t.tgname = 'refuse_truncate' loop
				execute format('drop trigger refuse_truncate on %s', guarded);
			end loop; end $$`,
	}, func(t *testing.T, outdate string) {
		t.Parallel()
		url := sqltest.URL(t)
		application, migrating, watching := connect(t, url), connect(t, url), connect(t, url)
		execute(t, migrating, outdate)
		migrated := upWaitsFor(t, migrating, application, watching)
		execute(t, application, "set local lock_timeout = '100ms'")
		execute(t, application, "update pgdispatch.workflow_execution_queue set status = status")
		execute(t, application, "commit")
		require.NoError(t, <-migrated)
	})
}

// upWaitsFor begins a transaction of an application that writes executions, and migrates until that waits for it.
func upWaitsFor(t *testing.T, migrating, application, watching *pgx.Conn) (migrated chan error) {
	t.Helper()
	execute(t, application, "begin")
	execute(t, application, "update pgdispatch.workflow_executions set status = status")
	migrated = make(chan error, 1)
	go func() { migrated <- migrate.Up(t.Context(), migrating, nil) }()
	require.Eventually(t, func() bool {
		return read[bool](t, watching, "select exists (select from pg_locks "+
			"where not granted and relation = 'pgdispatch.workflow_executions'::regclass)")
	}, 30*time.Second, time.Millisecond)
	return migrated
}

func TestAMigrationGivesWayToATransactionThatNeedsATableWhichItHasLocked(t *testing.T) {
	must.Each(t, map[string]string{
		"a wait that is too long": "1min", "a deadlock": "400ms",
	}, func(t *testing.T, deadlockTimeout string) {
		t.Parallel()
		url := sqltest.URL(t)
		application, migrating, watching := connect(t, url), connect(t, url), connect(t, url)
		const activities = 8 // locks workflow_definitions, then workflow_executions
		require.NoError(t, migrate.To(t.Context(), migrating, activities-1, nil))
		execute(t, migrating, "set deadlock_timeout = '"+deadlockTimeout+"'")
		execute(t, application, "set deadlock_timeout = '5s'")
		migrated := upWaitsFor(t, migrating, application, watching)
		execute(t, application, "update pgdispatch.workflow_definitions set name = name")
		execute(t, application, "commit")
		require.NoError(t, <-migrated)
		state := status(t, watching)
		require.Equal(t, state.Newest, state.Current)
	})
}
