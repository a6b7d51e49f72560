package sql_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

func TestFinishCountsOnceWhoeverSaysItAndHoweverOften(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 1)
	b := f.claim(1)
	id := *b.items[0].ID
	f.dispatched(b)
	require.True(t, f.finish(id, "COMPLETED"))
	require.False(t, f.finish(id, "COMPLETED"))
	require.False(t, f.finish(id, "FAILED"), "the first counts")
	require.Equal(t, "COMPLETED", f.status(id))
	require.False(t, one[bool](f, sql.Finish, nobody, "COMPLETED", nil, nil), "an execution that there is not")
	require.Zero(t, one[int](f, "select pgdispatch.recount_lanes()"), "the slot was given back once")
}

func TestFinishKeepsHowAWorkflowEnded(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 5)
	b := f.claim(5)
	f.dispatched(b)
	for n, outcome := range []string{"COMPLETED", "FAILED", "CANCELED", "TERMINATED", "TIMED_OUT"} {
		id := *b.items[n].ID
		require.True(t, f.finish(id, outcome))
		want := "FAILED"
		if outcome == "COMPLETED" {
			want = "COMPLETED"
		}
		require.Equal(t, want, f.status(id))
		require.Equal(t, outcome, one[string](f, "select status from pgdispatch.workflow_executions where queue_item_id = $1", id))
		require.Equal(t, outcome != "COMPLETED", one[bool](f, "select last_error is not null from pgdispatch.workflow_execution_queue where id = $1", id))
	}
}

func TestFinishRefusesAnOutcomeThatThereIsNot(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, outcome := range []any{"CANCELLED", "completed", "", nil} {
		refusal := f.refused(sql.Finish, nobody, outcome, nil, nil)
		require.Equal(t, "PGD22", refusal.Code)
		require.Contains(t, refusal.Message, "it must be COMPLETED, FAILED, CANCELED, TERMINATED or TIMED_OUT")
	}
}

func TestFinishCutsAReasonThatIsTooLong(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.item(f.tenant("FREE"))
	b := f.claim(1)
	f.dispatched(b)
	f.exec("select pgdispatch.finish($1, 'FAILED', repeat('é', 5000))", *b.items[0].ExecutionID)
	require.Equal(t, 2000, one[int](f, "select length(last_error) from pgdispatch.dead_letters"))
}

// The watcher would ask Temporal about it for ever.
func TestFinishEndsAnExecutionWhoseItemWasDeleted(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.item(f.tenant("FREE"))
	b := f.claim(1)
	f.dispatched(b)
	f.exec("delete from pgdispatch.workflow_execution_queue")
	execution := *b.items[0].ExecutionID
	require.Len(t, all[string](f, "select id from ("+adoptable+") a"), 1)
	require.True(t, one[bool](f, sql.Finish, execution, "TIMED_OUT", "too slow", nil))
	require.False(t, one[bool](f, sql.Finish, execution, "COMPLETED", nil, nil))
	require.Equal(t, "TIMED_OUT too slow", one[string](f, "select status || ' ' || error from pgdispatch.workflow_executions"))
	require.Empty(t, all[string](f, "select id from ("+adoptable+") a"))
}

const adoptable = "select id::text from pgdispatch.workflow_executions where status = 'RUNNING'"

func TestCancelWithdrawsWhatWaitsAndNothingElse(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	id := f.item(w)
	cancel := func(id int64) bool { return one[bool](f, sql.Cancel, f.execution(id)) }
	require.True(t, cancel(id))
	require.False(t, cancel(id), "only once")
	require.Empty(t, f.claim(10).items)
	require.False(t, one[bool](f, sql.Cancel, nobody))

	id = f.item(w)
	b := f.claim(1)
	require.False(t, cancel(id), "not what is claimed")
	f.release(b, true)
	require.False(t, cancel(id), "not what may have started")
	f.dispatched(f.claim(1))
	require.False(t, cancel(id), "not what runs")
	f.finish(id, "FAILED")
	require.False(t, cancel(id), "not what has ended")
}

func TestCancelEndsTheExecutionOfAnItemThatWasTried(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.release(f.claim(1), false)
	require.True(t, one[bool](f, sql.Cancel, f.execution(id)))
	require.Equal(t, "CANCELED", one[string](f, "select status from pgdispatch.workflow_executions where finished_at is not null"))
}

func TestExpiredLeasesGoBackOnceAndLiveOnesStay(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 3)
	b := f.claim(3)
	f.expire(b.ids()[:2]...)
	requeue := func(atMost int) int { return one[int](f, "select pgdispatch.requeue_expired($1)", atMost) }
	require.Equal(t, 1, requeue(1))
	require.Equal(t, 1, requeue(10))
	require.Equal(t, 0, requeue(10))
	require.Equal(t, b.ids()[2:], f.dispatched(b), "only the live lease settles")
	state := all[string](f, `select format('%s %s %s %s %s %s', status, attempt_count, failure_count, lost_lease_count, outcome_unknown, last_error)
		from pgdispatch.workflow_execution_queue order by id`)
	back := "PENDING 1 0 1 t lease of replica-1 expired"
	require.Equal(t, []string{back, back, "DISPATCHED 1 0 0 f "}, state)
}

