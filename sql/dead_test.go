package sql_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// replay is the answer of pgdispatch.replay.
type replay struct {
	ID          *int64
	ExecutionID *string
	Replayed    bool
}

func (f fixture) replay(id int64) replay {
	return rowsOf[replay](f, "select r.id, r.execution_id::text, r.replayed from pgdispatch.replay($1) r",
		f.execution(id))[0]
}

// replayed replays a dead letter and returns the new item.
func (f fixture) replayed(id int64) int64 {
	r := f.replay(id)
	require.True(f.t, r.Replayed, "item %d is replayed", id)
	return *r.ID
}

func (f fixture) discard(id int64) bool {
	return one[bool](f, "select pgdispatch.discard($1)", f.execution(id))
}

// fail fails a batch permanently.
func (f fixture) fail(b batch, reason string) []int64 {
	return all[int64](f, sql.Text("fail"), b.ids(), b.tokens(), repeated(len(b.Items), reason))
}

// retry counts a failure for each item of a batch; they are due again immediately.
func (f fixture) retry(b batch, reason string) []int64 {
	return all[int64](f, sql.Text("retry"), b.ids(), b.tokens(), repeated(len(b.Items), reason),
		repeated(len(b.Items), time.Duration(0)), repeated(len(b.Items), false))
}

// dead enqueues n items and fails them.
func (f fixture) dead(w tenant, n int) []int64 {
	ids := f.items(w, n)
	f.killed(n)
	return ids
}

// killed claims n items and fails them.
func (f fixture) killed(n int) {
	for n > 0 {
		b := f.claim(n)
		require.NotEmpty(f.t, b.Items, "a claim must find the items to fail")
		require.Len(f.t, f.fail(b, "it broke"), len(b.Items))
		n -= len(b.Items)
	}
}

func (f fixture) listed() []int64 {
	return all[int64](f, "select id from pgdispatch.dead_letters order by id")
}

func TestAReplayIsANewItemWithTheSameWork(t *testing.T) {
	f, w := openFor(t, "FREE")
	id := one[int64](f, `insert into pgdispatch.workflow_execution_queue
			(workspace_id, workflow_definition_id, params, priority, traceparent, idempotency_key, run_at)
		values ($1, $2, '{"quote": "''; drop table x; --", "n": 1e400}', 7,
			'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'once', '2020-01-01')
		returning id`, w.workspace, w.definition)
	f.killed(1)

	again := f.replay(id)
	require.True(t, again.Replayed)
	const work = `select format('%s %s %s %s %s %s %s %s', workspace_id, workflow_definition_id, params, priority,
		traceparent, status, attempt_count, failure_count)
		from pgdispatch.workflow_execution_queue where id = $1`
	require.Equal(t, strings.Replace(one[string](f, work, id), "FAILED 1 1", "PENDING 0 0", 1),
		one[string](f, work, *again.ID))
	require.NotEqual(t, f.execution(id), *again.ExecutionID, "a new workflow ID")
	require.Equal(t, f.execution(*again.ID), *again.ExecutionID)
	require.True(t, one[bool](f, `select run_at between created_at and clock_timestamp() and idempotency_key is null
		from pgdispatch.workflow_execution_queue
			where id = $1`, *again.ID), "due at once, and the key stays with the old item")
	require.Equal(t, fmt.Sprintf("%d f REPLAYED postgres %d PENDING", id, *again.ID), one[string](f, `
		select format('%s %s %s %s %s %s', n.replay_of, o.open, o.mark, o.marked_by, o.replay_id, o.replay_status)
		from pgdispatch.workflow_execution_queue n join pgdispatch.failed_items o on o.id = n.replay_of
			where n.id = $1`, *again.ID))

	claimed := f.claim(2)
	require.Equal(t, []int64{*again.ID}, claimed.ids(), "the insert marked its workspace")
	require.Empty(t, f.listed())
}

