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

// WorkspaceName is a workspace's ID and name. Names are not unique.
type WorkspaceName struct {
	ID   string
	Name string
}

// FindWorkspaces returns the workspaces with this ID or name, at most 10.
func (s *Store) FindWorkspaces(ctx context.Context, idOrName string) ([]WorkspaceName, error) {
	return postgres.Read[WorkspaceName](ctx, s.DB, "find workspace", sql.Text("workspace_find"), idOrName, (*string)(nil),
		10, s.Scope)
}

// CompleteWorkspaces returns up to atMost workspaces whose name starts with beginning.
func (s *Store) CompleteWorkspaces(ctx context.Context, beginning string, atMost int) ([]WorkspaceName, error) {
	return postgres.Read[WorkspaceName](ctx, s.DB, "find workspaces", sql.Text("workspace_find"), (*string)(nil),
		beginning, atMost, s.Scope)
}

// WorkspacesNamed returns up to atMost workspaces that have one of these IDs or names, by name.
func (s *Store) WorkspacesNamed(ctx context.Context, ids, names []string, atMost int) ([]WorkspaceName, error) {
	return postgres.Read[WorkspaceName](ctx, s.DB, "find workspaces", sql.Text("workspace_named"), ids, names, atMost,
		s.Scope)
}

// Workspace is the current state of a workspace.
type Workspace struct {
	ID                     string         `json:"id"`
	Name                   string         `json:"name"`
	Plan                   string         `json:"plan"`
	MaxConcurrentWorkflows *int           `json:"max_concurrent_workflows"` // its own; nil means its plan's
	Limit                  int            `json:"limit"`                    // the one in force
	MaxBurstWorkflows      *int           `json:"max_burst_workflows"`      // its own; nil means its plan's
	Burst                  int            `json:"burst"`                    // the one in force; Limit means none beyond it
	MaxStartsPerSecond     *float64       `json:"max_starts_per_second"`    // nil means no rate limit
	Paused                 bool           `json:"paused"`
	Waiting                int64          `json:"waiting"`
	Claimed                int64          `json:"claimed"`
	Running                int64          `json:"running"`
	Unanswered             int64          `json:"unanswered"`           // they hold slots; see Depth
	OldestUnanswered       *time.Duration `json:"oldest_unanswered_ns"` // nil if there is none
	OldestWaiting          *time.Duration `json:"oldest_waiting_ns"`    // nil if nothing waits
	CreatedAt              time.Time      `json:"created_at"`
}

// Workspaces returns up to atMost workspaces, sorted by name, whose name contains partOfName, ignoring case; empty
// matches all. The list starts after the workspace afterID, or at the first if afterID is empty.
func (s *Store) Workspaces(ctx context.Context, partOfName, afterID string, atMost int) ([]Workspace, error) {
	return postgres.Read[Workspace](ctx, s.DB, "read workspaces", sql.Text("workspace_list"), ([]string)(nil),
		postgres.OrNull(partOfName), postgres.OrNull(afterID), atMost)
}

// Workspace returns a workspace, or false if it does not exist.
func (s *Store) Workspace(ctx context.Context, id string) (Workspace, bool, error) {
	found, err := postgres.Read[Workspace](ctx, s.DB, "read workspace", sql.Text("workspace_list"), []string{id},
		(*string)(nil), (*string)(nil), 1)
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

// Plan is a workspace tier.
type Plan struct {
	Name                   string `json:"plan"`
	MaxConcurrentWorkflows int    `json:"max_concurrent_workflows"`
	MaxBurstWorkflows      *int   `json:"max_burst_workflows"` // nil means none beyond the limit
}

// Plans returns all plans, the one with the lowest limit first.
func (s *Store) Plans(ctx context.Context) ([]Plan, error) {
	return postgres.Read[Plan](ctx, s.DB, "read plans", sql.Text("tier_list"))
}

// WorkspaceChange is a set of changes to a workspace.
type WorkspaceChange struct {
	Plan      string   // empty leaves it unchanged
	Paused    *bool    // nil leaves it unchanged
	SetLimit  bool     // whether to change the limit
	Limit     *int     // with SetLimit; nil means the plan's
	SetStarts bool     // whether to change the rate
	Starts    *float64 // with SetStarts, starts per second; nil means no rate limit
	SetBurst  bool     // whether to change the burst limit
	Burst     *int     // with SetBurst; nil means the plan's
}

// Change maps each changed column to its old and new value.
type Change map[string][2]any

// ChangeWorkspace changes a workspace and returns the columns that changed. The change applies from the next claim on.
func (s *Store) ChangeWorkspace(ctx context.Context, id, who, command string, c WorkspaceChange) (Change, error) {
	details, err := postgres.Value[string](ctx, s.DB, "change workspace", sql.Text("workspace_set"),
		id, who, command, postgres.OrNull(c.Plan), c.Paused, c.SetLimit, c.Limit, c.SetStarts, c.Starts, c.SetBurst, c.Burst,
		s.Scope)
	if err != nil {
		return nil, err
	}
	change := Change{}
	if err := json.Unmarshal([]byte(details), &change); err != nil {
		return nil, fmt.Errorf("change workspace: read what was changed: %w", err)
	}
	return change, nil
}

// Administered is a change made from the command line or from a page: an entry of the audit log.
type Administered struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Who     string          `json:"who"`  // the author, as given
	Role    string          `json:"role"` // the Postgres role that made the change
	Action  string          `json:"action"`
	Subject string          `json:"subject"`
	Details json.RawMessage `json:"details"`
}

// AuditFilter selects changes. The zero value selects all.
type AuditFilter struct {
	Who    string // empty means any
	Action string // beginning of the action; empty means any
	Since  Moment
	Until  Moment
	Before int64 // only changes with a lower ID; zero means any
	// Subject is what was changed, such as "settings" or "workspace " and an ID. Empty means any. Otherwise only the
	// newest 10,000 changes are searched.
	Subject string
}

// changesLooked is the number of newest changes that are searched for a subject.
const changesLooked = 10_000

// Audit returns up to atMost changes made from the command line and from pages, the newest first. In scope are only
// changes of workspaces.
func (s *Store) Audit(ctx context.Context, f AuditFilter, atMost int) ([]Administered, error) {
	var looked *int
	if f.Subject != "" {
		looked = postgres.OrNull(changesLooked)
	}
	return postgres.Read[Administered](ctx, s.DB, "read the log of changes", sql.Text("audit_list"),
		postgres.OrNull(f.Who), postgres.OrNull(f.Action),
		f.Since.At, f.Since.Ago, f.Until.At, f.Until.Ago, postgres.OrNull(f.Before), atMost, postgres.OrNull(f.Subject),
		looked, s.Scope)
}
