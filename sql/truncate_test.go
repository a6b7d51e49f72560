package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// TRUNCATE would leave what refers to the rows, such as keys, to the items that get their IDs, and tell no replica.
func TestNobodyTruncatesATable(t *testing.T) {
	t.Parallel()
	f := open(t)
	tables := all[string](f, `select c.oid::regclass::text from pg_class c
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p')
		and c.relname <> 'schema_migrations'`)
	require.Greater(t, len(tables), 30)
	first := f.enqueue(f.tenant("PRO"), 1, "key => 'a'")
	owner := f.login("owner")
	for _, table := range tables {
		for _, how := range []string{" cascade", " restart identity cascade"} {
			for name, as := range map[string]fixture{"owner": owner, "superuser": f} {
				require.Equal(t, "PGD28", as.refused("truncate "+table+how).Code, "%s%s as %s", table, how, name)
			}
		}
	}
	require.Equal(t, "PENDING", f.status(first.ID))

	in, _ := f.begin()
	in.exec("set local session_replication_role = replica")
	in.exec("truncate pgdispatch.item_failures") // the exception in docs/lifecycle.md
}

// A later version's table is guarded too, although no trigger that exists is created again.
func TestAnUpgradeGuardsNewTablesAgainstTruncate(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("create table pgdispatch.later (id int)")
	f.exec("alter table pgdispatch.later owner to pgdispatch_owner")
	f.exec("truncate pgdispatch.later")
	writer, _ := f.begin()
	writer.exec("update pgdispatch.settings set max_claims = 5") // in use
	require.NoError(t, migrate.Up(t.Context(), connect(t, f.pool.Config().ConnString(), nil), nil))
	require.Equal(t, "PGD28", f.refused("truncate pgdispatch.later").Code)
}

// What refers to an item by its IDs goes with it. An item that holds a slot or waits stays, whoever names it.
func TestAPurgeDeletesWhatHasEndedAndEverythingThatRefersToIt(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("ENTERPRISE")
	ids, ended := []int64{}, []int64{}
	for _, state := range statuses(f) {
		in, tx := f.begin()
		id := seed(in, w, state, live)
		in.exec("insert into pgdispatch.signals (execution_id, name) values ($1, 'go')", in.execution(id))
		in.exec("insert into pgdispatch.item_failures (item_id, failure, attempt, error) values ($1, 1, 1, 'no')", id)
		in.exec("insert into pgdispatch.enqueue_keys (workspace_id, key, item_id) values ($1, $2, $3)", w.workspace, state,
			id)
		in.exec("insert into pgdispatch.dead_letter_marks (item_id, mark, marked_by) values ($1, 'DISCARDED', 'me')", id)
		in.exec(`insert into pgdispatch.parked_items (item_id, error, attempts, try_at) values ($1, 'no', 1, now())`, id)
		require.NoError(t, tx.Commit(t.Context()))
		if ids = append(ids, id); state == "COMPLETED" || state == "FAILED" || state == "CANCELLED" {
			ended = append(ended, id)
		}
	}
	require.Len(t, ended, 3)
	const held = "select count(*)::int from pgdispatch.workflow_execution_queue where stage in ('HOLDS', 'DOUBT')"
	before := one[int](f, held)
	require.ElementsMatch(t, ended, all[int64](f.login("owner"), sql.Text("item_purge"), ids, "me"))
	require.Equal(t, before, one[int](f, held), "slots are kept")
	require.Empty(t, all[int64](f.login("owner"), sql.Text("item_purge"), ids, "me"))

	references := all[string](f, `select format('select count(distinct %1$I)::int from %2$s', a.attname, c.oid::regclass)
		from pg_attribute a join pg_class c on c.oid = a.attrelid
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'r'
		  and (a.attname in ('item_id', 'queue_item_id', 'execution_id')
		       or c.relname = 'workflow_executions' and a.attname = 'id')`)
	require.Len(t, references, 9)
	for _, query := range references {
		require.Equal(t, len(ids)-len(ended), one[int](f, query), query)
	}
}
