package sql_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

func TestFinishKeepsHowAWorkflowEndedHoweverOftenAnEndIsSaid(t *testing.T) {
	f, b := openClaimed(t, "ENTERPRISE", 6)
	f.dispatched(b)
	for n, outcome := range []string{"COMPLETED", "FAILED", "CANCELED", "TERMINATED", "TIMED_OUT"} {
		id := b.Items[n].ID
		require.True(t, f.finish(id, outcome))
		want := "FAILED"
		if outcome == "COMPLETED" {
			want = "COMPLETED"
		}
		for _, again := range []string{outcome, "COMPLETED", "FAILED"} {
			require.False(t, f.finish(id, again), "the first report wins")
		}
		require.Equal(t, want, f.status(id))
		require.Equal(t, outcome,
			one[string](f, "select status from pgdispatch.workflow_executions where queue_item_id = $1", id))
		require.Equal(t, outcome != "COMPLETED", column[bool](f, id, "last_error is not null"))
	}
	f.exec("select pgdispatch.finish($1, 'FAILED', repeat('é', 5000))", b.Items[5].ExecutionID)
	require.Equal(t, 2000, column[int](f, b.Items[5].ID, "length(last_error)"), "a reason that is too long is cut")
}

func TestFinishRefusesAnOutcomeThatThereIsNot(t *testing.T) {
	f := open(t)
	for _, outcome := range []any{"CANCELLED", "completed", "", nil} {
		f.refusedAs("PGD22", "it must be COMPLETED, FAILED, CANCELED, TERMINATED or TIMED_OUT",
			sql.Text("finish"), nobody, outcome, nil, nil)
	}
	require.False(t, one[bool](f, sql.Text("finish"), nobody, "COMPLETED", nil, nil), "an unknown execution")
}

// Otherwise the watcher would describe it in Temporal forever.
func TestFinishEndsAnExecutionWhoseItemWasDeleted(t *testing.T) {
	f, b := openClaimed(t, "FREE", 1)
	f.dispatched(b)
	f.exec("delete from pgdispatch.workflow_execution_queue")
	execution := b.Items[0].ExecutionID
	require.Len(t, all[string](f, "select id from ("+adoptable+") a"), 1)
	require.True(t, one[bool](f, sql.Text("finish"), execution, "TIMED_OUT", "too slow", nil))
	require.False(t, one[bool](f, sql.Text("finish"), execution, "COMPLETED", nil, nil))
	require.Equal(t, "TIMED_OUT too slow",
		one[string](f, "select status || ' ' || error from pgdispatch.workflow_executions"))
	require.Empty(t, all[string](f, "select id from ("+adoptable+") a"))
}

const adoptable = "select id::text from pgdispatch.workflow_executions where status = 'RUNNING'"

func TestCancelWithdrawsWhatWaitsAndNothingElse(t *testing.T) {
	f, w := openFor(t, "PRO")
	id := f.item(w)
	cancel := func(id int64) bool { return one[bool](f, sql.Text("cancel"), f.execution(id)) }
	require.True(t, cancel(id))
	require.False(t, cancel(id), "only the first cancel succeeds")
	require.Empty(t, f.claim(10).Items)
	require.False(t, one[bool](f, sql.Text("cancel"), nobody))

	id = f.item(w)
	b := f.claim(1)
	require.False(t, cancel(id), "a claimed item")
	f.release(b, true)
	require.False(t, cancel(id), "an item that may have started")
	f.dispatched(f.claim(1))
	require.False(t, cancel(id), "a running item")
	f.finish(id, "FAILED")
	require.False(t, cancel(id), "an ended item")

	id = f.item(w)
	f.release(f.claim(1), false)
	require.True(t, cancel(id), "an item that was tried")
	require.Equal(t, 1, f.count("workflow_executions where status = 'CANCELED' and finished_at is not null"))
}

func TestExpiredLeasesGoBackOnceAndLiveOnesStay(t *testing.T) {
	f, b := openClaimed(t, "PRO", 3)
	f.expire(b.ids()[:2]...)
	requeue := func(atMost int) int { return one[int](f, "select pgdispatch.requeue_expired($1)", atMost) }
	require.Equal(t, 1, requeue(1))
	require.Equal(t, 1, requeue(10))
	require.Equal(t, 0, requeue(10))
	require.Equal(t, b.ids()[2:], f.dispatched(b), "only the live lease settles")
	state := all[string](f, `select format('%s %s %s %s %s %s', status, attempt_count, failure_count, lost_lease_count,
		outcome_unknown, last_error)
		from pgdispatch.workflow_execution_queue order by id`)
	back := "PENDING 1 0 1 t lease of replica-1 expired"
	require.Equal(t, []string{back, back, "DISPATCHED 1 0 0 f "}, state)
}

