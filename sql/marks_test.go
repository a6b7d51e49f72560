package sql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// endings returns the sums over all minutes of completed, failed and cancelled items.
func (f fixture) endings() []int64 {
	return one[[]int64](f, `select array[coalesce(sum(completed), 0), coalesce(sum(failed), 0), coalesce(sum(cancelled),
		0)]::bigint[]
		from pgdispatch.activity`)
}

func (f fixture) sweep() {
	f.exec(sql.Text("sweep"), 100, "replica-1")
	f.exec(sql.Text("housekeep"))
}

// trimNow makes the next sweep trim, as if half a minute had passed.
func (f fixture) trimNow() {
	f.exec("update pgdispatch.mark_trim set next_at = '-infinity'")
	f.sweep()
}

// requireTrimmed sweeps until no mark is left. Open transactions of other databases of the cluster keep marks too, so
// its tests do not run in parallel.
func (f fixture) requireTrimmed(nextAt string) {
	require.Eventually(f.t, func() bool {
		f.exec("update pgdispatch.mark_trim set next_at = clock_timestamp() + $1::text::interval", nextAt)
		f.sweep()
		return f.count("marks") == 0
	}, time.Minute, 10*time.Millisecond)
}

func (f fixture) leasedFrom() int64 {
	return one[int64](f, "select leased_from from pgdispatch.mark_trim")
}

// Replicas check every few seconds: a mark is kept for at least half a minute, and while its transaction may be unseen.
func TestAMarkStaysUntilEverybodyHasHadTimeToReadIt(t *testing.T) {
	f := openAlone(t)
	marks := func() int { return f.count("marks") }
	f.trimNow()
	old, tx := f.begin()
	old.exec("select pg_current_xact_id()")
	f.cancel(f.item(f.tenant("FREE")))
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
	require.True(t, one[bool](f,
		"select trimmed_to > '3' and trimmed_to <= pg_snapshot_xmin(pg_current_snapshot()) from pgdispatch.mark_trim"))
	f.cancel(f.item(f.tenant("FREE")))
	f.requireTrimmed("-1 hour")
	before := one[string](f, "select xmin::text from pgdispatch.mark_trim")
	f.sweep()
	require.Equal(t, before, one[string](f, "select xmin::text from pgdispatch.mark_trim"), "an idle sweep writes nothing")
}

func TestASweepWaitsForNoOtherThatTrims(t *testing.T) {
	f := open(t)
	f.cancel(f.item(f.tenant("FREE")))
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
	f := open(t)
	f.exec("select setval('pgdispatch.lease_tokens', 1000)")
	f.items(f.tenant("ENTERPRISE"), 5)
	f.dispatched(f.claim(2))
	late, tx := f.begin()
	held := late.claim(1)
	require.Len(t, held.Items, 1)
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
	f, w := openFor(t, "ENTERPRISE")
	f.items(w, 3)
	f.exec("update pgdispatch.mark_trim set leased_from = 9000000000")
	b := f.claim(3)
	require.Len(t, b.Items, 3)
	f.expire(b.ids()...)
	f.sweep()
	require.Zero(t, f.leasedFrom())
	f.sweep()
	require.Equal(t, []string{"PENDING", "PENDING", "PENDING"},
		all[string](f, "select status from pgdispatch.workflow_execution_queue"))
}

// Another cluster's transaction IDs start elsewhere.
func TestMarksOfARestoredDatabaseAreCountedAndGo(t *testing.T) {
	f := openAlone(t)
	f.untriggered(func(in fixture) {
		in.exec("insert into pgdispatch.marks (xid, completed) values ('9000000002', 3), ('8999999000', 7)")
		in.exec(`update pgdispatch.mark_trim set counted = '9000000001:9000000001:', trimmed_to = '9000000000',
			next_to = '9000000000'`)
	})
	f.cancel(f.item(f.tenant("FREE")))
	f.sweep()
	require.EqualValues(t, 1, f.endings()[2])
	require.Equal(t, 1, f.count("marks"), "only its own mark")
	require.True(t, one[bool](f, "select trimmed_to <= pg_snapshot_xmin(pg_current_snapshot()) from pgdispatch.mark_trim"))
	f.requireTrimmed("-1 second")
	require.EqualValues(t, 1, f.endings()[2])
}

// endingsOf sums the activity of a workspace: completed, failed and cancelled items.
func (f fixture) endingsOf(w tenant) []int64 {
	return one[[]int64](f, `select array[coalesce(sum(completed), 0), coalesce(sum(failed), 0),
		coalesce(sum(cancelled), 0)]::bigint[] from pgdispatch.workspace_activity where workspace_id = $1`, w.workspace)
}

