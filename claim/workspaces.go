package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// WorkspaceName is a workspace's ID and name. A name may be that of several.
type WorkspaceName struct {
	ID   string
	Name string
}

// FindWorkspaces returns the workspaces whose ID or name this is.
func (s *Store) FindWorkspaces(ctx context.Context, idOrName string) ([]WorkspaceName, error) {
	return read[WorkspaceName](ctx, s.Pool, "find workspace", sql.WorkspaceFind, idOrName, (*string)(nil), 10)
}

// CompleteWorkspaces returns workspaces whose name begins so, at most so many.
func (s *Store) CompleteWorkspaces(ctx context.Context, beginning string, atMost int) ([]WorkspaceName, error) {
	return read[WorkspaceName](ctx, s.Pool, "find workspaces", sql.WorkspaceFind, (*string)(nil), beginning, atMost)
}

// Workspace is one as it is now.
type Workspace struct {
	ID                     string         `json:"id"`
	Name                   string         `json:"name"`
	Plan                   string         `json:"plan"`
	MaxConcurrentWorkflows *int           `json:"max_concurrent_workflows"` // its own; nil: its plan's
	Limit                  int            `json:"limit"`                    // the one in force
	MaxStartsPerSecond     *float64       `json:"max_starts_per_second"`    // nil: as many as can be
	Paused                 bool           `json:"paused"`
	Waiting                int64          `json:"waiting"`
	Claimed                int64          `json:"claimed"`
	Running                int64          `json:"running"`
	OldestWaiting          *time.Duration `json:"oldest_waiting_ns"` // nil: nothing waits
	CreatedAt              time.Time      `json:"created_at"`
}

// Workspaces reads workspaces in the order of their names: those with a part of the name, "" for all, after the one with
// this ID, "" for the first; at most so many.
func (s *Store) Workspaces(ctx context.Context, partOfName, afterID string, atMost int) ([]Workspace, error) {
	return read[Workspace](ctx, s.Pool, "read workspaces", sql.WorkspaceList, ([]string)(nil), optional(partOfName), optional(afterID), atMost)
}

// Workspace reads one; false: it is not there.
func (s *Store) Workspace(ctx context.Context, id string) (Workspace, bool, error) {
	found, err := read[Workspace](ctx, s.Pool, "read workspace", sql.WorkspaceList, []string{id}, (*string)(nil), (*string)(nil), 1)
	if err != nil || len(found) == 0 {
		return Workspace{}, false, err
	}
	return found[0], true, nil
}

// Definition is a workflow definition of a workspace.
type Definition struct {
	ID               string         `json:"id"`
	Name             string         `json:"name"`
	WorkflowType     string         `json:"workflow_type"`
	Namespace        string         `json:"namespace,omitempty"` // "": the replicas'
	TaskQueue        string         `json:"task_queue"`
	MaxAttempts      int            `json:"max_attempts"`
	ExecutionTimeout *time.Duration `json:"execution_timeout_ns"` // nil: none
	Version          *int           `json:"version"`              // the newest; nil: it has none, and cannot be started
	CreatedAt        time.Time      `json:"created_at"`
}

// Definitions reads a workspace's workflow definitions by name.
func (s *Store) Definitions(ctx context.Context, workspaceID string) ([]Definition, error) {
	return read[Definition](ctx, s.Pool, "read workflow definitions", sql.DefinitionList, workspaceID)
}

// FindDefinitions returns the IDs of workflow definitions whose ID or name this is, of these workspaces, nil for all; at most so many.
func (s *Store) FindDefinitions(ctx context.Context, idOrName string, workspaces []string, atMost int) ([]string, error) {
	return rows(ctx, s.async(), settleTimeout, "find workflow definitions", pgx.RowTo[string], sql.DefinitionFind, idOrName, workspaces, atMost)
}

// Plan is a tier that a workspace can be on.
type Plan struct {
	Name                   string `json:"plan"`
	MaxConcurrentWorkflows int    `json:"max_concurrent_workflows"`
}

// Plans reads the plans there are, the smallest first.
func (s *Store) Plans(ctx context.Context) ([]Plan, error) {
	return read[Plan](ctx, s.Pool, "read plans", sql.TierList)
}

// WorkspaceChange is what to change of a workspace.
type WorkspaceChange struct {
	Plan      string // "": leave it
	Paused    *bool  // nil: leave it
	SetLimit  bool
	Limit     *int // of SetLimit; nil: the plan's
	SetStarts bool
	Starts    *float64 // of SetStarts, a second; nil: as many as can be
}

// Change is what was changed: of each column, what it was and what it is.
type Change map[string][2]any

// ChangeWorkspace changes a workspace, and returns what is otherwise than before. It holds from the next claim on.
func (s *Store) ChangeWorkspace(ctx context.Context, id, who, command string, c WorkspaceChange) (Change, error) {
	details, err := one[string](ctx, s.Pool, settleTimeout, "change workspace", sql.WorkspaceSet,
		id, who, command, optional(c.Plan), c.Paused, c.SetLimit, c.Limit, c.SetStarts, c.Starts)
	if err != nil {
		return nil, err
	}
	change := Change{}
	if err := json.Unmarshal([]byte(details), &change); err != nil {
		return nil, fmt.Errorf("change workspace: read what was changed: %w", err)
	}
	return change, nil
}

// Administered is one change that somebody made from the command line or from a page.
type Administered struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Who     string          `json:"who"`  // who says to have done it
	Role    string          `json:"role"` // the role of Postgres that did
	Action  string          `json:"action"`
	Subject string          `json:"subject"`
	Details json.RawMessage `json:"details"`
}

// AuditFilter says which changes are meant. Its zero value means all.
type AuditFilter struct {
	Who    string // "": anybody
	Action string // how it begins; "": any
	Since  Moment
	Until  Moment
	Before int64 // only changes with a lower ID; 0: any
	// Subject is what was changed, such as "settings" or "workspace " and an ID; "": anything. Only the newest 10,000 changes
	// are looked at for it.
	Subject string
}

// changesLooked is how many changes are looked at for those of one subject.
const changesLooked = 10_000

// Audit reads what was changed from the command line and from pages, the newest first; at most so many.
func (s *Store) Audit(ctx context.Context, f AuditFilter, atMost int) ([]Administered, error) {
	var looked *int
	if f.Subject != "" {
		looked = optional(changesLooked)
	}
	return read[Administered](ctx, s.Pool, "read the log of changes", sql.AuditList, optional(f.Who), optional(f.Action),
		f.Since.At, f.Since.Ago, f.Until.At, f.Until.Ago, optional(f.Before), atMost, optional(f.Subject), looked)
}
