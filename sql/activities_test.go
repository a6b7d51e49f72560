package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// activity adds a definition of an activity to a tenant's workspace.
func (f fixture) activity(w tenant) tenant {
	w.definition = one[string](f, `insert into pgdispatch.workflow_definitions
		(workspace_id, name, kind, workflow_type, task_queue, execution_timeout)
		values ($1, 'send', 'activity', 'Send', 'mails', '1 hour') returning id::text`, w.workspace)
	w.version = f.version(w.definition, 1, `{"nodes": []}`)
	return w
}

func TestADefinitionOfAnActivityHasATimeoutAndKeepsItsKind(t *testing.T) {
	f, w := openFor(t, "PRO")
	add := func(columns, values string) string {
		return `insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue, ` + columns + `)
			values ('` + w.workspace + `', gen_random_uuid()::text, 'Send', 'mails', ` + values + `)`
	}
	const noTimeout = "execution_timeout of workflow_definitions is null: an activity needs one"
	const not = " is not for the kind "
	for values, message := range map[string]string{
		`'lambda', null`:   "kind of workflow_definitions is lambda: it must be workflow or activity",
		`'activity', null`: noTimeout, `'activity', '{"heartbeat_timeout": "5s"}'`: noTimeout,
		`'activity', '{"memo": {}}'`:                        "memo" + not + "activity of the definition",
		`'activity', '{"versioning_override": {}}'`:         "versioning_override" + not + "activity",
		`'activity', '{"workflow_task_timeout": "10s"}'`:    "workflow_task_timeout" + not + "activity",
		`'workflow', '{"start_to_close_timeout": "1m"}'`:    "start_to_close_timeout" + not + "workflow",
		`'workflow', '{"schedule_to_start_timeout": "1m"}'`: "schedule_to_start_timeout" + not + "workflow",
		`'activity', '{"start_to_close_timeout": "0s"}'`:    `start_to_close_timeout is "0s", it must be a duration`,
		`'activity', '{"schedule_to_close_timeout": "1w"}'`: `schedule_to_close_timeout is "1w", it must be a duration`,
	} {
		refused := f.refused(add("kind, start_options", values))
		require.Contains(t, refused.Message, message, values)
		require.NotEmpty(t, refused.Hint)
	}
	f.exec(add("kind, start_options", `'activity', '{"start_to_close_timeout": "1m", "heartbeat_timeout": "5s"}'`))
	f.exec(add("kind, start_options", `'activity', '{"schedule_to_close_timeout": "0.5s"}'`))
	f.exec(add("kind, start_options, execution_timeout",
		`'activity', '{"retry_policy": {"maximum_attempts": 3}, "priority": {"priority_key": 1}}', '1 hour'`))
	a := f.activity(w)
	f.refusedAs("23514", "", "update pgdispatch.workflow_definitions set execution_timeout = null")
	f.refusedAs("PGD21", "", "update pgdispatch.workflow_definitions set kind = 'workflow' where id = $1", a.definition)
}

// An item's own options are those of its definition's kind, whatever else its definition asks for.
func TestStartOptionsOfAnItemAreThoseOfItsKind(t *testing.T) {
	f, w := openFor(t, "PRO")
	a := f.activity(w)
	insert := insertWith("start_options")
	enqueue := "select id from pgdispatch.enqueue($1, $2, '{}', 'key', start_options => $3::jsonb)"
	for _, of := range []struct {
		tenant
		options, message string
	}{
		{w, `{"heartbeat_timeout": "1s"}`, "heartbeat_timeout is not for the kind workflow of the definition"},
		{a, `{"memo": {"a": 1}}`, "memo is not for the kind activity of the definition"},
		{a, `{"x": 1}`, "start_options has no field x"},
		{a, `{"start_to_close_timeout": "0s"}`, `start_options.start_to_close_timeout is "0s"`},
	} {
		for _, statement := range []string{insert, enqueue} {
			f.refusedAs("PGD11", of.message, statement, of.workspace, of.definition, of.options)
		}
	}
	id := one[int64](f, insert, a.workspace, a.definition,
		`{"heartbeat_timeout": "1s", "search_attributes": {"City": "Oslo"}}`)
	f.refusedAs("PGD11", "", `update pgdispatch.workflow_execution_queue
		set start_options = '{"memo": {}}' where id = $1`, id)
	f.exec(`update pgdispatch.workflow_execution_queue set start_options = '{"heartbeat_timeout": "2s"}'
		where id = $1`, id)
}

func TestAnActivityTakesNoSignals(t *testing.T) {
	f := open(t)
	w := f.activity(f.tenant("PRO"))
	id := f.item(w)
	signal := "select pgdispatch.signal($1::text::uuid, 'go')"
	require.Equal(t, "PGD44", f.refused(signal, f.execution(id)).Code, "not claimed yet")
	f.dispatched(f.claim(1))
	f.exec("delete from pgdispatch.workflow_definitions where id = $1", w.definition)
	f.refusedAs("PGD44", "is an activity and takes no signals", signal, f.execution(id))
}

// A start that may have arrived is repeated as what it was: a workflow and an activity of one ID are two.
func TestAClaimTellsTheKindAndTheExecutionKeepsIt(t *testing.T) {
	f, w := openFor(t, "PRO")
	a := f.activity(w)
	ids := []int64{f.item(w), f.item(a)}
	b := f.claim(5)
	require.Equal(t, ids, b.ids())
	kinds := func(b batch) (kinds []string) {
		for _, item := range b.Items {
			kinds = append(kinds, string(item.Kind))
		}
		return kinds
	}
	require.Equal(t, []string{"workflow", "activity"}, kinds(b))
	require.Equal(t, kinds(b), all[string](f, "select kind from pgdispatch.workflow_executions order by queue_item_id"))
	f.release(b, true)
	f.exec("delete from pgdispatch.workflow_definitions where id = $1", a.definition)
	b = f.claim(5)
	require.Equal(t, []string{"workflow", "activity"}, kinds(b), "looked for as what it was before it fails")
	require.Equal(t, kinds(b), all[string](f, "select kind from pgdispatch.workflow_executions order by queue_item_id"))
}

func TestOnlyActivitiesWaitWhileTemporalStartsNone(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	a := f.activity(w)
	waiting, given := f.items(a, 3), f.items(w, 2)
	require.ElementsMatch(t, []string{"", " activities"}, one[[]string](f, "select pgdispatch.namespaces_in_use()"))
	none := map[string]int{"default activities": 0}
	b := f.claimAround(20, none)
	require.ElementsMatch(t, given, b.ids())
	require.Empty(t, f.claimAround(20, none).Items)
	require.ElementsMatch(t, waiting, f.claimAround(20, map[string]int{"default": 0}).ids(), "nor do they need workflows")
	require.Equal(t, 1,
		one[int](f, "select max(attempt_count) from pgdispatch.workflow_execution_queue where id = any ($1)", waiting))

	f.exec("update pgdispatch.workflow_definitions set namespace = 'shop' where id = $1", a.definition)
	require.ElementsMatch(t, []string{"", "shop", "shop activities"},
		one[[]string](f, "select pgdispatch.namespaces_in_use()"))
}

func TestAnUnansweredStartOfAnActivityWaitsLikeTheOthers(t *testing.T) {
	f, w := openFor(t, "PRO")
	unanswered := []int64{f.item(w), f.item(f.activity(w))}
	f.release(f.claim(5), true)
	require.Equal(t, unanswered[:1], f.claimAround(5, map[string]int{"default activities": 0}).ids())
	require.Equal(t, unanswered[1:], f.claimAround(5, map[string]int{"default": 0}).ids())
}
