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
	read := func() { f.exec("select * from pgdispatch.limits_in_use($1, $2)", seen, named) }
	for table, entries := range map[string]int64{
		"workflow_execution_queue": 2*seen + named*6,
		"limits":                   4*2*seen/20 + 2*named + 20, // those of some hundred keys
		"limit_starts":             named * 5,
	} {
		got := f.scanned(table, read)
		require.LessOrEqual(t, got.Sequential, int64(0), table)
		require.LessOrEqual(t, got.Index, entries, table)
	}
	require.EqualValues(t, named+1, f.exec("select * from pgdispatch.limits_in_use($1, $2)", seen, named))
}
