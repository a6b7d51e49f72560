package sql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// enqueued is the answer of pgdispatch.enqueue.
type enqueued struct {
	ID          int64
	ExecutionID string
	Action      string
}

// enqueue calls pgdispatch.enqueue with an order as params and further arguments, such as "key => 'a'".
func (f fixture) enqueue(w tenant, order int, arguments string) enqueued {
	f.t.Helper()
	answer, err := f.tryEnqueue(w, fmt.Sprintf(`{"order": %d}`, order), arguments)
	require.NoError(f.t, err)
	return answer
}

func (f fixture) tryEnqueue(w tenant, params, arguments string) (enqueued, error) {
	if arguments != "" {
		arguments = ", " + arguments
	}
	rows, _ := f.db.Query(f.t.Context(), `select id, execution_id::text, action
		from pgdispatch.enqueue(workspace_id => $1, workflow_definition_id => $2, params => $3`+arguments+`)`,
		w.workspace, w.definition, params)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[enqueued])
}

// order returns what the params of an item say.
func (f fixture) order(id int64) int {
	f.t.Helper()
	return one[int](f, "select (params ->> 'order')::int from pgdispatch.workflow_execution_queue where id = $1", id)
}

// dueIn returns when an item is due, counted from when it was created.
func (f fixture) dueIn(id int64) time.Duration {
	f.t.Helper()
	return one[time.Duration](f, "select run_at - created_at from pgdispatch.workflow_execution_queue where id = $1", id)
}

func TestEnqueueWithoutAKeyInsertsAnItemEachTime(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	first := f.enqueue(w, 1, "")
	require.Equal(t, enqueued{first.ID, f.execution(first.ID), "inserted"}, first)
	second := f.enqueue(w, 2, `priority => 5, run_at => '2100-01-01Z', start_options => '{"static_summary": "x"}',
		traceparent => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'`)
	require.Equal(t, "inserted", second.Action)
	require.True(t, one[bool](f, `select priority = 5 and run_at = '2100-01-01Z' and traceparent like '00-0af%'
		and start_options ? 'static_summary' and idempotency_key is null
		from pgdispatch.workflow_execution_queue where id = $1`, second.ID))
	require.Equal(t, []int64{first.ID}, f.claim(10).ids())
	require.Zero(t, one[int](f, "select count(*) from pgdispatch.enqueue_keys"))
}

func TestEnqueueIsAFunctionBesideTheViewOfItsName(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.exec("insert into pgdispatch.enqueue (workspace_id, workflow_definition_id) values ($1, $2)", w.workspace,
		w.definition)
	require.EqualValues(t, 3, one[int64](f, `select count(*) from generate_series(1, 3) n
		cross join lateral pgdispatch.enqueue($1, $2, key => 'order-' || n) where action = 'inserted'`, w.workspace,
		w.definition), "one call for each row")
	require.Equal(t, 4, one[int](f, "select count(*) from pgdispatch.workflow_execution_queue"))
}

func TestSkipInsertsNothingWhileTheKeysItemWaitsOrRuns(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("PRO"), f.tenant("PRO")
	first := f.enqueue(w, 1, "key => 'a'")
	skipped := enqueued{first.ID, first.ExecutionID, "skipped"}
	f.exec(withKey, w.workspace, w.definition, "a") // an idempotency key is another matter
	require.Equal(t, skipped, f.enqueue(w, 2, "key => 'a', on_conflict => 'skip'"))
	require.Equal(t, 1, f.order(first.ID))
	require.Equal(t, "inserted", f.enqueue(w, 3, "key => 'b', priority => -1").Action)
	require.Equal(t, "inserted", f.enqueue(other, 4, "key => 'a', priority => -1").Action, "a key is its workspace's")
	b := f.claim(1)
	require.Equal(t, []int64{first.ID}, b.ids())
	require.Equal(t, skipped, f.enqueue(w, 5, "key => 'a'"), "it is claimed")
	f.dispatched(b)
	require.Equal(t, skipped, f.enqueue(w, 6, "key => 'a'"), "it runs")
	require.True(t, f.finish(first.ID, "FAILED"))
	second := f.enqueue(w, 7, "key => 'a'")
	require.Equal(t, "inserted", second.Action, "it has ended")
	require.Equal(t, enqueued{second.ID, second.ExecutionID, "skipped"}, f.enqueue(w, 8, "key => 'a'"))
	require.True(t, one[bool](f, "select pgdispatch.cancel($1)", second.ExecutionID))
	require.Equal(t, "inserted", f.enqueue(w, 9, "key => 'a'").Action, "it was withdrawn")
}

