package sql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// named enqueues an item that names its workflow's ID.
func (f fixture) named(w tenant, workflowID string) int64 {
	return f.insert(w, 1, "workflow_id", "$4", workflowID)[0]
}

func TestAWorkflowIDMustBeOneThatNobodyElseUses(t *testing.T) {
	f, w := openFor(t, "PRO")
	const lengths, reserved, characters = "workflow_id has % bytes: it must have 1 to 255",
		"workflow_id begins with %, which is reserved",
		"workflow_id has the character %, which Temporal's clients cannot send: it must be printable ASCII"
	for id, problem := range map[string]string{
		"": lengths, strings.Repeat("x", 256): lengths, strings.Repeat("x", 10000): lengths, "a\tb": characters,
		"näxt": characters,
		"execution-0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01":      reserved,
		"execution-0B9C1D526A524F3E9D5F6A1F6F0E5B01-and-more": reserved,
		"/_sys/x": reserved, "temporal-sys-scheduler:x": reserved,
	} {
		for _, insert := range []string{insertWith("workflow_id"),
			"select id from pgdispatch.enqueue($1, $2, workflow_id => $3)",
			"insert into pgdispatch.enqueue (workspace_id, workflow_definition_id, workflow_id) values ($1, $2, $3)"} {
			refused := f.refused(insert, w.workspace, w.definition, id)
			require.Equal(t, "PGD15", refused.Code, "%.50q", id)
			begin, end, _ := strings.Cut(problem, "%")
			require.Contains(t, refused.Message, begin)
			require.Contains(t, refused.Message, end)
		}
	}
	for _, id := range []string{"x", strings.Repeat("x", 255), "execution-17", "order 17's \"best\" \\ next?"} {
		item := f.named(w, id)
		f.refusedAs("PGD21", "", "update pgdispatch.workflow_execution_queue set workflow_id = 'y' where id = $1", item)
	}
	f.refusedAs("23514", "", "update pgdispatch.workflow_definitions set workflow_id_policy = 'maybe'")

	f.exec("update pgdispatch.settings set workflow_id_bytes = 1000")
	f.named(w, strings.Repeat("x", 1000))
	longer := f.refused(insertWith("workflow_id"), w.workspace, w.definition, strings.Repeat("x", 1001))
	require.Equal(t, "PGD15", longer.Code)
}

func TestADefinitionNamesWhatCanBeSent(t *testing.T) {
	f, w := openFor(t, "PRO")
	for set, message := range map[string]string{
		"namespace = 'größe'": "namespace of workflow_definitions is größe: it must be of 1 to 1000 characters of " +
			"printable ASCII",
		"task_queue = '/_sys/own'": "task_queue of workflow_definitions is /_sys/own: it must be of 1 to 1000 bytes, " +
			"without control characters, and not below /_sys/",
	} {
		refused := f.refused("update pgdispatch.workflow_definitions set "+set+" where id = $1", w.definition)
		require.Contains(t, refused.Message, message)
	}
	f.exec("update pgdispatch.workflow_definitions set task_queue = 'größe', namespace = 'shop.a1b2' where id = $1",
		w.definition)
}

func TestAReplacedItemAndAReplayKeepTheirWorkflowID(t *testing.T) {
	f, w := openFor(t, "PRO")
	waits := f.enqueue(w, 1, "key => 'a', workflow_id => 'order-1'")
	f.enqueue(w, 2, "key => 'a', on_conflict => 'replace', workflow_id => 'order-2'")
	id := "select workflow_id from pgdispatch.workflow_execution_queue where id = $1"
	require.Equal(t, "order-1", one[string](f, id, waits.ID))
	item := f.claim(1).Items[0]
	f.exec(sql.Text("fail"), []int64{waits.ID}, []int64{item.Token}, []string{"no"})
	replay := one[int64](f, "select id from pgdispatch.replay($1)", waits.ExecutionID)
	require.Equal(t, "order-1", one[string](f, id, replay))
}

func TestASignalByWorkflowIDGoesToTheNewestItemThatHasNotEnded(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "PRO")
	f.named(w, "order-1")
	running, ended := f.named(w, "order-1"), f.named(w, "order-1")
	f.named(other, "order-1")
	f.cancel(ended)
	signal := one[int64](f, "select pgdispatch.signal_workflow($1, 'order-1', 'go', '1')", w.workspace)
	require.Equal(t, f.execution(running),
		one[string](f, "select execution_id::text from pgdispatch.signals where id = $1", signal))
	for _, id := range []string{"order-2", "", "Order-1"} {
		f.refusedAs("PGD44", "waits or runs", "select pgdispatch.signal_workflow($1, $2, 'go')", w.workspace, id)
	}
}

// One is first: of two that are claimed the one that was claimed first, and one whose start may have been sent.
func TestOfItemsOfOneWorkflowIDOneIsStartedFirst(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	first, second, apart := f.named(w, "order-1"), f.named(w, "order-1"), f.named(w, "order-2")
	behind := func(id int64) bool { return one[bool](f, sql.Text("behind"), id) }
	tokens := map[int64]int64{}
	for range 3 {
		for _, item := range f.claim(1).Items {
			tokens[item.ID] = item.Token
		}
	}
	require.Len(t, tokens, 3)
	require.Less(t, tokens[first], tokens[second])
	require.Equal(t, []bool{false, true, false}, []bool{behind(first), behind(second), behind(apart)})

	doubt := "update pgdispatch.workflow_execution_queue set outcome_unknown = true where id = $1"
	f.exec(doubt, second)
	require.Equal(t, []bool{true, false}, []bool{behind(first), behind(second)}, "it may run already")
	f.exec(doubt, first)
	require.Equal(t, []bool{false, true}, []bool{behind(first), behind(second)}, "one of them is first")
	f.exec(sql.Text("dispatched"), []int64{first}, []int64{tokens[first]}, []string{"run"}, nil)
	require.False(t, behind(second))
	require.Equal(t, "order-1", one[string](f, `select e.workflow_id from pgdispatch.workflow_executions e
		where e.queue_item_id = $1`, first))
}
