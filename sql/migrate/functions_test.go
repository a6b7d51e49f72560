package migrate_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

const (
	otherBody = "create or replace function pgdispatch.error_kind(error text) returns text language sql immutable as $$ " +
		"select 'another' $$"
	otherRecord = "update pgdispatch.applied_functions set sha256 = 'another', applied_at = '2000-01-01' " +
		"where name = 'error_kind'"
	bodyOf = "select md5(string_agg(pg_get_functiondef(oid), '' order by oid::regprocedure::text)) from pg_proc " +
		"where pronamespace = 'pgdispatch'::regnamespace"
	triggers = "select md5(string_agg(pg_get_triggerdef(oid), '' order by oid)) from pg_trigger where not tgisinternal"
)

func TestUpReplacesTheFunctionsThatHaveChangedAndNoOther(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.URL(t))
	bodies := read[string](t, conn, bodyOf)
	execute(t, conn, otherBody)
	execute(t, conn, otherRecord)
	require.NotEqual(t, bodies, read[string](t, conn, bodyOf))
	state := status(t, conn)
	require.Equal(t, []string{"error_kind"}, state.Outdated)

	steps := []migrate.Step{}
	report := func(s migrate.Step) { steps = append(steps, s) }
	require.NoError(t, migrate.Up(t.Context(), conn, report))
	require.Equal(t, []migrate.Step{{Name: "error_kind", Direction: "replace"}}, steps)
	require.Equal(t, bodies, read[string](t, conn, bodyOf))
	require.Equal(t, "error_kind",
		read[string](t, conn, "select name from pgdispatch.applied_functions order by applied_at desc limit 1"))
	state = status(t, conn)
	require.Empty(t, state.Outdated)
}

func TestUpReplacesTriggersThatHaveChanged(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.URL(t))
	before := read[string](t, conn, triggers)
	execute(t, conn,
		"create or replace trigger refuse_item before insert on pgdispatch.workflow_execution_queue for each row execute "+
			"function pgdispatch.refuse_item()")
	execute(t, conn, "delete from pgdispatch.applied_functions where name = 'triggers'")
	require.NotEqual(t, before, read[string](t, conn, triggers))
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	require.Equal(t, before, read[string](t, conn, triggers))
}

// A function that is no longer in the binary may be called by an older replica.
func TestUpLeavesFunctionsAloneThatItDoesNotHave(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.URL(t))
	execute(t, conn, "create function pgdispatch.former() returns integer language sql return 1; "+
		"grant execute on function pgdispatch.former() to pgdispatch_dispatcher")
	execute(t, conn, "insert into pgdispatch.applied_functions (name, sha256) values ('former', 'any')")
	require.NoError(t, migrate.Up(t.Context(), conn, func(s migrate.Step) {
		require.Fail(t, "no function is outdated", s.Name)
	}))
	require.Equal(t, 1, read[int](t, conn, "select pgdispatch.former()"))
	require.True(t, read[bool](t, conn,
		"select has_function_privilege('pgdispatch_dispatcher', 'pgdispatch.former()', 'execute')"))
}

func TestAFunctionThatCannotBeReplacedLeavesAllAsTheyWere(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.URL(t))
	execute(t, conn,
		"drop function pgdispatch.waiting_of(uuid, integer); create function pgdispatch.waiting_of(uuid, "+
			"integer) returns integer language sql return 1")
	execute(t, conn, otherBody)
	execute(t, conn, "delete from pgdispatch.applied_functions where name in ('error_kind', 'waiting_of')")
	before := read[string](t, conn, bodyOf)
	require.ErrorContains(t, migrate.Up(t.Context(), conn, func(s migrate.Step) {
		require.Fail(t, "no function was applied", s.Name)
	}), "apply function waiting_of: ")
	require.Equal(t, before, read[string](t, conn, bodyOf))
	execute(t, conn, "drop function pgdispatch.waiting_of(uuid, integer)")
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
}

// Functions are created without checking their bodies, so that their order does not matter. The bodies must still be
// valid.
func TestEveryFunctionIsMadeWhereItsBodyIsLookedAt(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.URL(t))
	before := read[string](t, conn, bodyOf)
	require.Equal(t, sql.Triggers, sql.Functions()[len(sql.Functions())-1].Name)
	for _, f := range sql.Functions() {
		execute(t, conn, f.Text)
	}
	require.Equal(t, before, read[string](t, conn, bodyOf))
}

func TestUpWaitsForTheClaimUnderWay(t *testing.T) {
	t.Parallel()
	url := sqltest.URL(t)
	conn, claiming := connect(t, url), connect(t, url)
	execute(t, conn, otherRecord)
	execute(t, conn, "set lock_timeout = '50ms'")
	execute(t, claiming, "begin; lock table pgdispatch.claim_lock in share row exclusive mode")
	require.ErrorContains(t, migrate.Up(t.Context(), conn, nil), "wait for claims: ")
	execute(t, claiming, "commit")
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	execute(t, claiming, "begin; lock table pgdispatch.claim_lock in share row exclusive mode")
	require.NoError(t, migrate.Up(t.Context(), conn, nil), "with nothing to replace it waits for none")
	execute(t, claiming, "commit")
}

func TestASchemaFromBeforeTheBaselineIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.EmptyURL(t))
	for _, table := range []string{"schema_version", "migrations"} {
		execute(t, conn, "create schema pgdispatch; create table pgdispatch."+table+" as select 10 as version")
		before := relations(t, conn)
		state := status(t, conn)
		require.Equal(t, migrate.State{Newest: migrate.Newest(), Names: state.Names, BeforeBaseline: 10}, state)
		for _, err := range []error{state.Err(), migrate.Up(t.Context(), conn, nil), migrate.To(t.Context(), conn, 0, nil)} {
			old := &migrate.BeforeBaselineError{}
			require.ErrorAs(t, err, &old)
			require.EqualValues(t, 10, old.Version)
			require.EqualError(t, err, "the schema has version 10, from before the baseline, and cannot be upgraded: "+
				"export what you need, `drop schema pgdispatch cascade`, and `pgdispatch migrate up`")
		}
		require.Equal(t, before, relations(t, conn))
		execute(t, conn, "drop schema pgdispatch cascade")
		require.NoError(t, migrate.Up(t.Context(), conn, nil))
		execute(t, conn, "drop schema pgdispatch cascade")
	}
}

// The table that it reads its version from is not there.
func TestABinaryFromBeforeTheBaselineFindsNoSchemaToStartOn(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.URL(t))
	require.True(t, read[bool](t, conn,
		"select to_regclass('pgdispatch.schema_version') is null and to_regclass('pgdispatch.migrations') is null"))
	execute(t, conn, "create table pgdispatch.migrations as select 0 as version") // as its failed `migrate up` leaves it
	state := status(t, conn)
	require.NoError(t, state.Err())
	require.Equal(t, migrate.Newest(), state.Current)
}

func TestANewerSchemaIsLeftToANewerBinary(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.URL(t))
	execute(t, conn, "update pgdispatch.schema_migrations set version = version + 1")
	execute(t, conn, otherRecord)
	before := relations(t, conn)
	for _, version := range []int32{migrate.Newest(), 0} {
		newer := &migrate.NewerError{}
		err := migrate.To(t.Context(), conn, version, func(s migrate.Step) { require.Fail(t, "no step is taken", s.Name) })
		require.True(t, errors.As(err, &newer), err)
		require.ErrorContains(t, err, "migrate it with the newer pgdispatch")
	}
	require.Equal(t, before, relations(t, conn))
	require.Equal(t, "another",
		read[string](t, conn, "select sha256 from pgdispatch.applied_functions where name = 'error_kind'"))
}

func TestMigrateUpRepairsIndexesTriggersAndFunctions(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.EmptyURL(t))
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	defects := func() (all []string) {
		rows := must.Get(conn.Query(t.Context(), sql.Text("doctor_catalogue"))).In(t)
		found := must.Get(pgx.CollectRows(rows, pgx.RowToStructByName[sql.Object])).In(t)
		for _, o := range sql.Defects(found) {
			all = append(all, o.Name+" "+o.Problem)
		}
		return all
	}
	require.Empty(t, defects())
	execute(t, conn, `set search_path = pgdispatch`)
	require.Empty(t, defects(), "in any search_path")
	execute(t, conn, `reset search_path;
		drop index pgdispatch.workflow_execution_queue_holders;
		update pg_index set indisvalid = false where indexrelid = 'pgdispatch.limits_by_workspace'::regclass;
		drop function pgdispatch.waiting_of;
		create or replace function pgdispatch.error_kind(error text) returns text
		language sql immutable as $$ select error $$;
		alter table pgdispatch.limits disable trigger key_limits_added;
		drop trigger item_gone on pgdispatch.workflow_execution_queue;
		alter table pgdispatch.workspaces enable replica trigger workspace_deleted;
		alter table pgdispatch.workflow_execution_queue enable trigger item_moved; -- not always
		alter table pgdispatch.signals disable trigger refuse_truncate;
		alter table pgdispatch.workspaces alter column plan drop default;
		alter table pgdispatch.rates reset (fillfactor), set (autovacuum_enabled = off);
		alter table pgdispatch.marks set (autovacuum_vacuum_threshold = 50, toast_tuple_target = 4080)`)
	state := status(t, conn)
	require.Empty(t, state.Outdated, "what was applied is of this version")
	require.Equal(t, []string{"error_kind", "waiting_of", "triggers"}, state.Damaged)
	byHand := []string{"marks.autovacuum_vacuum_threshold altered", "rates without autovacuum",
		"rates.fillfactor missing"}
	require.ElementsMatch(t, append(byHand, "workspaces.plan altered", "workflow_execution_queue_holders missing",
		"limits_by_workspace invalid", "limits.key_limits_added disabled",
		"workspaces.workspace_deleted enabled for replication only", "workflow_execution_queue.item_moved altered",
		"signals.refuse_truncate disabled", "workflow_execution_queue.item_gone missing",
		"error_kind(error text) altered",
		"waiting_of(workspace uuid, at_most integer, OUT items bigint, OUT claimed bigint, "+
			"OUT running bigint, OUT oldest_due timestamp with time zone) missing"), defects())
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	require.ElementsMatch(t, byHand, defects())
}
