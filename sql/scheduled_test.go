package sql_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An item that is not due yet is scheduled. It does not wait, and has no part in how long the oldest has waited.
func TestScheduledItemsAreCountedBesideThoseThatWait(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("PRO"), f.tenant("PRO")
	f.items(w, 3)
	f.item(other)
	f.at(w, 0, time.Hour)
	f.exec(`insert into pgdispatch.workflow_execution_queue
			(workspace_id, workflow_definition_id, limit_key, priority, run_at)
		select $1, $2, 'key ' || n % 3, n % 2, now() + make_interval(mins => n - 3) from generate_series(1, 6) n`,
		w.workspace, w.definition)
	const counts = `select format('%s %s %s', due, scheduled,
		extract(epoch from clock_timestamp() - oldest_due)::int / 60)`
	require.Equal(t, "6 4 2", one[string](f, counts+" from pgdispatch.waiting_counts(array[$1::uuid], 100)", w.workspace))
	require.Equal(t, "7 4 2", one[string](f, counts+" from pgdispatch.waiting_counts(null, 100)"))
	require.Equal(t, "6 4 2", one[string](f, `select format('%s %s %s', waiting, scheduled,
		extract(epoch from clock_timestamp() - oldest_waiting_since)::int / 60)
		from pgdispatch.workspace_statistics where workspace_id = $1`, w.workspace))
	depth := f.shown("queue_depth", 10_000)[0]
	require.EqualValues(t, []any{int64(7), int64(4)}, []any{depth["pending"], depth["scheduled"]})
}

// Counts that stop early say so, and a great backlog of one kind hides none of the other.
func TestCountsOfWaitingAndScheduledItemsStopEarlyAndSaySo(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, later := f.tenant("PRO"), f.tenant("PRO")
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key, run_at)
		select $1, $2, 'key ' || n % 20, now() + interval '1 hour' from generate_series(1, 500) n`,
		later.workspace, later.definition)
	f.items(w, 50)
	const counts = `select format('%s %s %s %s', due, due_exact, scheduled, scheduled_exact)
		from pgdispatch.waiting_counts`
	require.Equal(t, "50 t 100 f", one[string](f, counts+"(null, 100)"))
	require.Equal(t, "40 f 40 f", one[string](f, counts+"(null, 40)"))
	require.Equal(t, "0 f 5 f", one[string](f, counts+"(array[$1::uuid], 5)", later.workspace),
		"not all key queues were looked at")
	require.Equal(t, "50 t 500 t", one[string](f, counts+"(null, 1000)"))
}

// However many key queues there are, a count of scheduled items is exact unless there are very many.
func TestScheduledItemsAreCountedExactlyBesideManyKeyQueues(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("PRO"), f.tenant("PRO")
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key)
		select $1, $2, 'key ' || n from generate_series(1, 150) n`, w.workspace, w.definition)
	const counts = `select format('%s %s', scheduled, scheduled_exact) from pgdispatch.waiting_counts`
	require.Equal(t, "0 t", one[string](f, counts+"(null, 100)"))
	require.Equal(t, "0 t", one[string](f, counts+"(array[$1::uuid], 100)", w.workspace))
	f.at(w, 0, time.Hour)
	f.at(other, 0, time.Hour)
	require.Equal(t, "2 t", one[string](f, counts+"(null, 100)"))
	require.Equal(t, "1 t", one[string](f, counts+"(array[$1::uuid], 100)", w.workspace))
	f.exec("update pgdispatch.workflow_execution_queue set run_at = now() where run_at > now()")
	require.Equal(t, "0 t", one[string](f, counts+"(null, 100)"))
}

// Where there are more key queues than are looked at, those of the items that arrived first are among them.
func TestTheLongestWaitingWorkspaceIsFoundBesideManyKeyQueues(t *testing.T) {
	t.Parallel()
	f := open(t)
	tenants := make([]tenant, 11)
	for n := range tenants {
		tenants[n] = f.tenant("PRO")
	}
	slices.SortFunc(tenants, func(a, b tenant) int { return cmp.Compare(b.workspace, a.workspace) })
	for _, w := range tenants {
		f.item(w)
	}
	last := tenants[0]
	require.Equal(t, last.workspace,
		one[string](f, "select workspace_id::text from pgdispatch.longest_waiting(5) order by waiting_from limit 1"))
}
