package sql_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// endings returns the sums over all minutes of completed, failed and cancelled items.
func (f fixture) endings() []int64 {
	f.t.Helper()
	return one[[]int64](f, `select array[coalesce(sum(completed), 0), coalesce(sum(failed), 0), coalesce(sum(cancelled),
		0)]::bigint[]
		from pgdispatch.activity`)
}

func (f fixture) sweep() { f.t.Helper(); f.exec(sql.Text("sweep"), 100, "replica-1") }

// trimNow makes the next sweep trim, as if half a minute had passed.
func (f fixture) trimNow() {
	f.t.Helper()
	f.exec("update pgdispatch.mark_trim set next_at = '-infinity'")
	f.sweep()
}

// requireTrimmed sweeps until no mark is left. Open transactions of other databases of the cluster keep marks too, so
// its tests do not run in parallel.
func (f fixture) requireTrimmed(nextAt string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		f.exec("update pgdispatch.mark_trim set next_at = clock_timestamp() + $1::text::interval", nextAt)
		f.sweep()
		return one[int](f, "select count(*) from pgdispatch.marks") == 0
	}, time.Minute, 10*time.Millisecond)
}

func (f fixture) leasedFrom() int64 {
	f.t.Helper()
	return one[int64](f, "select leased_from from pgdispatch.mark_trim")
}

func TestEachEndCountsOnceHoweverLateItsTransactionCommits(t *testing.T) {
	f := open(t)
	w := f.tenant("ENTERPRISE")
	waiting := f.items(w, 6)
	running := f.claim(4)
	f.dispatched(running)
	ids := running.ids()
	late, tx := f.begin()
	require.True(t, late.finish(ids[0], "COMPLETED"))
	require.True(t, f.finish(ids[1], "COMPLETED"))
	require.True(t, f.finish(ids[2], "FAILED"))
	f.exec(sql.Text("cancel"), f.execution(waiting[5]))
	for range 3 {
		f.sweep()
		require.Equal(t, []int64{1, 1, 1}, f.endings())
	}
	for range 3 {
		f.trimNow()
	}
	require.Equal(t, []int64{1, 1, 1}, f.endings())
	require.NoError(t, tx.Commit(t.Context()))
	f.trimNow()
	require.Equal(t, []int64{2, 1, 1}, f.endings())
	f.requireTrimmed("-1 hour")
	require.Equal(t, []int64{2, 1, 1}, f.endings())
}

// Replicas check every few seconds: a mark is kept for at least half a minute, and while its transaction may be unseen.
func TestAMarkStaysUntilEverybodyHasHadTimeToReadIt(t *testing.T) {
	f := open(t)
	marks := func() int { return one[int](f, "select count(*) from pgdispatch.marks") }
	f.trimNow()
	old, tx := f.begin()
	old.exec("select pg_current_xact_id()")
	f.exec(sql.Text("cancel"), f.execution(f.item(f.tenant("FREE"))))
	require.Equal(t, 1, marks())
	f.trimNow() // the half minute begins here
	f.sweep()
	require.Equal(t, 1, marks())
	f.trimNow()
	require.Equal(t, 1, marks(), "an earlier transaction is open, and may leave a mark with an earlier number")
	require.NoError(t, tx.Rollback(t.Context()))
	f.trimNow()
	require.Equal(t, 1, marks())
	f.requireTrimmed("-1 second")
	require.True(t,
		one[bool](f,
			"select trimmed_to > '3' and trimmed_to <= pg_snapshot_xmin(pg_current_snapshot()) from pgdispatch.mark_trim"))
	f.exec(sql.Text("cancel"), f.execution(f.item(f.tenant("FREE"))))
	f.requireTrimmed("-1 hour")
	before := one[string](f, "select xmin::text from pgdispatch.mark_trim")
	f.sweep()
	require.Equal(t, before, one[string](f, "select xmin::text from pgdispatch.mark_trim"), "an idle sweep writes nothing")
}

func TestASweepWaitsForNoOtherThatTrims(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(sql.Text("cancel"), f.execution(f.item(f.tenant("FREE"))))
	other, tx := f.begin()
	other.exec("select from pgdispatch.mark_trim for update")
	sweeper := f.impatient()
	sweeper.sweep()
	require.Equal(t, []int64{0, 0, 0}, f.endings())
	require.NoError(t, tx.Rollback(t.Context()))
	f.sweep()
	require.Equal(t, []int64{0, 0, 1}, f.endings())
}

// A sweep begins at the oldest lease; no lease may ever be created before it.
func TestALeaseIsFoundHoweverLateItsClaimCommits(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("select setval('pgdispatch.lease_tokens', 1000)")
	f.items(f.tenant("ENTERPRISE"), 5)
	f.dispatched(f.claim(2))
	late, tx := f.begin()
	held := late.claim(1)
	require.Len(t, held.items, 1)
	f.sweep()
	require.Equal(t, held.tokens()[0], f.leasedFrom(), "beyond all running items")
	require.NoError(t, tx.Commit(t.Context()))
	f.exec("update pgdispatch.mark_trim set leased_from = leased_from - 500")
	f.sweep()
	require.Equal(t, held.tokens()[0], f.leasedFrom(), "the oldest lease")
	f.expire(held.ids()...)
	require.Equal(t, 1, one[int](f, "select pgdispatch.requeue_expired(10)"))
	again := f.claim(1)
	require.Equal(t, held.ids(), again.ids())
	f.expire(again.ids()...)
	f.sweep()
	require.Equal(t, "PENDING", f.status(held.ids()[0]))
}

// Logical replication and some ways to copy a database bring tables without sequences.
func TestLeasesAreFoundInACopyWhoseSequencesBeginAnew(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("ENTERPRISE")
	f.items(w, 3)
	f.exec("update pgdispatch.mark_trim set leased_from = 5000")
	b := f.claim(3)
	require.Len(t, b.items, 3)
	f.expire(b.ids()...)
	f.sweep()
	require.Zero(t, f.leasedFrom())
	f.sweep()
	require.Equal(t, []string{"PENDING", "PENDING", "PENDING"},
		all[string](f, "select status from pgdispatch.workflow_execution_queue"))
}

// Another cluster's transaction IDs start elsewhere.
func TestMarksOfARestoredDatabaseAreCountedAndGo(t *testing.T) {
	f := open(t)
	f.exec("set session_replication_role = replica; insert into pgdispatch.marks (xid, completed) "+
		"values ('9000000002', 3), ('8999999000', 7); "+
		"update pgdispatch.mark_trim set counted = '9000000001:9000000001:', trimmed_to = '9000000000', next_to = "+
		"'9000000000'; "+
		"reset session_replication_role", pgx.QueryExecModeSimpleProtocol)
	f.exec(sql.Text("cancel"), f.execution(f.item(f.tenant("FREE"))))
	f.sweep()
	require.EqualValues(t, 1, f.endings()[2])
	require.Equal(t, 1, one[int](f, "select count(*) from pgdispatch.marks"), "only its own mark")
	require.True(t, one[bool](f, "select trimmed_to <= pg_snapshot_xmin(pg_current_snapshot()) from pgdispatch.mark_trim"))
	f.requireTrimmed("-1 second")
	require.EqualValues(t, 1, f.endings()[2])
}
