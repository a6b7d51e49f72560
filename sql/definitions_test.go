package sql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

var insertParams = insertWith("params")

// like makes the tenant's definition one without a version, with these columns.
func (f fixture) like(w tenant, columns string) {
	f.exec("delete from pgdispatch.workflow_definition_versions where workflow_definition_id = $1", w.definition)
	f.exec("update pgdispatch.workflow_definitions set "+columns+" where id = $1", w.definition)
}

func TestParamsMustHaveTheFormThatTheInputNeeds(t *testing.T) {
	t.Parallel()
	const object, array = "params must be a JSON object", "params must be a JSON array of at most 100 elements"
	for _, c := range []struct{ input, params, problem string }{
		{"envelope", `[]`, object}, {"envelope", `{"a": 1}`, ""}, {"params", `"a"`, object}, {"params", `{"a": 1}`, ""},
		{"args", `{}`, array + ", because the input of the definition is args, not object"},
		{"args", "[0" + strings.Repeat(", 1", 100) + "]",
			array + ", because the input of the definition is args, not 101 elements"},
		{"args", `[]`, ""}, {"args", `[1, "two", {"three": null}, null]`, ""},
		{"payloads", `{"data": ""}`, array}, {"payloads", `[]`, ""},
		{"payloads", `[{}, 1]`, "params[1] is not a payload"},
		{"payloads", `[{"data": 1}]`, "params[0] is not a payload"},
		{"payloads", `[{"data": "a"}]`, "params[0] is not a payload"},
		{"payloads", `[{"data": "YQ=="}, {}, {"data": "YQ==", "more": ""}]`, "params[2] is not a payload"},
		{"payloads", `[{"metadata": "YQ=="}]`, "params[0] is not a payload"},
		{"payloads", `[{"metadata": {"encoding": "json/plain"}}]`, "params[0] is not a payload"},
		{"payloads", `[{"metadata": {"encoding": {}}}]`, "params[0] is not a payload"},
		{"payloads", `[{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": "MQ=="}]`, ""},
	} {
		t.Run(c.input+" "+c.params[:min(len(c.params), 40)], func(t *testing.T) {
			f, w := openFor(t, "ENTERPRISE")
			f.like(w, "input = '"+c.input+"'")
			if c.input == "envelope" {
				f.version(w.definition, 1, `{"nodes": []}`)
			}
			enqueue := "select id from pgdispatch.enqueue($1, $2, $3, 'key')"
			if c.problem != "" {
				for _, insert := range []string{insertParams, enqueue} {
					f.refusedAs("PGD04", c.problem, insert, w.workspace, w.definition, c.params)
				}
				return
			}
			f.exec(insertParams, w.workspace, w.definition, c.params)
			f.exec(enqueue, w.workspace, w.definition, c.params)
			for _, item := range f.claim(10).Items {
				require.JSONEq(t, c.params, string(item.Params))
				require.Equal(t, c.input, string(item.Input))
				require.Empty(t, item.Problem)
				require.Equal(t, 1, f.count("workflow_executions where id = $1::text::uuid",
					item.ExecutionID), "a start may be sent")
			}
		})
	}
}

func TestParamsOfAWaitingItemKeepTheFormOfItsInput(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.like(w, "input = 'args'")
	id := one[int64](f, insertParams, w.workspace, w.definition, "[1]")
	f.set("params = '[2]'", id)
	f.refusedAs("PGD04", "", "update pgdispatch.workflow_execution_queue set params = '{}' where id = $1", id)
	f.refusedAs("PGD11", "", `insert into pgdispatch.workflow_execution_queue
		(workspace_id, workflow_definition_id, params, start_options) values ($1, $2, '[]', '{"no": 1}')`,
		w.workspace, w.definition)
}

func TestItemsHaveTheLimitKeyOfTheirDefinition(t *testing.T) {
	const given, none = "given", ""
	type inserted struct{ columns, params, limitKey, want string }
	must.Each(t, map[string]inserted{
		"constant":           {"limit_key = 'smtp'", `{}`, none, "smtp"},
		"constant and args":  {"limit_key = 'smtp', input = 'args'", `[]`, none, "smtp"},
		"own key":            {"limit_key = 'smtp'", `{}`, given, given},
		"param":              {"limit_key_param = 'customer'", `{"customer": "acme"}`, none, "acme"},
		"number":             {"limit_key_param = 'customer'", `{"customer": 12.50}`, none, "12.50"},
		"boolean":            {"limit_key_param = 'customer'", `{"customer": false}`, none, "false"},
		"null":               {"limit_key_param = 'customer'", `{"customer": null}`, none, none},
		"no such param":      {"limit_key_param = 'customer'", `{"Customer": "acme"}`, none, none},
		"own key, not param": {"limit_key_param = 'customer'", `{"customer": {}}`, given, given},
		"param of an array":  {"limit_key_param = 'customer', input = 'args'", `["customer"]`, none, none},
	}, func(t *testing.T, c inserted) {
		f, w := openFor(t, "FREE")
		f.exec("update pgdispatch.workflow_definitions set "+c.columns+" where id = $1", w.definition)
		f.insert(w, 1, "params, limit_key", "$4::jsonb, nullif($5, '')", c.params, c.limitKey)
		require.Equal(t, c.want, one[string](f, "select coalesce(limit_key, '') from pgdispatch.workflow_execution_queue"))
		require.Len(t, f.claim(10).Items, 1, "the replica's memory finds it under its key")
	})
}

