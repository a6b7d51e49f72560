package operate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// EmptyGraph is that of a definition whose workflow needs none.
var EmptyGraph = json.RawMessage(`{"nodes": []}`)

// CheckGraph refuses text that is no graph of a workflow definition: a JSON object with nodes, each with an id, and
// edges between them without a cycle. The error names the field to correct.
func CheckGraph(text []byte) error {
	if err := CheckJSON(text); err != nil {
		return err
	}
	var graph map[string]json.RawMessage
	if kind(text) != "an object" || json.Unmarshal(text, &graph) != nil {
		return fmt.Errorf("the graph is %s: it must be an object such as %s", kind(text),
			`{"nodes": [{"id": "a"}], "edges": []}`)
	}
	nodes, err := elements(graph, "nodes")
	if err != nil {
		return err
	}
	if graph["nodes"] == nil {
		return errors.New(`nodes is missing: it must be an array, such as [{"id": "a"}]`)
	}
	ids, err := nodeIDs(nodes)
	if err != nil {
		return err
	}
	edges, err := elements(graph, "edges")
	if err != nil {
		return err
	}
	followers, err := readEdges(edges, ids)
	if err != nil {
		return err
	}
	return refuseCycle(ids, followers)
}

// CheckJSON refuses text that is no JSON value, or one that Postgres does not take.
func CheckJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if word, is := token.(string); is && strings.ContainsRune(word, 0) {
			return fmt.Errorf("line %d: the text %.40q has the character \\u0000, which Postgres does not take",
				lineOf(text, decoder.InputOffset()), word)
		}
		if err != nil {
			break // Unmarshal says where
		}
	}
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: it is not JSON: %w", lineOf(text, syntax.Offset), err)
	case err != nil:
		return fmt.Errorf("it is not JSON: %w", err)
	}
	return nil
}

func lineOf(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}

// elements returns the elements of an array of an object. The array may be missing.
func elements(of map[string]json.RawMessage, field string) ([]json.RawMessage, error) {
	if of[field] == nil {
		return nil, nil
	}
	var array []json.RawMessage
	if kind(of[field]) != "an array" || json.Unmarshal(of[field], &array) != nil {
		return nil, fmt.Errorf("%s is %s: it must be an array", field, kind(of[field]))
	}
	return array, nil
}

func nodeIDs(nodes []json.RawMessage) ([]string, error) {
	ids, size, first := make([]string, len(nodes)), 2, map[string]int{}
	for n, node := range nodes {
		var err error
		if ids[n], err = textField(node, fmt.Sprintf("nodes[%d]", n), "id"); err != nil {
			return nil, err
		}
		if ids[n] == "" {
			return nil, fmt.Errorf("nodes[%d].id is empty", n)
		}
		if other, twice := first[ids[n]]; twice {
			return nil, fmt.Errorf("nodes[%d].id is %.80q, which nodes[%d] has already", n, ids[n], other)
		}
		first[ids[n]] = n
		size += len(ids[n]) + 4
	}
	if size > maxNodeIDs {
		return nil, fmt.Errorf("nodes: their ids have more than %d bytes together", maxNodeIDs)
	}
	return ids, nil
}

// readEdges returns the nodes to which edges lead from each node.
func readEdges(edges []json.RawMessage, ids []string) (map[string][]string, error) {
	known, followers := map[string]bool{}, map[string][]string{}
	for _, id := range ids {
		known[id] = true
	}
	for n, edge := range edges {
		ends := map[string]string{}
		for _, field := range []string{"from", "to"} {
			place := fmt.Sprintf("edges[%d]", n)
			id, err := textField(edge, place, field)
			if err != nil {
				return nil, err
			}
			if !known[id] {
				return nil, fmt.Errorf("%s.%s is %.80q: no node has this id", place, field, id)
			}
			ends[field] = id
		}
		followers[ends["from"]] = append(followers[ends["from"]], ends["to"])
	}
	return followers, nil
}

// refuseCycle returns an error that names the nodes of a cycle, if there is one: none of them could be first to run.
func refuseCycle(ids []string, followers map[string][]string) error {
	const walking, done = 1, 2
	state, path := map[string]int{}, []string{}
	var walk func(id string) error
	walk = func(id string) error {
		switch state[id] {
		case done:
			return nil
		case walking:
			cycle := append(slices.Clone(path[slices.Index(path, id):]), id)
			return fmt.Errorf("edges: %.200q is a cycle", strings.Join(cycle, " -> "))
		}
		state[id], path = walking, append(path, id)
		for _, next := range followers[id] {
			if err := walk(next); err != nil {
				return err
			}
		}
		state[id], path = done, path[:len(path)-1]
		return nil
	}
	for _, id := range ids {
		if err := walk(id); err != nil {
			return err
		}
	}
	return nil
}

// textField returns a field of an object that must be a string.
func textField(object json.RawMessage, place, field string) (string, error) {
	var fields map[string]json.RawMessage
	if kind(object) != "an object" || json.Unmarshal(object, &fields) != nil {
		return "", fmt.Errorf("%s is %s: it must be an object", place, kind(object))
	}
	value, there := fields[field]
	if !there {
		return "", fmt.Errorf("%s.%s is missing: it must be a string", place, field)
	}
	var text string
	if kind(value) != "a string" || json.Unmarshal(value, &text) != nil {
		return "", fmt.Errorf("%s.%s is %s: it must be a string", place, field, kind(value))
	}
	return text, nil
}

// kind returns what a JSON value is, for errors.
func kind(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}