// settlesNothing fails unless everything that a batch's holder may do leaves the rows as they are.
func (f fixture) settlesNothing(b batch) {
	rows := func() []string {
		return all[string](f, "select q::text from pgdispatch.workflow_execution_queue q order by q.id")
	}
	before := rows()
	for _, changed := range [][]int64{f.heartbeat(b), f.dispatched(b), f.release(b, false), f.release(b, true),
		f.fail(b, "x"), f.retry(b, "x")} {
		require.Empty(f.t, changed)
	}
	require.Equal(f.t, before, rows())
	require.Empty(f.t, all[string](f, "select error from pgdispatch.item_failures"))
}

func TestExpiryIsFinalEvenWithoutASweeper(t *testing.T) {
	f, b := openClaimed(t, "PRO", 1)
	f.expire(b.ids()...)
	f.settlesNothing(b)
	require.Empty(t, all[int64](f, sql.Text("release_owned"), "replica-1"))
}

// A holder may repeat a settle whose answer was lost, after another replica has claimed the item.
func TestASettleWithAnOlderTokenChangesNothing(t *testing.T) {
	t.Parallel()
	for _, unanswered := range []bool{false, true} {
		t.Run(fmt.Sprint(unanswered), func(t *testing.T) {
			f, w := openFor(t, "FREE")
			f.item(w)
			first := f.claim(1)
			f.release(first, unanswered)
			second := f.claim(1)
			require.Equal(t, first.ids(), second.ids())
			f.settlesNothing(first)
			require.Equal(t, second.ids(), f.dispatched(second))
		})
	}
}

func TestReleaseOwnedGivesBackAReplicasOwnClaimsOnly(t *testing.T) {
	f := open(t)
	f.items(f.tenant("PRO"), 3)
	f.dispatched(f.claim(1))
	mine := f.claim(1)
	f.claimBy("replica-2", 1)
	require.Equal(t, mine.ids(), all[int64](f, sql.Text("release_owned"), "replica-1"))
	require.Equal(t, []string{"replica-2"},
		all[string](f, "select claimed_by from pgdispatch.workflow_execution_queue where status = 'CLAIMED'"))
	require.Equal(t, "PENDING 0 DOUBT", one[string](f, `select format('%s %s %s', status, attempt_count, stage)
		from pgdispatch.workflow_execution_queue where id = $1`, mine.ids()[0]), "the workflow may have been started")
}

func TestAHolderThatComesBackClearsTheSuspicion(t *testing.T) {
	f, w := openFor(t, "FREE")
	id := f.item(w)
	lost := func() int { return column[int](f, id, "lost_lease_count") }
	f.claim(1)
	f.expire(id)
	again := f.claim(1)
	require.Equal(t, 1, lost())
	require.Len(t, f.release(again, true), 1)
	require.Zero(t, lost())
}

// result returns the stored result of an execution.
func (f fixture) result(id int64) string {
	return one[string](f,
		"select concat_ws('; ', e.result::text, e.result_note) from pgdispatch.workflow_executions e "+
			"where e.queue_item_id = $1", id)
}

// finishAll reports the ends of items' workflows, and returns for each whether it was the first report.
func (f fixture) finishAll(ids []int64, outcomes []string, reasons, results []any) map[int64]bool {
	executions, of := make([]string, len(ids)), map[string]int64{}
	for n, id := range ids {
		executions[n] = f.execution(id)
		of[executions[n]] = id
	}
	rows := must.Get(f.db.Query(f.t.Context(), sql.Text("finish_all"), executions, outcomes, reasons, results)).In(f.t)
	answer := map[int64]bool{}
	var execution string
	var first bool
	must.Get(pgx.ForEachRow(rows, []any{&execution, &first}, func() error {
		answer[of[execution]] = first
		return nil
	})).In(f.t)
	return answer
}

// completed calls finishAll with workflows that all completed.
func (f fixture) completed(ids ...int64) map[int64]bool {
	return f.finishAll(ids, repeated(len(ids), "COMPLETED"), repeated[any](len(ids), nil), repeated[any](len(ids), nil))
}

// ended is the state of an item and its execution after an end, without times.
func (f fixture) ended(id int64) string {
	return one[string](f, `select jsonb_build_array(
		to_jsonb(q) - '{id,execution_id,lease_token,created_at,run_at,enqueue_xid,claimed_at,dispatched_at,
			finished_at}'::text[],
		to_jsonb(e) - '{id,queue_item_id,created_at,first_sent_at,started_at,finished_at}'::text[],
		q.finished_at between now() - interval '1 minute' and clock_timestamp(),
			e.finished_at between now() - interval '1 minute' and clock_timestamp())::text
		from pgdispatch.workflow_execution_queue q join pgdispatch.workflow_executions e on e.id = q.execution_id
			where q.id = $1`, id)
}