func TestExpiryIsFinalEvenWithoutASweeper(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 1)
	b := f.claim(1)
	f.expire(b.ids()...)
	require.Empty(t, all[int64](f, sql.Heartbeat, b.ids(), b.tokens(), lease))
	require.Empty(t, f.dispatched(b))
	require.Empty(t, f.release(b, false))
	require.Empty(t, all[int64](f, sql.Fail, b.ids(), b.tokens(), []string{"x"}))
	require.Empty(t, all[int64](f, sql.ReleaseOwned, "replica-1"))
	require.Equal(t, "CLAIMED", f.status(b.ids()[0]))
}

func TestASettleWithAnOlderTokenChangesNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.item(f.tenant("FREE"))
	first := f.claim(1)
	f.release(first, false)
	second := f.claim(1)
	require.Empty(t, f.dispatched(first))
	require.Empty(t, f.release(first, false))
	require.Empty(t, all[int64](f, sql.Fail, first.ids(), first.tokens(), []string{"x"}))
	require.Empty(t, all[int64](f, sql.Retry, first.ids(), first.tokens(), []string{"x"}, []time.Duration{0}, []bool{false}))
	require.Empty(t, all[int64](f, sql.Heartbeat, first.ids(), first.tokens(), lease))
	require.Equal(t, second.ids(), f.dispatched(second))
}

func TestReleaseOwnedGivesBackAReplicasOwnClaimsOnly(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	mine := f.claim(1)
	f.exec("select pgdispatch.claim('replica-2', 1, '1 minute')")
	require.Equal(t, mine.ids(), all[int64](f, sql.ReleaseOwned, "replica-1"))
	require.Equal(t, []string{"replica-2"}, all[string](f, "select claimed_by from pgdispatch.workflow_execution_queue where status = 'CLAIMED'"))
	require.True(t, one[bool](f, "select outcome_unknown from pgdispatch.workflow_execution_queue where id = $1", mine.ids()[0]))
}

func TestAHolderThatComesBackClearsTheSuspicion(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	id := f.item(w)
	lost := func() int {
		return one[int](f, "select lost_lease_count from pgdispatch.workflow_execution_queue where id = $1", id)
	}
	f.claim(1)
	f.expire(id)
	again := f.claim(1)
	require.Equal(t, 1, lost())
	require.Len(t, f.release(again, true), 1)
	require.Zero(t, lost())
}

// result is what an execution keeps of its workflow's result.
func (f fixture) result(id int64) string {
	f.t.Helper()
	return one[string](f, "select concat_ws('; ', e.result::text, e.result_note) from pgdispatch.workflow_executions e where e.queue_item_id = $1", id)
}

func TestFinishKeepsAResultThatIsNotTooLarge(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("ENTERPRISE"), 9)
	b := f.claim(9)
	f.dispatched(b)
	f.exec(sql.SettingsSet, nil, nil, 20, "me")
	for n, row := range []struct {
		outcome      string
		note, result any
		want         string
	}{
		{"COMPLETED", nil, `{"total":   3}`, `{"total": 3}`},
		{"COMPLETED", nil, `null`, `null`},
		{"COMPLETED", nil, nil, ``},
		{"COMPLETED", `encoding "binary/encrypted"`, nil, `encoding "binary/encrypted"`},
		{"COMPLETED", nil, `"abcdefghijklmnopqrs"`, `21 bytes, more than the 20 that the settings keep`},
		{"FAILED", "boom", `{"total": 3}`, ``},
		// What Postgres does not take must not keep the end from being recorded.
		{"COMPLETED", nil, `"\u0000"`, `JSON that Postgres does not take: not kept`},
		{"COMPLETED", nil, `"\ud800"`, `JSON that Postgres does not take: not kept`},
		{"COMPLETED", nil, `1e999999999`, `JSON that Postgres does not take: not kept`},
	} {
		id := b.ids()[n]
		require.True(t, one[bool](f, sql.Finish, f.execution(id), row.outcome, row.note, row.result), "%v", row)
		require.Equal(t, row.want, f.result(id), "%v", row)
	}
}

func TestNoResultIsKeptWhereTheSettingsSaySo(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.oneRunning()
	f.exec(sql.SettingsSet, nil, nil, 0, "me")
	require.True(t, one[bool](f, sql.Finish, f.execution(id), "COMPLETED", nil, `1`))
	require.Empty(t, f.result(id))
}

// Deep nesting exhausts the server's stack long before it is too large.
func TestAResultThatNoServerCanReadEndsItsExecutionAllTheSame(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.oneRunning()
	require.True(t, one[bool](f, sql.Finish, f.execution(id), "COMPLETED", nil, strings.Repeat("[", 30000)+strings.Repeat("]", 30000)))
	require.Equal(t, "COMPLETED", f.status(id))
}
