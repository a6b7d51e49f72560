package sql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// upkeepWork is what each part of a sweep has to do, and a query that returns true once it has done it.
var upkeepWork = map[string]struct{ due, done string }{
	"leases": {`update pgdispatch.workflow_execution_queue set lease_expires_at = now() - interval '1 s'
		where status = 'CLAIMED'`,
		"select not exists (select from pgdispatch.workflow_execution_queue where status = 'CLAIMED')"},
	"start_before": {`update pgdispatch.workflow_execution_queue set start_before = now() - interval '1 s'
		where priority = -1`,
		"select not exists (select from pgdispatch.workflow_execution_queue where priority = -1 and status = 'PENDING')"},
	"marks": {"insert into pgdispatch.marks (workspaces) values (null)",
		"select counted::text <> '1:1:' from pgdispatch.mark_trim"},
	"depth":  {"select 1", "select exists (select from pgdispatch.activity where waiting is not null)"},
	"limits": {"select 1", "select exists (select from pgdispatch.limit_activity)"},
	"activity": {`insert into pgdispatch.workspace_activity (at, workspace_id)
		values (now() - interval '2 days', gen_random_uuid())`,
		"select not exists (select from pgdispatch.workspace_activity where at < now() - interval '1 day')"},
	"start_tries": {`insert into pgdispatch.start_tries (item_id)
		select id from pgdispatch.workflow_execution_queue where status = 'COMPLETED'`,
		"select not exists (select from pgdispatch.start_tries)"},
	"missing_executions": {`insert into pgdispatch.missing_executions (execution_id, since, asked_at, young)
		values (gen_random_uuid(), now(), now(), true)`, "select not exists (select from pgdispatch.missing_executions)"},
}

// upkeepFaults make each part fail.
var upkeepFaults = map[string]string{
	"leases":             fails("pgdispatch.requeue_expired(at_most integer) returns integer"),
	"start_before":       fails("pgdispatch.cancel_late(at_most integer) returns integer"),
	"marks":              refuses("update", "mark_trim", "statement"),
	"depth":              refuses("insert", "activity", "row when (new.waiting is not null)"),
	"limits":             refuses("insert", "limit_activity", "statement"),
	"activity":           refuses("delete", "workspace_activity", "statement"),
	"start_tries":        refuses("delete", "start_tries", "statement"),
	"missing_executions": refuses("delete", "missing_executions", "statement"),
}

// fails returns the text of a function that raises.
func fails(signature string) string {
	return "create or replace function " + signature + " language plpgsql as $$ begin raise 'broken'; end; $$"
}

// refuses returns statements after which a command on a table raises.
func refuses(command, table, each string) string {
	return fmt.Sprintf(`create function pg_temp.refuse() returns trigger language plpgsql
			as $$ begin raise 'broken'; end; $$;
		create trigger broken before %s on pgdispatch.%s for each %s execute function pg_temp.refuse()`,
		command, table, each)
}

// sweepOnce makes a sweep with its housekeeping, and returns the parts that failed.
func (f fixture) sweepOnce() map[string]string {
	store := sweeper.Postgres{DB: f.db, Owner: "replica-1"}
	swept := must.Get(store.Sweep(f.t.Context(), 100)).In(f.t)
	require.True(f.t, swept.Housework)
	failing := must.Get(store.Housekeep(f.t.Context())).In(f.t)
	for part, why := range swept.Failing {
		failing[part] = why
	}
	return failing
}

// openUpkeep returns a fixture with work for each part of a sweep.
func openUpkeep(t *testing.T) fixture {
	f, w := openFor(t, "ENTERPRISE")
	f.exec("insert into pgdispatch.limits (key, max_concurrent) values ('key', 1)")
	ended := f.item(w)
	f.dispatched(f.claim(1))
	f.finish(ended, "COMPLETED")
	f.insert(w, 1, "limit_key", "'key'")
	require.Len(t, f.claim(1).Items, 1)
	f.insert(w, 1, "priority", "-1")
	in, tx := f.begin()
	in.exec("set local session_replication_role = replica")
	for _, work := range upkeepWork {
		in.exec(work.due)
	}
	require.NoError(t, tx.Commit(t.Context()))
	return f
}

func TestSweep_EachPartFailsAlone(t *testing.T) {
	must.Each(t, upkeepFaults, func(t *testing.T, fault string) {
		f := openUpkeep(t).conn()
		f.exec(fault)
		failing := f.sweepOnce()
		require.Len(t, failing, 1)
		for part, work := range upkeepWork {
			why, failed := failing[part]
			require.Equal(t, !failed, one[bool](f, work.done), "%s", part)
			if failed {
				require.Equal(t, "broken (SQLSTATE P0001)", why)
				require.True(t, strings.HasSuffix(t.Name(), "/"+part), part)
			}
		}
	})
}

// What a replica names is what the statements name.
func TestSweep_NamesOnlyKnownParts(t *testing.T) {
	recovery, housekeeping := sweeper.Parts()
	for part := range upkeepFaults {
		require.Contains(t, append(recovery, housekeeping...), part)
	}
	require.Len(t, append(recovery, housekeeping...), len(upkeepFaults)+4, "sweep, watches, clock and housekeeping")
}

// Tools for change data capture and for upgrades create such a publication. Postgres then refuses to change rows of
// tables that have no identity.
func TestMigrateUp_GivesEachTableAnIdentityForPublications(t *testing.T) {
	f := open(t)
	require.Empty(t, all[string](f, `select c.relname::text from pg_class c
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p') and c.relreplident <> 'f'
		  and not exists (select from pg_index i where i.indrelid = c.oid
		                    and case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident end)`))
}

func TestPublicationForAllTables_StopsNothing(t *testing.T) {
	t.Parallel()
	url := sqltest.EmptyURL(t)
	conn := connect(t, url, nil)
	must.Get(conn.Exec(t.Context(), "create publication everything for all tables")).In(t)
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	require.NoError(t, migrate.To(t.Context(), conn, migrate.Newest()-1, nil))
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	pool := sqltest.Pool(t, url)
	requireWork(t, pool)

	f := fixture{t: t, pool: pool, db: pool}
	f.exec("insert into pgdispatch.marks (workspaces) values (null)")
	f.exec("update pgdispatch.mark_trim set next_at = '-infinity', next_to = '1000000000'")
	require.Empty(t, f.sweepOnce())
	require.Zero(t, one[int](f, "select count(*) from pgdispatch.marks"))
	f.exec("insert into pgdispatch.workspace_roles (role, workspace_id) values (current_user::regrole, null)")
	require.EqualValues(t, 1, f.exec("delete from pgdispatch.workspace_roles"))
}
