package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheUseOfLimitsCostsTheSameWithManyLimitsAndALongQueue(t *testing.T) {
	t.Parallel()
	f := open(t).conn()
	w := f.tenant("ENTERPRISE")
	for _, table := range []string{"workflow_execution_queue", "limits", "limit_starts"} {
		f.exec("alter table pgdispatch." + table + " set (autovacuum_enabled = off)")
	}
	f.exec("set session_replication_role = replica")
	f.exec(`insert into pgdispatch.limits (workspace_id, key, max_concurrent, max_starts, per)
		select workspace, 'key ' || n, 5, '{1}', '{1 minute}'
		from generate_series(1, 10000) n cross join unnest(array[null, $1::uuid]) workspace`, w.workspace)
	f.exec(`insert into pgdispatch.limits (workspace_id, key, max_concurrent)
		select gen_random_uuid(), 'key 1', 5 from generate_series(1, 10000)`)
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key, status,
			claimed_at, dispatched_at, lease_token)
		select $1, $2, 'key ' || n / 20, 'DISPATCHED', now(), now(), nextval('pgdispatch.lease_tokens')
		from generate_series(1, 10000) n`, w.workspace, w.definition)
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key)
		select $1, $2, 'key ' || n / 20 from generate_series(1, 20000) n`, w.workspace, w.definition)
	f.exec("insert into pgdispatch.limit_starts select id, '1 minute', now(), 1 from pgdispatch.limits")

	const seen, named = 1000, 4
	read := func() { f.exec("select * from pgdispatch.limits_used($1, $2)", seen, named) }
	for table, entries := range map[string]int64{
		"workflow_execution_queue": 2*seen + 1000 + named*50, // the holders, the keys that wait, their items
		"limits":                   3*1100 + 2*named + 20,    // those of 1,000 keys and of some hundred held ones
		"limit_starts":             named * 5,
	} {
		got := f.scanned(table, read)
		require.LessOrEqual(t, got.Sequential, int64(0), table)
		require.LessOrEqual(t, got.Index, entries, table)
	}
	require.EqualValues(t, named+1, f.exec("select * from pgdispatch.limits_used($1, $2)", seen, named))
}

func TestItemsOfKeysWithoutALimitAreNotLookedAt(t *testing.T) {
	t.Parallel()
	f := open(t).conn()
	w := f.tenant("PRO")
	f.limit(nil, "key 7", 0)
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key)
		select $1, $2, 'key ' || n % 50 from generate_series(1, 5000) n`, w.workspace, w.definition)
	got := f.scanned("workflow_execution_queue", func() {
		require.Equal(t, []string{"key 7 100", " 0"}, all[string](f,
			"select concat(key, ' ', items) from pgdispatch.limits_used(1000, 5)"))
	})
	require.LessOrEqual(t, got.Index, int64(50+100+100+5), "each key, and twice the items of the one")
}

func TestWhatWaitsForAKeyIsCountedHoweverMuchArrivedBefore(t *testing.T) {
	t.Parallel()
	f := open(t)
	big, small := f.tenant("PRO"), f.tenant("PRO")
	f.items(big, 300)
	f.keyed(big, "other", 300)
	f.limit(nil, "gpu", 0)
	f.limit(&small, "mail", 0)
	f.keyed(small, "gpu", 40)
	f.keyed(small, "mail", 30)
	f.exec("update pgdispatch.workflow_execution_queue set priority = id % 3 where limit_key = 'mail'")
	f.exec("update pgdispatch.workflow_execution_queue set run_at = now() + interval '1 day' where limit_key <> '' " +
		"and id % 10 = 0")
	require.Equal(t, []string{"gpu 36", "mail 27", " 0"}, all[string](f,
		"select concat(key, ' ', items) from pgdispatch.limits_used(10, 5)"))
	require.Equal(t, int64(63), one[int64](f, "select behind from pgdispatch.limits_used(10, 5) where key is null"))
	for _, of := range []struct {
		key       string
		workspace any
		items     int64
	}{{"gpu", nil, 20}, {"mail", small.workspace, 20}, {"mail", big.workspace, 0}, {"mail", nil, 20}, {"none", nil, 0}} {
		require.Equal(t, of.items, one[int64](f, "select items from pgdispatch.key_waiting($1, $2, 20)", of.key,
			of.workspace), of)
	}
}

func TestWhatWaitsForAKeyIsFoundByItsIndex(t *testing.T) {
	t.Parallel()
	f := open(t).conn()
	w := f.tenant("PRO")
	f.exec("alter table pgdispatch.workflow_execution_queue set (autovacuum_enabled = off)")
	f.items(w, 5000)
	f.keyed(w, "aaa", 5000)
	f.keyed(w, "smtp", 400)
	for _, workspace := range []any{nil, w.workspace} {
		read := f.scanned("workflow_execution_queue", func() {
			f.exec("select * from pgdispatch.key_waiting('smtp', $1, 100)", workspace)
		})
		require.LessOrEqual(t, read.Sequential, int64(0), workspace)
		require.LessOrEqual(t, read.Index, int64(110), workspace)
	}
}
