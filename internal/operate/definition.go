package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	maxTemporalID = 1000  // bytes of a workflow type, task queue or namespace
	maxNodeIDs    = 65536 // bytes of all node IDs of a graph, as Postgres writes them
	maxTries      = 100
	// minExecution and maxExecution bound a definition's execution timeout.
	minExecution = time.Second
	maxExecution = 3650 * 24 * time.Hour
	// versionTries is how often a version is added again if another one is added at the same moment.
	versionTries = 5
	// definitionsLooked is the number of a workspace's definitions that CompleteDefinitions looks at.
	definitionsLooked = 1000
)

// Definition is a workflow definition of a workspace.
type Definition struct {
	ID               string         `json:"id"`
	Name             string         `json:"name"`
	WorkflowType     string         `json:"workflow_type"`
	Namespace        string         `json:"namespace,omitempty"` // empty means the replicas'
	TaskQueue        string         `json:"task_queue"`
	MaxAttempts      int            `json:"max_attempts"`
	ExecutionTimeout *time.Duration `json:"execution_timeout_ns"` // nil means no timeout
	Version          *int           `json:"version"`              // the newest; nil if none
	Input            temporal.Input `json:"input"`
	LimitKey         string         `json:"limit_key,omitempty"`       // of its items without one; empty means none
	LimitKeyParam    string         `json:"limit_key_param,omitempty"` // or the field of params with it; empty means none
	CreatedAt        time.Time      `json:"created_at"`
}

// Startable reports whether items of the definition can be started: an envelope needs the nodes of a version.
func (d Definition) Startable() bool { return d.Version != nil || d.Input != temporal.Envelope }

// Definitions returns up to atMost workflow definitions of a workspace, sorted by name. If atMost is zero, it returns
// all.
func (s *Store) Definitions(ctx context.Context, workspaceID string, atMost int) ([]Definition, error) {
	return postgres.Read[Definition](ctx, s.DB, "read workflow definitions", sql.Text("definition_list"), workspaceID,
		postgres.OrNull(atMost), s.Scope)
}

// CompleteDefinitions returns the names of up to atMost workflow definitions of a workspace that start with beginning,
// ignoring case, among its first 1,000.
func (s *Store) CompleteDefinitions(ctx context.Context, workspaceID, beginning string, atMost int) ([]string, error) {
	return postgres.Values[string](ctx, s.DB, "find workflow definitions", sql.Text("definition_complete"), workspaceID,
		beginning, definitionsLooked, atMost, s.Scope)
}

// WorkspaceDefinition is a workflow definition in a list of several workspaces'.
type WorkspaceDefinition struct {
	WorkspaceID string `json:"workspace_id"`
	Workspace   string `json:"workspace"`
	Definition
}

// ListDefinitions returns up to atMost workflow definitions, sorted by the workspace's name and their own. Empty
// arguments select all; the list starts after the definition afterID.
func (s *Store) ListDefinitions(ctx context.Context, workspaceID, partOfName, afterID string,
	atMost int) ([]WorkspaceDefinition, error) {
	return postgres.Read[WorkspaceDefinition](ctx, s.DB, "list workflow definitions", sql.Text("definitions"),
		postgres.OrNull(workspaceID), postgres.OrNull(partOfName), postgres.OrNull(afterID), atMost)
}

// NewDefinition is a workflow definition to create.
type NewDefinition struct {
	WorkspaceID      string
	Name             string
	WorkflowType     string
	TaskQueue        string
	Namespace        string         // empty means the replicas'
	MaxAttempts      int            // zero means 3
	ExecutionTimeout *time.Duration // nil means none
	Graph            json.RawMessage
	Input            temporal.Input // empty means an envelope
	LimitKey         string         // of items without one; empty means none
	LimitKeyParam    string         // the field of params with the limit key of items without one; empty means none
}

// Check refuses what the table would refuse, with the flag to correct.
func (d NewDefinition) Check() error {
	if err := CheckName("--name", d.Name); err != nil {
		return err
	}
	for flag, id := range map[string]string{"--type": d.WorkflowType, "--task-queue": d.TaskQueue} {
		if id == "" {
			return fmt.Errorf("%s is missing", flag)
		}
	}
	for flag, id := range map[string]string{"--type": d.WorkflowType, "--task-queue": d.TaskQueue,
		"--namespace": d.Namespace} {
		if len(id) > maxTemporalID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
			return fmt.Errorf("%s is %.80q: it must have 1 to %d bytes and no control characters", flag, id,
				maxTemporalID)
		}
	}
	if d.Input != "" && !d.Input.IsKnown() {
		return fmt.Errorf("--input is %.80q: it must be envelope, params, args or payloads", d.Input)
	}
	for flag, key := range map[string]string{"--limit-key": d.LimitKey, "--limit-key-param": d.LimitKeyParam} {
		if key != "" {
			if err := CheckName(flag, key); err != nil {
				return err
			}
		}
	}
	if d.LimitKey != "" && d.LimitKeyParam != "" {
		return errors.New("--limit-key and --limit-key-param exclude each other: leave one out")
	}
	if d.MaxAttempts < 1 || d.MaxAttempts > maxTries {
		return fmt.Errorf("--max-attempts is %d: it must be a whole number from 1 to %d", d.MaxAttempts, maxTries)
	}
	if d.ExecutionTimeout != nil && (*d.ExecutionTimeout < minExecution || *d.ExecutionTimeout > maxExecution) {
		return fmt.Errorf("--execution-timeout is %s: it must be from 1s to 3650d", *d.ExecutionTimeout)
	}
	return nil
}

// CreateDefinition inserts a workflow definition with its first version, and returns its ID. It needs the owner's role.
func (s *Store) CreateDefinition(ctx context.Context, d NewDefinition, who string) (string, error) {
	made, err := postgres.Values[string](ctx, s.DB, "create workflow definition", sql.Text("definition_create"),
		d.WorkspaceID, d.Name, d.WorkflowType, d.TaskQueue, postgres.OrNull(d.Namespace), postgres.OrNull(d.MaxAttempts),
		d.ExecutionTimeout, string(d.Graph), who, postgres.OrNull(d.Input), postgres.OrNull(d.LimitKey),
		postgres.OrNull(d.LimitKeyParam))
	switch {
	case postgres.HasCode(err, uniqueViolation):
		return "", fmt.Errorf("the workspace has a definition %.80q already: add a version to it, or choose another "+
			"name", d.Name)
	case err == nil && len(made) == 0:
		err = fmt.Errorf("workspace %s was deleted just now", d.WorkspaceID)
	}
	if err != nil {
		return "", err
	}
	return made[0], nil
}

// AddVersion adds a version of a workflow definition, and returns its number. It needs the owner's role.
func (s *Store) AddVersion(ctx context.Context, definitionID string, graph json.RawMessage, who string) (int, error) {
	for try := 1; ; try++ {
		made, err := postgres.Values[int](ctx, s.DB, "add version", sql.Text("definition_version"), definitionID,
			string(graph), who)
		if postgres.HasCode(err, uniqueViolation) && try < versionTries {
			continue
		}
		if err == nil && len(made) == 0 {
			err = fmt.Errorf("workflow definition %s was deleted just now", definitionID)
		}
		if err != nil {
			return 0, err
		}
		return made[0], nil
	}
}

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

// refuseCycle returns an error that names the nodes of a cycle, if there is one: none of them could be the first to run.
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
