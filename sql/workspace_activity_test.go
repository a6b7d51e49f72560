package sql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// endingsOf sums the activity of a workspace: completed, failed and cancelled items.
func (f fixture) endingsOf(w tenant) []int64 {
	f.t.Helper()
	return one[[]int64](f, `select array[coalesce(sum(completed), 0), coalesce(sum(failed), 0),
		coalesce(sum(cancelled), 0)]::bigint[] from pgdispatch.workspace_activity where workspace_id = $1`, w.workspace)
}

func TestEachEndCountsOnceForItsWorkspaceHoweverItIsReported(t *testing.T) {
	t.Parallel()
	f := open(t)
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
	require.NoError(t, tx.Commit(t.Context()))
	f.trimNow()
	f.trimNow()
	require.Equal(t, []int64{2, 2, 1}, f.endingsOf(first))
	require.Equal(t, []int64{3, 3, 1}, f.endings(), "the sum over all workspaces is as before")
}

// A mark of several workspaces without their shares counts for all of them together.
func TestEndsThatNameNoWorkspaceCountForNone(t *testing.T) {
	t.Parallel()
	f := open(t)
	first, second := f.tenant("FREE"), f.tenant("FREE")
	f.exec("insert into pgdispatch.marks (workspaces, completed) values ($1, 5)",
		[]string{first.workspace, second.workspace})
	f.exec("insert into pgdispatch.marks (workspaces, completed) values (array[$1::uuid], 2)", second.workspace)
	f.sweep()
	require.Equal(t, []int64{0, 0, 0}, f.endingsOf(first))
	require.Equal(t, []int64{2, 0, 0}, f.endingsOf(second))
	require.Equal(t, []int64{7, 0, 0}, f.endings())
}

func TestActivityOfWorkspacesIsDeletedAfterADayInBoundedSteps(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`insert into pgdispatch.workspace_activity (at, workspace_id, started)
		select clock_timestamp() - make_interval(days => 2 * n), gen_random_uuid(), 1
		from generate_series(0, 1) n, generate_series(1, 50010)`)
	count := func() int { return one[int](f, "select count(*) from pgdispatch.workspace_activity") }
	for _, left := range []int{50020, 50010, 50010} {
		f.exec("update pgdispatch.activity set waiting = null") // as if it were the next minute
		f.sweep()
		require.Equal(t, left, count())
	}
}

func TestTwoReplicasAddTheirStartsToOneRow(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	for _, longest := range []int64{300, 500, 200} {
		f.exec(sql.Text("workspace_activity_note"), []string{w.workspace}, []int{2}, []int64{longest + 100}, []int64{longest})
	}
	require.Equal(t, "6 1300 500", one[string](f, `select concat_ws(' ', sum(started), sum(waited), max(longest))
		from pgdispatch.workspace_activity`))
	require.LessOrEqual(t, one[int](f, "select count(*) from pgdispatch.workspace_activity"), 2)
}

func TestTheActivityOfAWorkspaceIsReadStepByStepWhateverTheOthersDid(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("alter table pgdispatch.workspace_activity set (autovacuum_enabled = off)")
	w := f.tenant("FREE")
	f.exec(`insert into pgdispatch.workspace_activity (at, workspace_id, started)
		select date_bin('5 minutes', clock_timestamp(), 'epoch') - n * interval '5 minutes', u.id, 1
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
		found, err := c.db.Query(t.Context(), sql.Text("workspace_activity_read"), w.workspace, 24*time.Hour, nil)
		require.NoError(t, err)
		rows, err = pgx.CollectRows(found, pgx.RowToStructByName[row])
		require.NoError(t, err)
	})
	require.Len(t, rows, 288)
	for n, r := range rows[1:] { // the first may have passed meanwhile
		require.EqualValues(t, 1, r.Started, n)
		require.True(t, r.Known)
	}
	require.Zero(t, seen.Sequential)
	require.LessOrEqual(t, seen.Index, int64(2*288+1), fmt.Sprint(seen))
}
