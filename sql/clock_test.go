package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// clockMoves simulates a jump of the database's clock: it shifts the times in all rows in the opposite direction.
func (f fixture) clockMoves(by time.Duration) {
	f.t.Helper()
	f.exec(`update pgdispatch.workflow_execution_queue
		set claimed_at = claimed_at - $1::interval, lease_expires_at = lease_expires_at - $1::interval
			where status = 'CLAIMED'`, by)
	f.exec("update pgdispatch.replicas set renewed_at = renewed_at - $1::interval, expires_at = expires_at - $1::interval",
		by)
}

func (f fixture) leftOf(id int64) time.Duration {
	f.t.Helper()
	return one[time.Duration](f,
		"select lease_expires_at - clock_timestamp() from pgdispatch.workflow_execution_queue where id = $1", id)
}

func TestAClockThatIsSetBackKeepsNoLeaseForLonger(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 3)
	f.exec(sql.Text("replica_alive"), "replica-1", "dev", 4, lease, "default", "{}")
	b := f.claim(2)
	f.clockMoves(-time.Hour)
	after := f.claim(1).ids()[0]
	dead, alive := b.ids()[0], b.ids()[1]
	require.Greater(t, f.leftOf(dead), time.Hour)

	require.Equal(t, []int64{alive}, all[int64](f, sql.Text("heartbeat"), []int64{alive}, b.tokens()[1:], lease))
	require.InDelta(t, lease, f.leftOf(alive), float64(20*time.Second), "a heartbeat resets it")
	require.Equal(t, 2, f.bringBack(), "the replica, and the lease neither claimed nor renewed since the jump")
	require.Zero(t, f.bringBack())
	for _, id := range []int64{dead, alive, after} {
		require.InDelta(t, lease, f.leftOf(id), float64(20*time.Second))
	}
	require.GreaterOrEqual(t, f.leftOf(dead), lease-20*time.Second, "the lease starts again: a live holder keeps it")
	require.Len(t, f.dispatched(b), 2, "the holder settles its claims as usual")
	require.InDelta(t, lease, one[time.Duration](f, "select expires_at - clock_timestamp() from pgdispatch.replicas"),
		float64(20*time.Second))
}

func TestALeaseWithinItsTimeIsNotShortened(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	b := f.claim(2)
	f.exec("update pgdispatch.workflow_execution_queue set claimed_at = claimed_at - interval '10 minutes'")
	all[int64](f, sql.Text("heartbeat"), b.ids(), b.tokens(), time.Hour)
	before := all[string](f, "select q::text from pgdispatch.workflow_execution_queue q")
	require.Zero(t, f.bringBack())
	require.Equal(t, before, all[string](f, "select q::text from pgdispatch.workflow_execution_queue q"))
}

func TestARowThatIsLockedDoesNotHoldTheShorteningUp(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	b := f.claim(2)
	f.clockMoves(-time.Hour)
	holder, _ := f.begin()
	holder.exec("select from pgdispatch.workflow_execution_queue where id = $1 for update", b.ids()[0])
	require.Equal(t, 1, f.impatient().bringBack())
}

// A jump forward expires every lease: settles fail, and all items are recovered once.
func TestAClockThatIsSetForwardFencesEveryHolder(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.items(w, 5)
	b := f.claim(5)
	f.clockMoves(time.Hour)
	require.Empty(t, f.dispatched(b))
	require.Empty(t, all[int64](f, sql.Text("heartbeat"), b.ids(), b.tokens(), lease))
	again := f.claimBy("replica-2", 9)
	require.ElementsMatch(t, b.ids(), again.ids())
	for n, item := range again.items {
		require.True(t, *item.Unanswered)
		require.Contains(t, all[string](f, "select id::text from pgdispatch.workflow_executions"),
			*again.items[n].ExecutionID, "the same workflow")
	}
	require.Empty(t, f.dispatched(b), "a late settle changes nothing")
	require.Len(t, f.dispatched(again), 5)
}
