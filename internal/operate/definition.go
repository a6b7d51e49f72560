package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// versionTries is how often a version is added again if another one is added at the same moment.
	versionTries = 5
	// definitionsLooked is the number of a workspace's definitions that CompleteDefinitions looks at.
	definitionsLooked = 1000
)

// EmptyGraph is that of a definition whose workflow needs none.
var EmptyGraph = json.RawMessage(`{"nodes": []}`)

// Definition is a workflow definition of a workspace.
type Definition struct {
	ID               string         `json:"id"`
	Name             string         `json:"name"`
	Kind             temporal.Kind  `json:"kind"`
	WorkflowType     string         `json:"workflow_type"`       // or the activity's type
	Namespace        string         `json:"namespace,omitempty"` // empty means the replicas'
	TaskQueue        string         `json:"task_queue"`
	MaxAttempts      int            `json:"max_attempts"`
	ExecutionTimeout *time.Duration `json:"execution_timeout_ns"` // nil means no timeout
	Version          *int           `json:"version"`              // the newest; nil if none
	Input            temporal.Input `json:"input"`
	LimitKey         string         `json:"limit_key,omitempty"`       // of its items without one; empty means none
	LimitKeyParam    string         `json:"limit_key_param,omitempty"` // or the field of params with it; empty means none
	// WorkflowIDPolicy is what happens if Temporal has another run under the workflow ID that an item names.
	WorkflowIDPolicy temporal.Policy `json:"workflow_id_policy"`
	CreatedAt        time.Time       `json:"created_at"`
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
	Kind             temporal.Kind // empty means a workflow
	WorkflowType     string
	TaskQueue        string
	Namespace        string         // empty means the replicas'
	MaxAttempts      int            // zero means 3
	ExecutionTimeout *time.Duration // nil means none
	Graph            json.RawMessage
	Input            temporal.Input  // empty means an envelope
	LimitKey         string          // of items without one; empty means none
	LimitKeyParam    string          // the field of params with the limit key of items without one; empty means none
	WorkflowIDPolicy temporal.Policy // empty means Reject
}

// CreateDefinition inserts a workflow definition with its first version, and returns its ID. It needs the owner's role.
func (s *Store) CreateDefinition(ctx context.Context, d NewDefinition, who string) (string, error) {
	made, err := postgres.Values[string](ctx, s.DB, "create workflow definition", sql.Text("definition_create"),
		d.WorkspaceID, d.Name, d.WorkflowType, d.TaskQueue, postgres.OrNull(d.Namespace), postgres.OrNull(d.MaxAttempts),
		d.ExecutionTimeout, string(d.Graph), who, postgres.OrNull(d.Input), postgres.OrNull(d.LimitKey),
		postgres.OrNull(d.LimitKeyParam), postgres.OrNull(d.WorkflowIDPolicy), postgres.OrNull(d.Kind))
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