func TestEachEndCountsOnceForItsWorkspaceHoweverItIsReportedAndHoweverLate(t *testing.T) {
	f := openAlone(t)
	first, second := f.tenant("ENTERPRISE"), f.tenant("ENTERPRISE")
	of := [][]int64{f.items(first, 6), f.items(second, 4)}
	f.dispatched(f.claim(8)) // three of each, and two more of one
	running := func(n int) (ids []int64) {
		for _, id := range of[n] {
			if f.status(id) == "DISPATCHED" {
				ids = append(ids, id)
			}
		}
		return ids
	}
	one, two := running(0), running(1)
	require.Greater(t, len(one), 3)
	require.Greater(t, len(two), 2)
	late, tx := f.begin()
	require.True(t, late.finish(one[3], "FAILED"))
	f.finishAll([]int64{one[0], one[1], two[0]}, []string{"COMPLETED", "FAILED", "COMPLETED"}, repeated[any](3, nil),
		repeated[any](3, nil))
	require.True(t, f.finish(one[2], "COMPLETED"))
	require.True(t, f.finish(two[1], "TIMED_OUT"))
	f.exec(`select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue
		where status = 'PENDING' and workspace_id = $1 limit 1`, first.workspace)
	for range 3 {
		f.sweep()
		require.Equal(t, []int64{2, 1, 1}, f.endingsOf(first))
		require.Equal(t, []int64{1, 1, 0}, f.endingsOf(second))
	}
	for range 3 {
		f.trimNow()
	}
	require.Equal(t, []int64{3, 2, 1}, f.endings())
	require.NoError(t, tx.Commit(t.Context()))
	f.trimNow()
	f.requireTrimmed("-1 hour")
	require.Equal(t, []int64{2, 2, 1}, f.endingsOf(first))
	require.Equal(t, []int64{3, 3, 1}, f.endings(), "the sum over all workspaces")
}

// A mark of several workspaces without their shares counts for all of them together.
func TestEndsThatNameNoWorkspaceCountForNone(t *testing.T) {
	f, first, second := openForTwo(t, "FREE", "FREE")
	f.exec("insert into pgdispatch.marks (workspaces, completed) values ($1, 5)",
		[]string{first.workspace, second.workspace})
	f.exec("insert into pgdispatch.marks (workspaces, completed) values (array[$1::uuid], 2)", second.workspace)
	f.sweep()
	require.Equal(t, []int64{0, 0, 0}, f.endingsOf(first))
	require.Equal(t, []int64{2, 0, 0}, f.endingsOf(second))
	require.Equal(t, []int64{7, 0, 0}, f.endings())
}

func TestActivityOfWorkspacesIsDeletedAfterADayInBoundedSteps(t *testing.T) {
	f := open(t)
	f.exec(`insert into pgdispatch.workspace_activity (at, workspace_id, started)
		select clock_timestamp() - make_interval(days => 2 * n), gen_random_uuid(), 1
		from generate_series(0, 1) n, generate_series(1, 50010)`)
	count := func() int { return f.count("workspace_activity") }
	for _, left := range []int{50020, 50010, 50010} {
		f.exec("update pgdispatch.activity set waiting = null") // as if it were the next minute
		f.sweep()
		require.Equal(t, left, count())
	}
}

func TestTheActivityOfAWorkspaceIsReadStepByStepWhateverTheOthersDid(t *testing.T) {
	f := open(t)
	f.noVacuum("workspace_activity")
	w := f.tenant("FREE")
	f.exec(`insert into pgdispatch.workspace_activity (at, workspace_id, started)
		select date_bin('5 minutes', statement_timestamp(), 'epoch') - n * interval '5 minutes', u.id, 1
		from generate_series(0, 287) n, (select gen_random_uuid() as id from generate_series(1, 200) union all
			select $1::text::uuid) u`, w.workspace)
	type row struct {
		At                                    time.Time
		Known                                 bool
		Started, Completed, Failed, Cancelled int64
		Waited, Longest                       time.Duration
	}
	var rows []row
	c := f.conn()
	seen := c.scanned("workspace_activity", func() {
		rows = rowsOf[row](c, sql.Text("workspace_activity_read"), w.workspace, 24*time.Hour, nil)
	})
	require.Len(t, rows, 288)
	for n, r := range rows[1:] { // the first may have passed meanwhile
		require.EqualValues(t, 1, r.Started, n)
		require.True(t, r.Known)
	}
	require.Zero(t, seen.Sequential)
	require.LessOrEqual(t, seen.Index, int64(2*288+1), fmt.Sprint(seen))
}