func TestALimitKeyOfParamsThatIsNoneIsRefused(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.exec("update pgdispatch.workflow_definitions set limit_key_param = 'customer' where id = $1", w.definition)
	long := strings.Repeat("x", 201)
	for params, problem := range map[string]string{
		`{"customer": ["acme"]}`:       "params.customer is the limit key of workflow definition",
		`{"customer": ""}`:             "params.customer has 0 characters: a limit key must have 1 to 200",
		`{"customer": "` + long + `"}`: "params.customer has 201 characters",
	} {
		f.refusedAs("PGD12", problem, insertParams, w.workspace, w.definition, params)
	}
	require.Zero(t, f.left())
}

func TestADefinitionWithTwoLimitKeysOrAnUnknownInputIsRefused(t *testing.T) {
	f, w := openFor(t, "FREE")
	for columns, problem := range map[string]string{
		"limit_key = 'a', limit_key_param = 'b'": "a definition has limit_key or limit_key_param",
		"limit_key = ''":                         "limit_key of workflow_definitions is",
		"input = 'soap'":                         "it must be envelope, params, args or payloads",
	} {
		f.refusedAs("23514", problem, "update pgdispatch.workflow_definitions set "+columns+" where id = $1", w.definition)
	}
}

func TestEnqueueNamedTakesTheNamesOfWorkspaceAndDefinition(t *testing.T) {
	f, w := openFor(t, "FREE")
	const named = "select execution_id::text from pgdispatch.enqueue_named('tenant on FREE', 'report', '{\"a\": 1}')"
	execution := one[string](f, named)
	item := f.claim(1).Items[0]
	require.Equal(t, execution, item.ExecutionID)
	require.Equal(t, w.workspace, item.WorkspaceID)
	require.JSONEq(t, `{"a": 1}`, string(item.Params))

	const all = `select action from pgdispatch.enqueue_named('tenant on FREE', 'report', '{}', key => 'k',
		on_conflict => 'debounce', quiet => '1 min', at_most => '2 min', priority => 7, start_options => '{"memo": {}}',
		traceparent => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', limit_key => 'l')`
	require.Equal(t, "inserted", one[string](f, all))
	require.Equal(t, "debounced", one[string](f, all))

	f.tenant("FREE")
	for _, workspace := range []string{"'tenant on FREE'", "'Tenant on FREE'", "null"} { // there are two of the first
		f.refusedAs("PGD01", "", "select pgdispatch.enqueue_named("+workspace+", 'report')")
	}
	f.tenant("PRO")
	for _, definition := range []string{"'Report'", "null"} {
		f.refusedAs("PGD02", "workspace 'tenant on PRO' has no workflow definition",
			"select pgdispatch.enqueue_named('tenant on PRO', "+definition+")")
	}
}

const insertGraph = "insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph) " +
	"values ($1, $2, $3)"

