package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// said lists the ways in which an application reports the end of a workflow.
var said = map[string]string{
	"finish": "select pgdispatch.finish($1, 'FAILED', 'no gas')",
	"update": "update pgdispatch.workflow_executions set status = 'FAILED', error = 'no gas' where id = $1",
	"full update": "update pgdispatch.workflow_executions set status = 'FAILED', error = 'no gas', finished_at = now() " +
		"where id = $1",
	"repeated update": "update pgdispatch.workflow_executions set status = 'FAILED', error = 'no gas' " +
		"where id = any (array[$1::uuid, $1::uuid])",
}

const ended = `select format('%s %s, %s %s %s', q.status, q.last_error, e.status, e.error, coalesce(e.watcher,
	'unwatched'))
	from pgdispatch.workflow_execution_queue q left join pgdispatch.workflow_executions e on e.id = q.execution_id
		where q.id = $1`

func TestApplicationsSayInAnyWayThatAWorkflowHasEnded(t *testing.T) {
	must.Each(t, said, func(t *testing.T, statement string) {
		f, w := openFor(t, "FREE")
		id, next := f.item(w), f.item(w)
		f.dispatched(f.claim(1))
		f.exec(statement, f.execution(id))
		require.Equal(t, "FAILED no gas, FAILED no gas unwatched", one[string](f, ended, id))
		require.False(t, f.finish(id, "COMPLETED"), "the first report wins")
		f.exec("update pgdispatch.workflow_executions set status = 'COMPLETED' where id = $1", f.execution(id))
		f.exec(statement, f.execution(id))
		require.Equal(t, "FAILED no gas, FAILED no gas unwatched", one[string](f, ended, id))
		require.Equal(t, []int64{next}, f.claim(1).ids(), "the slot is free")
	})
}

func TestAnEndThatIsSaidBeforeTheSettleIsNotLost(t *testing.T) {
	must.Each(t, said, func(t *testing.T, statement string) {
		f, w := openFor(t, "FREE")
		id, next := f.item(w), f.item(w)
		b := f.claim(1)
		f.exec(statement, f.execution(id))
		require.False(t, f.finish(id, "COMPLETED"), "the first report wins")
		require.Equal(t, "CLAIMED", f.status(id), "its holder still has the lease")
		require.Equal(t, []int64{id}, f.dispatched(b))
		require.Equal(t, "FAILED no gas, FAILED no gas unwatched", one[string](f, ended, id))
		require.Equal(t, []int64{next}, f.claim(1).ids(), "the slot is free")
	})
}

func TestAnEndThatIsSaidOfAStartWithoutAnAnswerIsNotLost(t *testing.T) {
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.release(f.claim(1), true)
	require.True(t, f.finish(id, "COMPLETED"))
	require.Equal(t, "PENDING", f.status(id), "the outcome stays unknown until Temporal answers")
	f.dispatched(f.claim(1))
	require.Equal(t, "COMPLETED", f.status(id))
}

func TestWhatWasNeverStartedCannotHaveEnded(t *testing.T) {
	f, w := openFor(t, "PRO")
	id := f.item(w)
	require.False(t, f.finish(id, "COMPLETED"))
	f.release(f.claim(1), false)
	require.False(t, f.finish(id, "COMPLETED"))
	require.Contains(t, f.refusedAs("PGD26", "", said["update"], f.execution(id)).Hint, "pgdispatch.cancel")
	b := f.claim(1)
	f.dispatched(b)
	require.Equal(t, "DISPATCHED", f.status(id), "the earlier report does not end the new run")
	require.True(t, one[bool](f, sql.Text("finish"), f.execution(id), "COMPLETED", nil, nil))
	require.Zero(t, f.count("workflow_executions where finished_at is null"))
}

// The item's state was changed by hand: its execution is not watched forever.
func TestFinishEndsAnExecutionWhoseItemHasEnded(t *testing.T) {
	f, id := openRunning(t)
	f.set("status = 'COMPLETED', finished_at = now()", id)
	require.False(t, f.finish(id, "FAILED"))
	require.Equal(t, "FAILED",
		one[string](f, "select status from pgdispatch.workflow_executions where finished_at is not null"))
}

// The settle has locked the item and waits for the execution; the application has locked the execution and waits for
// the item.
func TestAPlainUpdateDoesNotWaitForWhoeverHasTheItem(t *testing.T) {
	f, id := openRunning(t)
	tx := f.lock(id)
	f.exec("set lock_timeout = '1s'")
	f.exec(said["update"], f.execution(id))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "DISPATCHED", f.status(id), "its watcher ends it")
	require.Equal(t, "FAILED", one[string](f, "select early_outcome from pgdispatch.workflow_executions"))
	require.True(t, f.finish(id, "FAILED"))
}

func TestApplicationsSayWhatAWorkflowReturned(t *testing.T) {
	must.Each(t, map[string]string{
		"finish": `select pgdispatch.finish($1, 'COMPLETED', result => '{"total": 3}')`,
		"update": `update pgdispatch.workflow_executions set status = 'COMPLETED', result = '{"total": 3}' where id = $1`,
	}, func(t *testing.T, statement string) {
		f, w := openFor(t, "PRO")
		settled, early, large := f.item(w), f.item(w), f.item(w)
		f.dispatched(f.claim(1))
		b := f.claim(2)
		f.exec(statement, f.execution(settled))
		require.Equal(t, `{"total": 3}`, f.result(settled))
		f.exec(statement, f.execution(early))
		f.exec("update pgdispatch.workflow_executions set status = 'COMPLETED', result = '9' where id = $1",
			f.execution(early))
		f.exec("update pgdispatch.settings set result_bytes = 5")
		f.exec(statement, f.execution(large))
		f.dispatched(b)
		require.Equal(t, "COMPLETED", f.status(early))
		require.Equal(t, "12 bytes: exceeds result-bytes, 5", f.result(large))
		require.False(t, one[bool](f, sql.Text("finish"), f.execution(settled), "COMPLETED", "late", "7"))
		require.Equal(t, `{"total": 3}`, f.result(settled), "the first report wins")
	})
}
