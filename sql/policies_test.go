package sql_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// enqueued is the answer of pgdispatch.enqueue.
type enqueued struct {
	ID          int64
	ExecutionID string
	Action      string
}

// enqueue calls pgdispatch.enqueue with an order as params and further arguments, such as "key => 'a'".
func (f fixture) enqueue(w tenant, order int, arguments string) enqueued {
	return must.Get(f.tryEnqueue(w, fmt.Sprintf(`{"order": %d}`, order), arguments)).In(f.t)
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
func (f fixture) order(id int64) int { return column[int](f, id, "(params ->> 'order')::int") }

// dueIn returns when an item is due, counted from when it was created.
func (f fixture) dueIn(id int64) time.Duration {
	return column[time.Duration](f, id, "run_at - created_at")
}

func TestEnqueueWithoutAKeyInsertsAnItemEachTime(t *testing.T) {
	f, w := openFor(t, "PRO")
	first := f.enqueue(w, 1, "")
	require.Equal(t, enqueued{first.ID, f.execution(first.ID), "inserted"}, first)
	second := f.enqueue(w, 2, `priority => 5, run_at => '2100-01-01Z', start_options => '{"static_summary": "x"}',
		traceparent => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'`)
	require.Equal(t, "inserted", second.Action)
	require.True(t, one[bool](f, `select priority = 5 and run_at = '2100-01-01Z' and traceparent like '00-0af%'
		and start_options ? 'static_summary' and idempotency_key is null
		from pgdispatch.workflow_execution_queue where id = $1`, second.ID))
	require.Equal(t, []int64{first.ID}, f.claim(10).ids())
	require.Zero(t, f.count("enqueue_keys"))
}

func TestEnqueueIsAFunctionBesideTheViewOfItsName(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.exec("insert into pgdispatch.enqueue (workspace_id, workflow_definition_id) values ($1, $2)", w.workspace,
		w.definition)
	require.EqualValues(t, 3, one[int64](f, `select count(*) from generate_series(1, 3) n
		cross join lateral pgdispatch.enqueue($1, $2, key => 'order-' || n) where action = 'inserted'`, w.workspace,
		w.definition), "one call for each row")
	require.Equal(t, 4, f.count("workflow_execution_queue"))
}

func TestSkipInsertsNothingWhileTheKeysItemWaitsOrRuns(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "PRO")
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
	f, w := openFor(t, "PRO")
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
	f, w := openFor(t, "PRO")
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
	f, w := openFor(t, "PRO")
	const debounce = "key => 'a', on_conflict => 'debounce', quiet => '10 s', at_most => '1 min'"
	first := f.enqueue(w, 1, debounce)
	require.Equal(t, "inserted", first.Action)
	require.InDelta(t, 10, f.dueIn(first.ID).Seconds(), 5)
	require.Empty(t, f.claim(10).Items)
	age := func(by string) {
		f.untriggered(func(in fixture) {
			in.exec(`update pgdispatch.workflow_execution_queue
				set created_at = created_at - $1::text::interval, run_at = run_at - $1::text::interval`, by)
		})
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
	f, w := openFor(t, "PRO")
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
	f, w := openFor(t, "PRO")
	const replace = "key => 'a', on_conflict => 'replace'"
	f.enqueue(w, 1, replace)
	require.Equal(t, 1, f.heard(func() { f.enqueue(w, 2, replace) }), "a claim may have chosen the row before")
	require.Equal(t, 1, f.heard(func() { f.enqueue(w, 3, replace+", priority => 1") }))
	require.Equal(t, 1, f.heard(func() { f.enqueue(w, 3, "key => 'a', on_conflict => 'debounce', quiet => '5 s'") }))
	require.Equal(t, 3, f.count("marks where due is not null"))
}

func TestEnqueueNamesTheArgumentThatIsWrong(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.enqueue(w, 1, "key => 'held'")
	for _, bad := range []struct{ arguments, code, says string }{
		{"key => ''", "PGD50", "key has 0 characters"},
		{"key => repeat('k', 201)", "PGD50", "key has 201 characters"},
		{"on_conflict => 'skip'", "PGD50", "on_conflict, quiet and at_most need a key"},
		{"quiet => '1 s'", "PGD50", "need a key"},
		{"key => 'a', on_conflict => 'SKIP'", "PGD51", "on_conflict is SKIP: it must be skip, replace or debounce"},
		{"key => 'a', quiet => '1 s'", "PGD51", "quiet and at_most are for debounce, and on_conflict is skip"},
		{"key => 'a', on_conflict => 'replace', at_most => '1 s'", "PGD51", "on_conflict is replace"},
		{"key => 'a', on_conflict => 'debounce'", "PGD52", "quiet is null"},
		{"key => 'a', on_conflict => 'debounce', quiet => '0'", "PGD52", "quiet is 00:00:00"},
		{"key => 'a', on_conflict => 'debounce', quiet => '-1 s'", "PGD52", "quiet is -00:00:01"},
		{"key => 'a', on_conflict => 'debounce', quiet => '2 years'", "PGD52", "quiet is 2 years"},
		{"key => 'a', on_conflict => 'debounce', quiet => '5 s', at_most => '4 s'", "PGD52", "at_most is 00:00:04"},
		{"key => 'a', on_conflict => 'debounce', quiet => '5 s', at_most => '2 years'", "PGD52", "at_most is 2 years"},
		{"key => 'a', on_conflict => 'debounce', quiet => '5 s', run_at => now()", "PGD53", "run_at must not be given"},
		{"priority => 101", "PGD06", "priority 101"},
		{"run_at => 'infinity'", "PGD08", "run_at infinity"},
		{"traceparent => 'x'", "PGD10", "traceparent"},
		{`start_options => '{"x": 1}'`, "PGD11", "start_options has no field x"},
		// Although nothing would be inserted.
		{"key => 'held', priority => 101", "PGD06", "priority 101"},
		{"key => 'held', traceparent => 'x'", "PGD10", "traceparent"},
		{`key => 'held', start_options => '{"x": 1}'`, "PGD11", "start_options has no field x"},
		{"key => 'held', on_conflict => 'replace', priority => 101", "PGD06", "priority 101"},
	} {
		f.refusedAs(bad.code, bad.says, "select from pgdispatch.enqueue($1, $2, "+bad.arguments+")", w.workspace,
			w.definition)
	}
	require.Equal(t, 1, f.count("workflow_execution_queue"))
}

func TestEnqueueRefusesParamsAndDefinitionsAsAnInsertDoes(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "PRO")
	second, _ := f.definition(w.workspace, "second")
	f.enqueue(w, 1, "key => 'held'")
	for _, key := range []string{"", "key => 'new'", "key => 'held'", "key => 'held', on_conflict => 'replace'"} {
		for _, bad := range []struct {
			w            tenant
			params, code string
		}{
			{w, "[1]", "PGD04"}, {w, `{"a": "` + strings.Repeat("x", 2<<20) + `"}`, "PGD05"},
			{tenant{workspace: nobody, definition: w.definition}, "{}", "PGD01"},
			{tenant{workspace: w.workspace, definition: nobody}, "{}", "PGD02"},
			{tenant{workspace: w.workspace, definition: other.definition}, "{}", "PGD03"},
		} {
			_, err := f.tryEnqueue(bad.w, bad.params, key)
			require.Equal(t, bad.code, f.pgError(err).Code, key)
		}
	}
	_, err := f.tryEnqueue(tenant{workspace: w.workspace, definition: second}, "{}", "key => 'held'")
	require.Equal(t, "PGD54", f.pgError(err).Code, "it would wait for work of another kind")
	f.refusedAs("PGD01", "", "select pgdispatch.enqueue(null, null, key => 'a')")
	f.refusedAs("23502", "", "select pgdispatch.enqueue(null, $1)", w.definition)
}

// A row that the application's own trigger suppresses must not make enqueue try forever.
func TestEnqueueEndsWhenATriggerSuppressesTheRow(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.exec(`create function suppress() returns trigger language plpgsql as 'begin return null; end'`)
	f.exec(`create trigger suppress before insert on pgdispatch.workflow_execution_queue for each row
		execute function suppress()`)
	var id pgtype.Int8
	var action pgtype.Text
	require.NoError(t, f.db.QueryRow(t.Context(), "select id, action from pgdispatch.enqueue($1, $2, key => 'a')",
		w.workspace, w.definition).Scan(&id, &action))
	require.False(t, id.Valid || action.Valid)
}
