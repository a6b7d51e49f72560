package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func recount(f fixture) int { return one[int](f, "select pgdispatch.recount_lanes()") }

func TestRecountRepairsALaneThatWasEdited(t *testing.T) {
	t.Parallel()
	f := open(t)
	a, b := f.tenant("PRO"), f.tenant("PRO")
	f.items(a, 8)
	f.items(b, 2)
	f.dispatched(f.claim(2))
	f.claim(2)
	require.Zero(t, recount(f))
	f.exec("update pgdispatch.lanes set active = 5")
	require.Empty(t, f.claim(10).items, "wrong counts hold everything back")
	require.Equal(t, 2, recount(f))
	require.Zero(t, recount(f))
	require.Len(t, f.claim(10).items, 3, "PRO has 5 slots, 2 were held; the other has nothing left")
	f.exec("delete from pgdispatch.lanes")
	require.Equal(t, 2, recount(f))
	require.Equal(t, []int{2, 5}, all[int](f, "select active from pgdispatch.lanes order by active"))
}

func TestRecountCountsSlotsThatAreFreedButNotFolded(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.items(w, 10)
	b := f.claim(5)
	f.dispatched(b)
	f.finish(*b.items[0].ID, "COMPLETED")
	f.finish(*b.items[1].ID, "FAILED")
	require.Zero(t, recount(f), "the lane is right: its hints will lower it")
	require.Len(t, f.claim(10).items, 2, "and lower it once")
	require.Zero(t, recount(f))
}

func TestRowsThatNoTriggerSawAreFound(t *testing.T) {
	t.Parallel()
	f := open(t)
	known, unknown, future := f.tenant("PRO"), f.tenant("PRO"), f.tenant("PRO")
	f.items(known, 1)
	f.claim(10)
	// As logical replication brings them: no trigger fires, and the transaction is another cluster's.
	in, tx := f.begin()
	in.exec("set local session_replication_role = replica")
	const foreign = `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at, enqueue_xid)
		select $1, $2, now() + $4::interval, $5::text::xid8 from generate_series(1, $3::int)`
	in.exec(foreign, known.workspace, known.definition, 1, time.Duration(0), "3")
	in.exec(foreign, unknown.workspace, unknown.definition, 3, time.Duration(0), "9223372036854775807")
	in.exec(foreign, future.workspace, future.definition, 1, lease, "3")
	require.NoError(t, tx.Commit(t.Context()))
	require.Empty(t, f.claim(10).items, "not in any claim's window")

	find := func() int { return one[int](f, "select pgdispatch.find_unnoticed()") }
	require.Equal(t, 2, find(), "two workspaces have something due")
	require.Zero(t, find(), "the hints say it already")
	require.Len(t, f.claim(10).items, 4)
	require.Zero(t, find())
}

func TestAFullWorkspaceIsNotUnnoticed(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("FREE"), 3)
	f.claim(10)
	f.items(f.tenant("FREE"), 1)
	f.exec("update pgdispatch.settings set paused = true")
	require.Zero(t, one[int](f, "select pgdispatch.find_unnoticed()"))
}

func TestTheLastFreedSlotIsFoldedOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 3)
	for range 3 {
		b := f.claim(10)
		require.Len(t, b.items, 1)
		f.dispatched(b)
		require.Empty(t, f.claim(10).items)
		f.finish(*b.items[0].ID, "COMPLETED")
	}
	require.Empty(t, f.claim(10).items)
	require.Zero(t, one[int](f, "select active from pgdispatch.lanes"))
}

// Only where no claim would look, or not at this level.
func TestAnUrgentRowBehindALowerLevelIsFound(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.at(w, 5, 0)
	f.items(w, 3)
	f.claim(1)
	in, tx := f.begin()
	in.exec("set local session_replication_role = replica")
	urgent := one[int64](in, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, priority, enqueue_xid)
		values ($1, $2, 5, '3') returning id`, w.workspace, w.definition)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 1, one[int](f, "select pgdispatch.find_unnoticed()"))
	require.Zero(t, one[int](f, "select pgdispatch.find_unnoticed()"), "the hint says it")
	require.Equal(t, []int64{urgent}, f.claim(1).ids())
	require.Zero(t, one[int](f, "select pgdispatch.find_unnoticed()"))
}

// What fell due while the lane was believed to be full.
func TestARecountedLaneIsLookedAt(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.at(w, 0, time.Hour)
	f.claim(1)
	f.exec("update pgdispatch.lanes set active = 5, next_due_at = now() - interval '1 second'")
	in, tx := f.begin()
	in.exec("set local session_replication_role = replica")
	in.exec("update pgdispatch.workflow_execution_queue set run_at = now()")
	require.NoError(t, tx.Commit(t.Context()))
	f.item(f.tenant("PRO"))
	require.Len(t, f.claim(10).items, 1)
	require.Equal(t, 1, recount(f))
	require.Len(t, f.claim(10).items, 1)
}
