package demo

import (
	"fmt"
	"slices"
)

// graph is a version of a workflow definition as stored in workflow_definition_versions.
type graph struct {
	Nodes []graphNode `json:"nodes"`
	Edges []graphEdge `json:"edges"`
}

// graphNode is a step of the graph.
type graphNode struct {
	ID string `json:"id"`
}

// graphEdge means that To waits for From.
type graphEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// nodeIDs returns the nodes in the order of the definition.
func (g graph) nodeIDs() []string {
	ids := make([]string, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

// order sorts the nodes topologically, otherwise in the order of the definition. It is deterministic, as workflow code
// requires.
func (g graph) order() ([]string, error) {
	waitsFor := make(map[string]int, len(g.Nodes))
	for _, n := range g.Nodes {
		if _, twice := waitsFor[n.ID]; twice {
			return nil, fmt.Errorf("sort graph: node %q appears twice", n.ID)
		}
		waitsFor[n.ID] = 0
	}
	next := make(map[string][]string)
	for _, e := range g.Edges {
		for _, end := range []string{e.From, e.To} {
			if _, known := waitsFor[end]; !known {
				return nil, fmt.Errorf("sort graph: edge from %q to %q: no node %q", e.From, e.To, end)
			}
		}
		next[e.From] = append(next[e.From], e.To)
		waitsFor[e.To]++
	}
	sorted := make([]string, 0, len(g.Nodes))
	left := g.nodeIDs()
	for len(left) > 0 {
		ready := slices.IndexFunc(left, func(id string) bool { return waitsFor[id] == 0 })
		if ready < 0 {
			return nil, fmt.Errorf("sort graph: nodes %q wait for one another", left)
		}
		for _, id := range next[left[ready]] {
			waitsFor[id]--
		}
		sorted = append(sorted, left[ready])
		left = slices.Delete(left, ready, ready+1)
	}
	return sorted, nil
}
