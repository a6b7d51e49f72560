package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

func TestOrderPutsEveryNodeAfterWhatItWaitsFor(t *testing.T) {
	type given struct {
		nodes, edges string // one letter is a node, two are an edge
		want, err    string
	}
	must.Each(t, map[string]given{
		"empty":                      {},
		"no edges":                   {nodes: "ba", want: "ba"},
		"edges in reverse order":     {nodes: "cba", edges: "ab bc", want: "abc"},
		"branch and join":            {nodes: "adbc", edges: "ab ac bd cd", want: "abcd"},
		"the same edge twice":        {nodes: "ab", edges: "ab ab", want: "ab"},
		"cycle":                      {nodes: "abc", edges: "bc cb", err: `nodes ["b" "c"] wait for one another`},
		"edge from a node to itself": {nodes: "a", edges: "aa", err: `nodes ["a"] wait for one another`},
		"unknown node":               {nodes: "a", edges: "az", err: `no node "z"`},
		"node twice":                 {nodes: "aa", err: `node "a" appears twice`},
	}, func(t *testing.T, test given) {
		var g graph
		for _, id := range test.nodes {
			g.Nodes = append(g.Nodes, graphNode{string(id)})
		}
		for edge := range strings.FieldsSeq(test.edges) {
			g.Edges = append(g.Edges, graphEdge{edge[:1], edge[1:]})
		}
		got, err := g.order()
		if test.err != "" {
			require.ErrorContains(t, err, test.err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, test.want, strings.Join(got, ""))
	})
}

// dataDir is the demonstration's data.
const dataDir = "../../../../testdata/demo"

func TestGraphsOfTheDemonstrationCanBeSorted(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join(dataDir, workspacesFile))).In(t)
	found := regexp.MustCompile(`(?s)'(\{\s*"nodes".*?)'\)`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, found, 7)
	for _, match := range found {
		var g graph
		require.NoError(t, json.Unmarshal([]byte(match[1]), &g), match[1])
		_, err := g.order()
		require.NoError(t, err, match[1])
	}
}