func TestReplaceGivesTheWaitingItemTheNewValues(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	const replace = "key => 'a', on_conflict => 'replace'"
	first := f.enqueue(w, 1, replace+`, priority => 3, run_at => '2100-01-01Z', start_options => '{"memo": {"a": 1}}'`)
	require.Equal(t, "inserted", first.Action)
	replaced := enqueued{first.ID, first.ExecutionID, "replaced"}
	require.Equal(t, replaced, f.enqueue(w, 2, replace))
	values := func() string {
		return one[string](f, `select concat_ws(' ', params ->> 'order', priority, extract(year from run_at), start_options,
			traceparent) from pgdispatch.workflow_execution_queue where id = $1`, first.ID)
	}
	require.Equal(t, `2 3 2100 {"memo": {"a": 1}}`, values(), "what is not given stays")
	require.Equal(t, replaced, f.enqueue(w, 3, replace+`, priority => 0, run_at => '2101-01-01Z', start_options => '{}',
		traceparent => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'`))
	require.Equal(t, `3 0 2101 {} 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`, values())
	require.Equal(t, replaced, f.enqueue(w, 4, replace+", run_at => '2020-01-01Z'"))
	require.Equal(t, []int64{first.ID}, f.claim(1).ids(), "replicas hear of the new time")
}

func TestReplaceNeverChangesAClaimedItem(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	const replace = "key => 'a', on_conflict => 'replace'"
	first := f.enqueue(w, 1, replace)
	b := f.claim(1)
	second := f.enqueue(w, 2, replace)
	require.Equal(t, "inserted", second.Action, "the newest params must not be lost")
	require.Equal(t, enqueued{second.ID, second.ExecutionID, "replaced"}, f.enqueue(w, 3, replace))
	f.release(b, false)
	require.Equal(t, "PENDING", f.status(first.ID))
	require.Equal(t, "replaced", f.enqueue(w, 4, replace).Action)
	require.Equal(t, []int{1, 4}, []int{f.order(first.ID), f.order(second.ID)}, "the first has lost its key")

	third := f.enqueue(w, 5, "key => 'doubt', on_conflict => 'replace', priority => 9")
	f.release(f.claim(1), true)
	require.Equal(t, "PENDING", f.status(third.ID))
	fourth := f.enqueue(w, 6, "key => 'doubt', on_conflict => 'replace'")
	require.Equal(t, "inserted", fourth.Action, "its workflow may be running")
	require.Equal(t, 5, f.order(third.ID))
}

func TestDebounceMovesTheStartButNotBeyondTheLongestWait(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	const debounce = "key => 'a', on_conflict => 'debounce', quiet => '10 s', at_most => '1 min'"
	first := f.enqueue(w, 1, debounce)
	require.Equal(t, "inserted", first.Action)
	require.InDelta(t, 10, f.dueIn(first.ID).Seconds(), 5)
	require.Empty(t, f.claim(10).items)
	age := func(by string) {
		f.exec(`set session_replication_role = replica; update pgdispatch.workflow_execution_queue
			set created_at = created_at - interval '`+by+`', run_at = run_at - interval '`+by+
			`'; reset session_replication_role`, pgx.QueryExecModeSimpleProtocol)
		f.forget() // nobody was told
	}
	age("8 s")
	debounced := enqueued{first.ID, first.ExecutionID, "debounced"}
	require.Equal(t, debounced, f.enqueue(w, 2, debounce))
	require.InDelta(t, 18, f.dueIn(first.ID).Seconds(), 5, "ten seconds from now")
	require.Equal(t, 2, f.order(first.ID), "the newest params count")
	age("47 s")
	require.Equal(t, debounced, f.enqueue(w, 3, debounce+", priority => 4"))
	require.Equal(t, time.Minute, f.dueIn(first.ID), "the longest wait is over before the quiet time")
	require.Equal(t, debounced, f.enqueue(w, 4, debounce))
	require.Equal(t, time.Minute, f.dueIn(first.ID))
	age("1 hour")
	require.Equal(t, debounced, f.enqueue(w, 5, debounce), "late, because its workspace was full")
	require.Equal(t, []int64{first.ID}, f.claim(10).ids(), "no call can hold it back any longer")
	require.Equal(t, "inserted", f.enqueue(w, 6, debounce).Action)
	require.Equal(t, 5, f.order(first.ID))
}

func TestEnqueueThatIsRolledBackChangesNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	first := f.enqueue(w, 1, "key => 'a'")
	in, tx := f.begin()
	require.Equal(t, "replaced", in.enqueue(w, 2, "key => 'a', on_conflict => 'replace'").Action)
	require.Equal(t, "inserted", in.enqueue(w, 2, "key => 'b'").Action)
	require.Equal(t, "skipped", in.enqueue(w, 2, "key => 'b'").Action, "a transaction sees what it did")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, 1, f.order(first.ID))
	require.Equal(t, "inserted", f.enqueue(w, 3, "key => 'b', priority => -1").Action)
}

func TestReplicasHearOfAReplacedItem(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	const replace = "key => 'a', on_conflict => 'replace'"
	f.enqueue(w, 1, replace)
	require.Equal(t, 1, f.heard(func() { f.enqueue(w, 2, replace) }), "a claim may have chosen the row before")
	require.Equal(t, 1, f.heard(func() { f.enqueue(w, 3, replace+", priority => 1") }))
	require.Equal(t, 1, f.heard(func() {
		f.enqueue(w, 3, "key => 'a', on_conflict => 'debounce', quiet => '5 s'")
	}))
	require.Equal(t, 3, one[int](f, "select count(*) from pgdispatch.marks where due is not null"))
}
