package sql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const insertGraph = "insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph) " +
	"values ($1, $2, $3)"

func TestAGraphThatIsWrongIsRefusedByField(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
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
		refusal := f.refused(insertGraph, w.definition, 2, graph)
		require.Equal(t, "23514", refusal.Code, "%.100s", graph)
		require.Contains(t, refusal.Message, "graph of workflow_definition_versions: "+want, "%.100s", graph)
		require.Equal(t, "graph", refusal.ColumnName)
		require.NotEmpty(t, refusal.Hint)
	}
	refusal := f.refused("update pgdispatch.workflow_definition_versions set graph = $1", a+`{"from": "c", "to": "c"}]}`)
	require.Contains(t, refusal.Message, `edges are a cycle: "c -> c"`)
	require.Contains(t, refusal.Hint, "Remove one of these edges")
}

func TestAGraphWithoutCyclesIsAccepted(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
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
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.exec("alter table pgdispatch.workflow_definition_versions disable trigger refuse_graph_cycle")
	f.exec(insertGraph, w.definition, 2, `{"nodes": [{"id": "a"}], "edges": [{"from": "a", "to": "a"}]}`)
	f.exec("alter table pgdispatch.workflow_definition_versions enable trigger refuse_graph_cycle")
	f.exec("update pgdispatch.workflow_definition_versions set version = 3 where version = 2")
	id := f.item(w)
	f.claim(1)
	require.Equal(t, "CLAIMED", f.status(id))
}