func TestEndsKeepAResultThatIsNotTooLargeTogetherAsOneByOne(t *testing.T) {
	f := open(t)
	const rejected = `JSON that Postgres rejects: not stored`
	ends := []struct {
		outcome        string
		reason, result any
		kept           string
	}{
		{"COMPLETED", nil, nil, ``},
		{"COMPLETED", nil, `{"total":   3}`, `{"total": 3}`},
		{"COMPLETED", nil, `null`, `null`},
		{"COMPLETED", `encoding "binary/encrypted"`, nil, `encoding "binary/encrypted"`},
		{"COMPLETED", nil, `"abcdefghijklmnopqrs"`, `21 bytes: exceeds result-bytes, 20`},
		// A result that Postgres rejects must not prevent the end from being recorded.
		{"COMPLETED", nil, `"\u0000"`, rejected},
		{"COMPLETED", nil, `"\ud800"`, rejected},
		{"COMPLETED", nil, `1e999999999`, rejected},
		// Deep nesting exhausts the server's stack long before the size limit.
		{"COMPLETED", nil, strings.Repeat("[", 30000) + strings.Repeat("]", 30000), rejected},
		{"FAILED", "boom", `{"total": 3}`, ``},
		{"FAILED", "", nil, ``},
		{"CANCELED", nil, nil, ``},
		{"TERMINATED", strings.Repeat("é", 5000), nil, ``},
		{"TIMED_OUT", "too slow", nil, ``},
	}
	f.exec(sql.Text("settings_set"), `{"result_bytes": 20}`, "me")
	w := f.tenant("ENTERPRISE")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 50")
	f.items(w, 2*len(ends)+1)
	b := f.claim(2*len(ends) + 1)
	f.dispatched(b)
	apart, together, last := b.ids()[:len(ends)], b.ids()[len(ends):2*len(ends)], b.ids()[2*len(ends)]
	outcomes, reasons, results := []string{}, []any{}, []any{}
	for n, end := range ends {
		require.True(t, one[bool](f, sql.Text("finish"), f.execution(apart[n]), end.outcome, end.reason, end.result))
		outcomes, reasons, results = append(outcomes, end.outcome), append(reasons, end.reason), append(results, end.result)
	}
	first := f.finishAll(together, outcomes, reasons, results)
	require.Len(t, first, len(ends))
	for n, end := range ends {
		require.True(t, first[together[n]], "%.200v", end)
		require.Equal(t, end.kept, f.result(apart[n]), "%.200v", end)
		require.Equal(t, f.ended(apart[n]), f.ended(together[n]), "%.200v", end)
	}
	again := f.completed(together...)
	require.Len(t, again, len(ends))
	require.NotContains(t, slices.Collect(maps.Values(again)), true, "the first report wins")

	f.exec(sql.Text("settings_set"), `{"result_bytes": 0}`, "me")
	require.True(t, one[bool](f, sql.Text("finish"), f.execution(last), "COMPLETED", nil, `1`))
	require.Empty(t, f.result(last), "the settings say so")
}

func TestEndsTogetherWaitForNobodyAndLeaveTheOthers(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(w, 5)
	running := f.claim(4)
	f.dispatched(running)
	runs := running.ids()
	claimed := f.claim(1).ids()[0]
	waiting := f.item(w)
	f.lock(runs[1])
	application, _ := f.begin()
	application.exec("select from pgdispatch.workflow_executions where queue_item_id = $1 for update", runs[2])

	other := f.impatient()
	require.Equal(t, map[int64]bool{runs[0]: true, runs[3]: true},
		other.completed(runs[0], runs[1], runs[2], claimed, waiting, runs[3]))
	require.Empty(t,
		all[string](other, sql.Text("finish_all"), []string{nobody}, []string{"COMPLETED"}, []any{nil}, []any{nil}),
		"an unknown execution")
	for id, status := range map[int64]string{runs[0]: "COMPLETED", runs[1]: "DISPATCHED", runs[2]: "DISPATCHED",
		claimed: "CLAIMED", waiting: "PENDING", runs[3]: "COMPLETED"} {
		require.Equal(t, status, f.status(id))
	}
	require.Equal(t, 1, f.count("workflow_executions where status = 'STARTING'"))
}

// The caller gets the error and records the ends one by one.
func TestEndsTogetherAreRefusedWhereOneIsNoEnd(t *testing.T) {
	f, b := openClaimed(t, "PRO", 2)
	f.dispatched(b)
	f.refusedAs("23514", "", sql.Text("finish_all"), []string{f.execution(b.ids()[0]), f.execution(b.ids()[1])},
		[]string{"COMPLETED", "CANCELLED"}, []any{nil, nil}, []any{nil, nil})
	require.Equal(t, "DISPATCHED", f.status(b.ids()[0]))
}
