package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrderPutsEveryNodeAfterWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		graph string
		want  []string
		err   string
	}{
		"empty":               {graph: `{"nodes": []}`, want: []string{}},
		"no edges":            {graph: `{"nodes": [{"id": "b"}, {"id": "a"}]}`, want: []string{"b", "a"}},
		"written backwards":   {graph: `{"nodes": [{"id": "c"}, {"id": "b"}, {"id": "a"}], "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]}`, want: []string{"a", "b", "c"}},
		"branch and join":     {graph: `{"nodes": [{"id": "a"}, {"id": "d"}, {"id": "b"}, {"id": "c"}], "edges": [{"from": "a", "to": "b"}, {"from": "a", "to": "c"}, {"from": "b", "to": "d"}, {"from": "c", "to": "d"}]}`, want: []string{"a", "b", "c", "d"}},
		"the same edge twice": {graph: `{"nodes": [{"id": "b"}, {"id": "a"}], "edges": [{"from": "a", "to": "b"}, {"from": "a", "to": "b"}]}`, want: []string{"a", "b"}},
		"cycle":               {graph: `{"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}], "edges": [{"from": "b", "to": "c"}, {"from": "c", "to": "b"}]}`, err: `nodes ["b" "c"] wait for one another`},
		"a node and itself":   {graph: `{"nodes": [{"id": "a"}], "edges": [{"from": "a", "to": "a"}]}`, err: `nodes ["a"] wait for one another`},
		"unknown node":        {graph: `{"nodes": [{"id": "a"}], "edges": [{"from": "a", "to": "z"}]}`, err: `no node "z"`},
		"node twice":          {graph: `{"nodes": [{"id": "a"}, {"id": "a"}]}`, err: `node "a" appears twice`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g graph
			require.NoError(t, json.Unmarshal([]byte(test.graph), &g))
			got, err := g.order()
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// dataDir is the demonstration's data.
const dataDir = "../../../../testdata/demo"

func TestGraphsOfTheDemonstrationCanBeSorted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(dataDir, workspacesFile))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?s)'(\{\s*"nodes".*?)'\)`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, found, 7)
	for _, match := range found {
		var g graph
		require.NoError(t, json.Unmarshal([]byte(match[1]), &g), match[1])
		_, err := g.order()
		require.NoError(t, err, match[1])
	}
}
