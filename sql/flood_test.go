package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A plan may be made between a great transaction and the statistics that count its items.
func TestAnEndReadsAFewRowsHoweverManyWait(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("alter table pgdispatch.workflow_execution_queue set (autovacuum_enabled = off)")
	w, others := f.tenant("PRO"), f.tenant("FREE")
	f.items(w, 3)
	ends := []string{"select pgdispatch.finish($1::text::uuid, 'COMPLETED')",
		"select pgdispatch.finish_all(array[$1::text::uuid], '{COMPLETED}', '{null}', '{null}')",
		"update pgdispatch.workflow_executions set status = 'COMPLETED' where id = $1::text::uuid"}
	b := f.claim(len(ends))
	f.dispatched(b)
	f.exec("vacuum (analyze) pgdispatch.workflow_execution_queue")
	in, tx := f.begin()
	in.exec("set local session_replication_role = replica")
	in.items(others, 20_000)
	require.NoError(t, tx.Commit(t.Context()))

	c := f.conn()
	c.exec("select setval('pgdispatch.gate', 1)") // a dispatcher sleeps, so that each end looks for what it may wake
	for n, end := range ends {
		seen := c.scanned("workflow_execution_queue", func() { c.exec(end, b.items[n].ExecutionID) })
		require.Less(t, seen.Index, int64(50), end)
		require.Zero(t, seen.Sequential, end)
	}
}
