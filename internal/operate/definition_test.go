package operate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
)

func TestAGraphThatIsWrongIsRefusedByField(t *testing.T) {
	t.Parallel()
	many := []string{}
	for n := range 7000 {
		many = append(many, fmt.Sprintf(`{"id": "node-%d"}`, n))
	}
	for graph, want := range map[string]string{
		``:                                    `it is not JSON`,
		"{\n\"nodes\": [}":                    `line 2: it is not JSON`,
		`{"nodes": []} {}`:                    `it is not JSON`,
		`[]`:                                  `the graph is an array: it must be an object`,
		`null`:                                `the graph is null`,
		`{}`:                                  `nodes is missing`,
		`{"nodes": {}}`:                       `nodes is an object: it must be an array`,
		`{"nodes": null}`:                     `nodes is null`,
		`{"nodes": ["a"]}`:                    `nodes[0] is a string: it must be an object`,
		`{"nodes": [[]]}`:                     `nodes[0] is an array`,
		`{"nodes": [{}]}`:                     `nodes[0].id is missing`,
		`{"nodes": [{"id":7}]}`:               `nodes[0].id is a number: it must be a string`,
		`{"nodes": [{"id":"a"}, {"id":"a"}]}`: `nodes[1].id is "a", which nodes[0] has already`,
		`{"nodes": [{"id":""}]}`:              `nodes[0].id is empty`,
		`{"nodes": [], "edges": {}}`:          `edges is an object`,
		`{"nodes": [{"id":"a"}], "edges": [{"from":"a","to":"a"}]}`: `edges: "a -> a" is a cycle`,
		`{"nodes": [{"id":"a"}, {"id":"b"}, {"id":"c"}], "edges": [{"from":"a","to":"b"}, {"from":"b","to":"c"}, ` +
			`{"from":"c","to":"b"}]}`: `edges: "b -> c -> b" is a cycle`,
		`{"nodes": [{"id":"a"}], "edges": [{"from":"a"}]}`:            `edges[0].to is missing`,
		`{"nodes": [{"id":"a"}], "edges": [{"from":"a","to":"b"}]}`:   `edges[0].to is "b": no node has this id`,
		`{"nodes": [{"id":"a"}], "edges": [{"from":["a"],"to":"b"}]}`: `edges[0].from is an array`,
		"{\"nodes\": [\n{\"id\":\"a\\u0000\"}]}":                      `line 2: the text "a\x00" has the character \u0000`,
		`{"nodes": [` + strings.Join(many,
			",") + `]}`: `nodes: their ids have more than 65536 bytes`,
		`{"nodes": [{"id":"a"}], "edges": [{"from":"a","to":"a"}, "a->a"]}`: `edges[1] is a string`,
	} {
		require.ErrorContains(t, operate.CheckGraph([]byte(graph)), want, "%.100s", graph)
	}
}

// Every input accepted here is accepted by the table too.
func TestAGraphThatIsAcceptedCanBeStored(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	workspace, err := b.CreateWorkspace(t.Context(), operate.NewWorkspace{Name: "graphs"}, "me")
	require.NoError(t, err)
	for n, graph := range []string{
		string(operate.EmptyGraph), ` {"nodes": [{"id": " "}]} `, `{"nodes": [], "edges": []}`,
		`{"nodes": [{"id": "a", "type": {"x": [1]}}, {"id": "b"}], "edges": [{"from": "a", "to": "b", "if": "x"}], ` +
			`"title": "\\u0000"}`,
		`{"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}], "edges": [{"from": "a", "to": "b"}, ` +
			`{"from": "a", "to": "c"}, {"from": "b", "to": "d"}, {"from": "c", "to": "d"}]}`,
	} {
		require.NoError(t, operate.CheckGraph([]byte(graph)))
		_, err := b.CreateDefinition(t.Context(), operate.NewDefinition{
			WorkspaceID: workspace.ID, Name: fmt.Sprint(n), WorkflowType: "T", TaskQueue: "q", MaxAttempts: 1,
			Graph: []byte(graph)}, "me")
		require.NoError(t, err, graph)
	}
}