func TestADeadLetterIsReplayedOnce(t *testing.T) {
	f := open(t)
	id := f.dead(f.tenant("FREE"), 1)[0]
	again := f.replayed(id)
	for _, end := range []func(){
		func() {},
		func() { f.dispatched(f.claim(1)) },
		func() { f.finish(again, "COMPLETED") },
	} {
		end()
		for _, asked := range []int64{id, again} {
			r := f.replay(asked)
			require.False(t, r.Replayed)
			require.Equal(t, again, *r.ID, "it returns the replay's ID")
			require.Equal(t, f.execution(again), *r.ExecutionID)
		}
	}
	require.Equal(t, 2, f.count("workflow_execution_queue"))
}

func TestAReplayThatFailedIsReplayedInItsTurn(t *testing.T) {
	f := open(t)
	first := f.dead(f.tenant("FREE"), 1)[0]
	second := f.replayed(first)
	f.killed(1)
	require.Equal(t, []int64{second}, f.listed(), "only the newest is a dead letter")
	third := f.replayed(first)
	require.Equal(t, second, column[int64](f, third, "replay_of"))
	f.killed(1)
	fourth := f.replayed(second)
	require.Equal(t, third, column[int64](f, fourth, "replay_of"))
	require.Equal(t, fourth, *f.replay(first).ID)
	require.Empty(t, f.listed())
}

func TestAReplayThatWasWithdrawnLeavesTheDeadLetterOpen(t *testing.T) {
	f := open(t)
	id := f.dead(f.tenant("FREE"), 1)[0]
	withdrawn := f.replayed(id)
	require.True(t, f.cancel(withdrawn))
	require.Equal(t, []int64{id}, f.listed())
	f.refusedAs("PGD24", "", "select pgdispatch.replay($1)", f.execution(withdrawn)) // it was withdrawn

	again := f.replayed(id)
	require.Equal(t, id, column[int64](f, again, "replay_of"))
	require.True(t, f.cancel(again))
	require.True(t, f.discard(id), "it can be discarded")
	require.Empty(t, f.listed())
}

func TestADiscardedDeadLetterIsListedNoMoreAndStays(t *testing.T) {
	f := open(t)
	ids := f.dead(f.tenant("PRO"), 2)
	require.True(t, one[bool](f, "select pgdispatch.discard($1, 'Zoë, on call')", f.execution(ids[0])))
	require.False(t, f.discard(ids[0]), "it was discarded before")
	require.Equal(t, []int64{ids[1]}, f.listed())
	require.Equal(t, "DISCARDED Zoë, on call it broke",
		one[string](f, `select format('%s %s %s', mark, marked_by, last_error)
		from pgdispatch.failed_items where not open and marked_at between finished_at and clock_timestamp()`))

	replayed := f.replayed(ids[0])
	require.False(t, f.discard(ids[0]), "a discarded dead letter can be replayed")
	require.Equal(t, replayed, *f.replay(ids[0]).ID)
}

func TestBulkReplayIsPlainSQL(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "PRO")
	f.dead(w, 3)
	kept := f.dead(other, 1)
	require.Equal(t, 3, one[int](f, `select count(*) filter (where r.replayed)
		from pgdispatch.dead_letters d cross join lateral pgdispatch.replay(d.execution_id) r
		where d.workspace_id = $1 and d.last_error like '%broke%'`, w.workspace))
	require.Equal(t, kept, f.listed())
	require.True(t, one[bool](f, "select pgdispatch.discard(execution_id) from pgdispatch.dead_letters"))
	require.Empty(t, f.listed())
}

