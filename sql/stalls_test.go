package sql_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// old makes all executions old enough for a look.
func (f fixture) old() fixture {
	f.t.Helper()
	f.exec("update pgdispatch.workflow_executions set started_at = started_at - interval '1 hour'")
	return f
}

// lines runs a statement and returns its rows as text, sorted.
func lines(f fixture, statement string, args ...any) []string {
	f.t.Helper()
	rows, err := f.db.Query(f.t.Context(), statement, args...)
	require.NoError(f.t, err)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return strings.TrimSuffix(fmt.Sprintln(values...), "\n"), err
	})
	require.NoError(f.t, err)
	slices.Sort(found)
	return found
}

// turn takes the turn to check, and returns the task queues with their numbers of executions.
func (f fixture) turn() []string {
	f.t.Helper()
	return lines(f, sql.Text("stall_turn"), time.Minute, time.Minute, 2)
}

func (f fixture) pick(atMost int, without ...string) []string {
	f.t.Helper()
	rows, err := f.db.Query(f.t.Context(), sql.Text("stall_pick"), time.Minute, append([]string{}, without...),
		slices.Repeat([]string{"default"}, len(without)), atMost)
	require.NoError(f.t, err)
	picked, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id string, err error) {
		var workflow, run, namespace, kind string
		err = row.Scan(&id, &workflow, &run, &namespace, &kind)
		require.Equal(f.t, "default", namespace)
		return id, err
	})
	require.NoError(f.t, err)
	return picked
}

// record records a look and returns the changes.
func (f fixture) record(idle []string, asked, failing []string, silent ...string) []string {
	f.t.Helper()
	times := func(list []string, text string) []string { return slices.Repeat([]string{text}, len(list)) }
	return lines(f, sql.Text("stall_record"), append([]string{}, idle...), times(idle, "default"),
		slices.Repeat([]int{3}, len(idle)), append([]string{}, asked...),
		append([]string{}, failing...), times(failing, "default"), times(failing, "it fails"), append([]string{}, silent...))
}

// running starts n items of a workspace and returns their executions in order.
func (f fixture) running(w tenant, n int) []string {
	f.t.Helper()
	f.items(w, n)
	f.dispatched(f.claim(n))
	return all[string](f, "select id::text from pgdispatch.workflow_executions order by id")
}

func TestOneReplicaAMinuteLooksForWhatDoesNotProgress(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("ENTERPRISE")
	f.running(w, 3)
	in, tx := f.begin()
	require.Equal(t, []string{"<nil> <nil> <nil> <nil>"}, in.turn(), "no execution has run for long")
	require.NoError(t, tx.Rollback(t.Context()))
	f.old()
	f.exec("update pgdispatch.workflow_definitions set task_queue = 'orders'")
	other := f.tenant("PRO")
	f.running(other, 1)
	f.old()
	require.Equal(t, []string{"default orders workflow 3", "default reports workflow 1"}, f.turn())
	require.Empty(t, f.turn(), "another replica has looked")
}

func TestLooksGoRoundThroughAllExecutions(t *testing.T) {
	t.Parallel()
	f := open(t)
	executions := f.running(f.tenant("ENTERPRISE"), 5)
	require.Empty(t, f.pick(2), "they have not run for long")
	f.old()
	require.Equal(t, executions[:2], f.pick(2))
	require.Equal(t, executions[2:4], f.pick(2))
	require.Equal(t, executions[4:], f.pick(2))
	require.Equal(t, executions[:2], f.pick(2), "the rotation starts again")
	require.Empty(t, f.pick(2, "reports"), "their queue is known to have no worker")

	f.record(nil, executions[4:], executions[4:])
	require.Equal(t, []string{executions[4], executions[0]}, f.pick(2),
		"stalled executions are checked each time")
	require.Equal(t, []string{executions[4], executions[1]}, f.pick(2))
}

func TestAStallIsNewOnceAndOverOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	e := f.running(f.tenant("ENTERPRISE"), 3)
	require.Equal(t,
		[]string{"false EXECUTION default " + e[0] + " 1 it fails",
			"false TASK_QUEUE default reports 3 no worker has polled it for minutes"},
		f.record([]string{"reports"}, e[:2], e[:1]))
	require.Empty(t, f.record([]string{"reports"}, e[:2], e[:1]))
	require.Empty(t, f.record([]string{"reports"}, e[1:], nil), "the unchecked execution is unchanged")
	require.Empty(t, f.record(nil, nil, nil, "default"), "an unreachable namespace changes nothing")
	require.Len(t, all[string](f, "select name from pgdispatch.stalled"), 2)
	require.Equal(t,
		[]string{"true EXECUTION default " + e[0] + " 1 it fails",
			"true TASK_QUEUE default reports 3 no worker has polled it for minutes"}, f.record(nil, e[:1], nil))
	require.Empty(t, all[string](f, "select name from pgdispatch.stalls"))
}

func TestWhatHasEndedStallsNoLonger(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	id := f.item(w)
	f.dispatched(f.claim(1))
	e := []string{f.execution(id)}
	f.record([]string{"reports"}, e, e)
	f.finish(id, "TERMINATED")
	require.Empty(t, all[string](f, "select name from pgdispatch.stalled"), "an end clears the stall at once")
	require.Len(t, f.record(nil, nil, nil), 2)
}
