package sql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

func (f fixture) notifyEnded(on bool) {
	f.t.Helper()
	f.exec(sql.Text("settings_set"), fmt.Sprintf(`{"notify_ended": %t}`, on), "me")
}

// announced runs do and returns the payloads on the channel of ends.
func (f fixture) announced(do func()) []string {
	f.t.Helper()
	return f.said(sql.Text("listen_ended"), "pgdispatch_ended", do)
}

// runningOf returns n items of the workspace whose workflows run.
func (f fixture) runningOf(w tenant, n int) (ids []int64, executions []string) {
	f.t.Helper()
	ids = f.items(w, n)
	f.dispatched(f.claimAll(n))
	for _, id := range ids {
		executions = append(executions, f.execution(id))
	}
	return ids, executions
}

func TestEndsAreNotNotifiedUnlessSomebodyAsks(t *testing.T) {
	t.Parallel()
	f := open(t)
	ids, executions := f.runningOf(f.tenant("ENTERPRISE"), 4)
	finishAll := func(executions ...string) {
		outcomes, nulls := repeated(len(executions), "COMPLETED"), make([]*string, len(executions))
		f.exec(sql.Text("finish_all"), executions, outcomes, nulls, nulls)
	}
	require.Empty(t, f.announced(func() { f.finish(ids[0], "COMPLETED"); finishAll(executions[1]) }))
	f.notifyEnded(true)
	require.Len(t, f.announced(func() { f.finish(ids[2], "COMPLETED"); finishAll(executions[3]) }), 2)
}

func TestEveryWayToEndIsNotified(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("ENTERPRISE")
	ids, executions := f.runningOf(w, 3)
	f.notifyEnded(true)
	require.Equal(t, executions[:1], f.announced(func() { f.finish(ids[0], "COMPLETED") }))
	require.Equal(t, executions[1:2], f.announced(func() { f.finish(ids[1], "FAILED") }))
	require.Equal(t, executions[2:], f.announced(func() {
		f.exec("update pgdispatch.workflow_executions set status = 'COMPLETED' where id = $1", executions[2])
	}), "an application has reported it")
	waits := f.execution(f.item(w))
	require.Equal(t, []string{waits}, f.announced(func() { one[bool](f, "select pgdispatch.cancel($1)", waits) }))
	failed := f.execution(f.item(w))
	b := f.claim(1)
	require.Equal(t, []string{failed}, f.announced(func() {
		f.exec(sql.Text("fail"), b.ids(), b.tokens(), []string{"no such type"})
	}), "without a workflow")
	released := f.item(w)
	require.Empty(t, f.announced(func() {
		f.release(f.claim(1), false)
		f.exec("update pgdispatch.workflow_execution_queue set priority = 1 where id = $1", released)
		f.exec("delete from pgdispatch.workflow_execution_queue where id = $1", released)
	}), "it has not ended")
}

func TestABatchOfEndsIsOneNotificationOfAtMost200(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("ENTERPRISE")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 100000")
	f.maxClaims(100000)
	_, executions := f.runningOf(w, 450)
	f.notifyEnded(true)
	nulls := make([]*string, len(executions))
	said := f.announced(func() {
		f.exec(sql.Text("finish_all"), executions, repeated(len(executions), "FAILED"), nulls, nulls)
	})
	named, sizes := []string{}, []int{}
	for _, payload := range said {
		require.Less(t, len(payload), 8000)
		some := strings.Split(payload, ",")
		named, sizes = append(named, some...), append(sizes, len(some))
	}
	require.ElementsMatch(t, executions, named)
	require.ElementsMatch(t, []int{200, 200, 50}, sizes)
}

func TestEndsAreNotNotifiedWhereATransactionMustNotNotify(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.notifyEnded(true)
	execution := f.execution(f.item(f.tenant("PRO")))
	require.Empty(t, f.announced(func() {
		in, tx := f.begin()
		in.exec("set local pgdispatch.notify = off")
		require.True(t, one[bool](in, "select pgdispatch.cancel($1)", execution))
		require.NoError(t, tx.Commit(t.Context()))
	}))
}