func TestABulkReplayLeavesOutWhatIsNotOpenOrHasLostItsDefinition(t *testing.T) {
	f, w, gone := openForTwo(t, "PRO", "PRO")
	ids := append(f.dead(w, 4), f.dead(gone, 1)...)
	ids = append(ids, f.item(w), 999)
	f.replayed(ids[0])
	f.discard(ids[1])
	f.leave(gone)
	require.ElementsMatch(t, []int64{ids[2], ids[3]},
		all[int64](f, "select item_id from pgdispatch.replay_items($1, 'me')", ids))
	require.Empty(t, all[int64](f, "select item_id from pgdispatch.replay_items($1, 'me')", ids))
	require.Empty(t, all[int64](f, "select item_id from pgdispatch.replay_items(null, 'me')"))

	f.refusedAs("PGD02", fmt.Sprintf("workflow definition %s of item %d was deleted", gone.definition, ids[4]),
		"select pgdispatch.replay($1)", f.execution(ids[4]))
	require.True(t, f.discard(ids[4]))
}

func TestTwoReplaysAtOnceMakeOneItem(t *testing.T) {
	f := open(t)
	id := f.dead(f.tenant("FREE"), 1)[0]
	var first, second replay
	f.beside(func(in fixture) { first = in.replay(id) }, func(in fixture) { second = in.replay(id) })
	require.True(t, first.Replayed)
	require.False(t, second.Replayed)
	require.Equal(t, first.ID, second.ID)
	require.Equal(t, 2, f.count("workflow_execution_queue"))
}

func TestAnOpenReplayIsInNobodysWay(t *testing.T) {
	f, w := openFor(t, "PRO")
	ids := f.dead(w, 2)
	in, _ := f.begin()
	in.replayed(ids[0])
	in.discard(ids[1])
	other := f.impatient()
	next := other.item(w)
	b := other.claim(10)
	require.Equal(t, []int64{next}, b.ids())
	other.dispatched(b)
	require.True(t, other.finish(next, "COMPLETED"))
}

func TestWhatIsNoDeadLetterIsRefusedByName(t *testing.T) {
	f := open(t)
	dead := f.dead(f.tenant("FREE"), 1)[0]
	id := f.item(f.tenant("FREE"))
	waiting, letter := f.execution(id), f.execution(dead)
	for _, row := range []struct {
		arguments           []any
		code, message, hint string
	}{
		{[]any{nobody, "me"}, "PGD23", "no item has execution " + nobody,
			"Use the execution_id of a row of pgdispatch.dead_letters."},
		{[]any{nil, "me"}, "PGD23", "no item has execution null", "Use the execution_id"},
		{[]any{waiting, "me"}, "PGD24", fmt.Sprintf("item %d is PENDING: only FAILED items can be replayed or discarded", id),
			""},
		{[]any{letter, ""}, "PGD25", "who must have 1 to 200 characters and no control characters",
			"Omit it to use the database user"},
		{[]any{letter, nil}, "PGD25", "who must have", "Omit it to use the database user"},
		{[]any{letter, strings.Repeat("x", 201)}, "PGD25", "who must have", "Omit it to use the database user"},
		{[]any{letter, "me\x1b[2J"}, "PGD25", "who must have", "Omit it to use the database user"},
	} {
		for _, verb := range []string{"replay", "discard"} {
			refusal := f.refusedAs(row.code, row.message, "select pgdispatch."+verb+"($1, $2)", row.arguments...)
			require.Contains(t, refusal.Hint, row.hint)
		}
	}
	require.Equal(t, "22P02", f.refused("select pgdispatch.replay('17')").Code, "Postgres rejects the UUID")
	require.Equal(t, []int64{dead}, f.listed())
}

func TestAReplayDeletedBeforeItsEndLeavesTheDeadLetterOpen(t *testing.T) {
	f := open(t)
	ids := f.dead(f.tenant("PRO"), 2)
	waiting, failed := f.replayed(ids[0]), f.replayed(ids[1])
	f.fail(f.claim(2), "it broke again")
	f.remove(failed)
	require.NotContains(t, f.listed(), ids[1], "its operator has handled it")
	r := f.replay(ids[1])
	require.False(t, r.Replayed)
	require.Equal(t, failed, *r.ID)
	require.Nil(t, r.ExecutionID, "it was deleted")

	again := f.replayed(waiting)
	f.remove(again)
	require.Equal(t, []int64{waiting}, f.listed())
}

