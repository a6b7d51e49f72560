package sql_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// old makes all executions old enough for a look.
func (f fixture) old() fixture {
	f.exec("update pgdispatch.workflow_executions set started_at = started_at - interval '1 hour'")
	return f
}

// queues are task queues of the default namespace, each with three executions.
func queues(names ...string) (list []sweeper.StalledQueue) {
	for _, name := range names {
		queue := temporal.TaskQueue{Namespace: "default", Name: name}
		list = append(list, sweeper.StalledQueue{TaskQueue: queue, Executions: 3})
	}
	return list
}

// turn takes the turn to check, and returns the task queues with their numbers of executions.
func (f fixture) turn() (found []string, mine bool) {
	list, mine, err := f.sweeps().StallTurn(f.t.Context(), time.Minute, time.Minute, 2)
	require.NoError(f.t, err)
	for _, q := range list {
		found = append(found, fmt.Sprint(q.Namespace, " ", q.Name, " ", q.Kind, " ", q.Executions))
	}
	return found, mine
}

func (f fixture) pick(atMost int, without ...string) (picked []string) {
	executions := must.Get(f.sweeps().StallPick(f.t.Context(), time.Minute, queues(without...), atMost)).In(f.t)
	for _, e := range executions {
		require.Equal(f.t, "default", e.Namespace)
		picked = append(picked, e.ID)
	}
	return picked
}

// record records a look and returns the changes, sorted.
func (f fixture) record(idle []string, asked, failing []string, silent ...string) (changes []string) {
	var stalls []sweeper.Stall
	for _, id := range failing {
		stalls = append(stalls, sweeper.Stall{Name: id, Namespace: "default", Detail: "it fails"})
	}
	found := must.Get(f.sweeps().StallRecord(f.t.Context(), queues(idle...), asked, stalls, silent)).In(f.t)
	for _, c := range found {
		change := fmt.Sprintln(c.Over, c.Kind, c.Namespace, c.Name, c.Executions, c.Detail)
		changes = append(changes, strings.TrimSuffix(change, "\n"))
	}
	slices.Sort(changes)
	return changes
}

// running starts n items of a workspace and returns their executions in order.
func (f fixture) running(w tenant, n int) []string {
	f.items(w, n)
	f.dispatched(f.claim(n))
	return all[string](f, "select id::text from pgdispatch.workflow_executions order by id")
}

func TestOneReplicaAMinuteLooksForWhatDoesNotProgress(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.running(w, 3)
	in, tx := f.begin()
	found, mine := in.turn()
	require.Empty(t, found, "no execution has run for long")
	require.True(t, mine)
	require.NoError(t, tx.Rollback(t.Context()))
	f.old()
	f.exec("update pgdispatch.workflow_definitions set task_queue = 'orders'")
	other := f.tenant("PRO")
	f.running(other, 1)
	f.old()
	found, _ = f.turn()
	require.Equal(t, []string{"default orders workflow 3", "default reports workflow 1"}, found)
	_, mine = f.turn()
	require.False(t, mine, "another replica has looked")
}

func TestLooksGoRoundThroughAllExecutions(t *testing.T) {
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
	require.Equal(t, []string{executions[4], executions[0]}, f.pick(2), "stalled executions are checked each time")
	require.Equal(t, []string{executions[4], executions[1]}, f.pick(2))
}

func TestAStallIsNewOnceAndOverOnce(t *testing.T) {
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
	f, w := openFor(t, "FREE")
	id := f.item(w)
	f.dispatched(f.claim(1))
	e := []string{f.execution(id)}
	f.record([]string{"reports"}, e, e)
	f.finish(id, "TERMINATED")
	require.Empty(t, all[string](f, "select name from pgdispatch.stalled"), "an end clears the stall at once")
	require.Len(t, f.record(nil, nil, nil), 2)
}