func TestAGraphThatIsWrongIsRefusedByField(t *testing.T) {
	f, w := openFor(t, "FREE")
	ids := make([]string, 7000)
	for n := range ids {
		ids[n] = fmt.Sprintf(`{"id": "node-%d"}`, n)
	}
	const a = `{"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}], "edges": [`
	for _, row := range [][2]string{
		{`[]`, `graph is []: it must be an object`},
		{`null`, `graph is null: it must be an object`},
		{`{}`, `nodes is missing: it must be an array`},
		{`{"nodes": {}}`, `nodes is {}: it must be an array`},
		{`{"nodes": null}`, `nodes is null: it must be an array`},
		{`{"nodes": ["a"]}`, `nodes[0] is "a": it must be an object`},
		{`{"nodes": [[{"id": "a"}]]}`, `nodes[0] is [{"id": "a"}]: it must be an object`},
		{`{"nodes": [{"id": "a"}, {"ID": "b"}]}`, `nodes[1].id is missing: it must be a string`},
		{`{"nodes": [{"id": 7}]}`, `nodes[0].id is 7: it must be a string`},
		{`{"nodes": [{"id": null}]}`, `nodes[0].id is null: it must be a string`},
		{`{"nodes": [{"id": "a"}, {"id": ""}]}`, `nodes[1].id is "": it must not be empty`},
		{`{"nodes": [{"id": "a"}, {"id": "a"}]}`, `nodes[1].id is "a": it must differ from nodes[0].id`},
		{`{"nodes": [], "edges": {}}`, `edges is {}: it must be an array`},
		{`{"nodes": [], "edges": null}`, `edges is null: it must be an array`},
		{a + `"a->b"]}`, `edges[0] is "a->b": it must be an object`},
		{a + `{"from": "a"}]}`, `edges[0].to is missing: it must be the id of a node`},
		{a + `{"from": "a", "to": "b"}, {"from": "b", "to": "d"}]}`, `edges[1].to is "d": it must be the id of a node`},
		{a + `{"from": ["a"], "to": "b"}]}`, `edges[0].from is ["a"]: it must be the id of a node`},
		{a + `{"from": "a", "to": "a"}]}`, `edges are a cycle: "a -> a"`},
		{a + `{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "b"}]}`,
			`edges are a cycle: "b -> c -> b"`},
		{`{"nodes": [` + strings.Join(ids, ",") + `]}`, `size of all node ids is 89890: it must be 65536 bytes at most`},
		{`{"nodes": [{"id": "` + strings.Repeat("x", 65536) + `"}]}`, `size of all node ids is 65540`},
	} {
		graph, want := row[0], row[1]
		refusal := f.refusedAs("23514", "graph of workflow_definition_versions: "+want, insertGraph, w.definition, 2, graph)
		require.Equal(t, "graph", refusal.ColumnName)
		require.NotEmpty(t, refusal.Hint)
	}
	refusal := f.refused("update pgdispatch.workflow_definition_versions set graph = $1", a+`{"from": "c", "to": "c"}]}`)
	require.Contains(t, refusal.Message, `edges are a cycle: "c -> c"`)
	require.Contains(t, refusal.Hint, "Remove one of these edges")
}

func TestAGraphWithoutCyclesIsAccepted(t *testing.T) {
	f, w := openFor(t, "FREE")
	nodes, edges := make([]string, 5000), make([]string, 0, 10000)
	for n := range nodes {
		nodes[n] = fmt.Sprintf(`{"id": "%d"}`, n)
		if n > 1 {
			edges = append(edges, fmt.Sprintf(`{"from": "%d", "to": "%d"}, {"from": "%d", "to": "%d"}`, n-1, n, n-2, n))
		}
	}
	long := `{"nodes": [` + strings.Join(nodes, ",") + `], "edges": [` + strings.Join(edges, ",")
	for n, graph := range []string{
		`{"nodes": []}`, ` {"nodes": [{"id": " "}]} `, `{"nodes": [], "edges": []}`,
		`{"nodes": [{"id": "a", "type": {"x": [1]}}, {"id": "b"}], "edges": [{"from": "a", "to": "b", "if": "x"}], ` +
			`"title": "\\u0000"}`,
		`{"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}], "edges": [{"from": "a", "to": "b"}, ` +
			`{"from": "a", "to": "c"}, {"from": "b", "to": "d"}, {"from": "c", "to": "d"}, {"from": "c", "to": "d"}]}`,
		long + "]}",
	} {
		f.exec(insertGraph, w.definition, n+2, graph)
	}
	refusal := f.refused(insertGraph, w.definition, 100, long+`, {"from": "4999", "to": "0"}]}`)
	require.Contains(t, refusal.Message, `edges are a cycle: "`)
	require.Less(t, len(refusal.Message), 400, "in time that grows with the graph, not with its paths")
}

// A graph that was stored before they were refused stays, and so may the rest of its row change.
func TestAStoredGraphWithACycleKeepsWorking(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.exec("alter table pgdispatch.workflow_definition_versions disable trigger refuse_graph_cycle")
	f.exec(insertGraph, w.definition, 2, `{"nodes": [{"id": "a"}], "edges": [{"from": "a", "to": "a"}]}`)
	f.exec("alter table pgdispatch.workflow_definition_versions enable trigger refuse_graph_cycle")
	f.exec("update pgdispatch.workflow_definition_versions set version = 3 where version = 2")
	id := f.item(w)
	f.claim(1)
	require.Equal(t, "CLAIMED", f.status(id))
}