// find runs dead_find with a filter's values by their parameters' numbers.
func (f fixture) find(values map[int]any) []int64 {
	arguments := make([]any, 14)
	arguments[0] = "open"
	for n, value := range values {
		arguments[n-1] = value
	}
	return all[int64](f, sql.Text("dead_find"), arguments...)
}

func TestDeadLettersAreReadPageByPageThoughManyFailedAtOneInstant(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.dead(w, 9)
	f.exec(`update pgdispatch.workflow_execution_queue
		set finished_at = timestamptz '2026-11-20 12:00:00.123456Z' + (id % 2) * interval '1 us'`)
	want := f.find(nil)
	require.Len(t, want, 9)
	kind := one[string](f, "select min(pgdispatch.error_kind(last_error)) from pgdispatch.dead_letters")
	for name, next := range map[string]func(failedAt, id any) []int64{
		"all": func(failedAt, id any) []int64 { return f.find(map[int]any{9: 2, 10: failedAt, 11: id}) },
		"of a kind": func(failedAt, id any) []int64 {
			return all[int64](f, sql.Text("view_dead_group"), 100, kind, 2, failedAt, id, nil)
		},
	} {
		var got []int64
		var failedAt, id any
		for page := next(failedAt, id); len(page) > 0; page = next(failedAt, id) {
			got = append(got, page...)
			require.LessOrEqual(t, len(got), len(want), "%s: no item appears twice", name)
			last := page[len(page)-1]
			id, failedAt = last, column[time.Time](f, last, "finished_at")
		}
		require.Equal(t, want, got, name)
	}
}

func TestDeadLettersAreFoundByWorkspaceDefinitionErrorAndTime(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "FREE")
	a, b := f.dead(w, 1)[0], f.dead(w, 1)[0]
	f.items(other, 1)
	f.fail(f.claim(1), `100% of "it's"_BROKEN\`)
	c := one[int64](f, "select max(id) from pgdispatch.workflow_execution_queue")
	f.set("finished_at = finished_at - interval '3 hours'", a)

	require.Equal(t, []int64{c, b, a}, f.find(nil), "the newest first")
	require.Equal(t, []int64{c, b}, f.find(map[int]any{9: 2}))
	require.Equal(t, []int64{b, a}, f.find(map[int]any{2: w.workspace}))
	require.Equal(t, []int64{b, a}, f.find(map[int]any{2: strings.ToUpper(w.workspace)}))
	require.Equal(t, []int64{c}, f.find(map[int]any{2: "tenant on FREE"}))
	require.Equal(t, []int64{b, a}, f.find(map[int]any{3: w.definition}))
	require.Equal(t, []int64{c, b, a}, f.find(map[int]any{3: "report"}), "both workspaces have a definition of this name")
	require.Equal(t, []int64{b, a}, f.find(map[int]any{4: "IT BROKE"}))
	for _, text := range []string{"100%", `"it's"`, `_broken\`, "it's"} {
		require.Equal(t, []int64{c}, f.find(map[int]any{4: text}), "the filter is literal text: %s", text)
	}
	for _, text := range []string{"%", "_", `\`} {
		require.Equal(t, []int64{c}, f.find(map[int]any{4: text}))
	}
	require.Equal(t, []int64{c, b}, f.find(map[int]any{6: time.Hour}))
	require.Equal(t, []int64{a}, f.find(map[int]any{8: time.Hour}))
	require.Equal(t, []int64{a}, f.find(map[int]any{5: time.Now().Add(-4 * time.Hour), 7: time.Now().Add(-time.Hour)}))
	require.Empty(t, f.find(map[int]any{2: "'; drop table x; --"}))

	f.discard(a)
	f.replayed(b)
	require.Equal(t, []int64{c}, f.find(nil))
	require.Equal(t, []int64{a}, f.find(map[int]any{1: "discarded"}))
	require.Equal(t, []int64{b}, f.find(map[int]any{1: "replayed"}))
	require.Equal(t, []int64{c, b, a}, f.find(map[int]any{1: "any"}))
}
