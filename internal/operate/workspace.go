package operate

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// NamesSearched is the number of names that ListWorkspaces searches for a part, and WorkspacesFound the number of
	// workspaces that it finds.
	NamesSearched   = 20_000
	WorkspacesFound = 1000
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
	Waiting                int64          `json:"waiting"`       // due
	WaitingExact           bool           `json:"waiting_exact"` // otherwise there may be more
	Scheduled              int64          `json:"scheduled"`     // not due yet
	ScheduledExact         bool           `json:"scheduled_exact"`
	Claimed                int64          `json:"claimed"`
	Running                int64          `json:"running"`
	Unanswered             int64          `json:"unanswered"`           // they hold slots; see Depth
	OldestUnanswered       *time.Duration `json:"oldest_unanswered_ns"` // nil if there is none
	Uncertain              int64          `json:"uncertain"`            // they hold slots; see Depth
	OldestUncertain        *time.Duration `json:"oldest_uncertain_ns"`  // nil if there is none
	OldestWaiting          *time.Duration `json:"oldest_waiting_ns"`    // time since it became due; nil if nothing waits
	CreatedAt              time.Time      `json:"created_at"`
}

// Active returns the number of items that hold slots of the workspace: claimed, running, unanswered or uncertain.
func (w Workspace) Active() int64 { return w.Claimed + w.Running + w.Unanswered + w.Uncertain }

// Full reports whether the items that hold slots leave the workspace no room.
func (w Workspace) Full() bool { return w.Active() >= int64(max(w.Limit, w.Burst)) }

// Workspaces returns up to atMost workspaces, sorted by name, whose name contains partOfName, ignoring case; empty
// matches all. The list starts after the workspace afterID, or at the first if afterID is empty.
func (s *Store) Workspaces(ctx context.Context, partOfName, afterID string, atMost int) ([]Workspace, error) {
	return postgres.Read[Workspace](ctx, s.DB, "read workspaces", sql.Text("workspace_list"), ([]string)(nil),
		postgres.OrNull(partOfName), postgres.OrNull(afterID), atMost)
}

// Workspace returns a workspace, or false if it does not exist.
func (s *Store) Workspace(ctx context.Context, id string) (Workspace, bool, error) {
	w, err := postgres.Row[Workspace](ctx, s.DB, "read workspace", sql.Text("workspace_list"), []string{id},
		(*string)(nil), (*string)(nil), 1)
	return w, w.ID != "", err
}

// WorkspaceDetail is a workspace with its recent failures. Waiting, Scheduled and Running count up to CountLimit.
type WorkspaceDetail struct {
	Workspace
	Failures int64 `json:"failures"` // in a day, among the newest 10,000 of all workspaces
}

// WorkspaceDetail returns a workspace, or false if it does not exist. Its cost does not grow with the number of items.
func (s *Store) WorkspaceDetail(ctx context.Context, id string) (WorkspaceDetail, bool, error) {
	w, err := postgres.Row[WorkspaceDetail](ctx, s.DB, "read workspace", sql.Text("view_workspace"), id, CountLimit,
		depthLimit, s.Scope)
	return w, w.ID != "", err
}

// WorkspaceOrder is the sort order of a list of workspaces: the highest value first, or by name.
type WorkspaceOrder string

// The orders.
const (
	ByName     WorkspaceOrder = "name"
	ByRunning  WorkspaceOrder = "running"
	ByOldest   WorkspaceOrder = "oldest" // by the item that has been due longest
	ByFailures WorkspaceOrder = "failures"
)

// WorkspaceRow is a workspace in a list.
type WorkspaceRow struct {
	ID      string `json:"workspace_id"`
	Name    string `json:"name"`
	Plan    string `json:"plan"`
	Limit   int    `json:"max_concurrent_workflows"` // the one in force
	Burst   int    `json:"burst"`                    // the one in force; Limit means none beyond it
	Paused  bool   `json:"paused"`
	Waiting int64  `json:"waiting"` // due; up to CountLimit
	// WaitingExact and ScheduledExact are false if there may be more.
	WaitingExact   bool  `json:"waiting_exact"`
	Scheduled      int64 `json:"scheduled"` // not due yet; up to CountLimit
	ScheduledExact bool  `json:"scheduled_exact"`
	Claimed        int64 `json:"claimed"`
	Running        int64 `json:"running"` // CountLimit means that many or more
	// Unanswered, Uncertain and their ages are as in Depth. Those with the oldest are listed ByOldest, too.
	Unanswered       int64          `json:"unanswered"`
	OldestUnanswered *time.Duration `json:"oldest_unanswered_ns"`
	Uncertain        int64          `json:"uncertain"`
	OldestUncertain  *time.Duration `json:"oldest_uncertain_ns"`
	OldestWaiting    *time.Duration `json:"oldest_waiting_ns"` // time since it became due; nil if nothing is due
	Failures         int64          `json:"failures"`          // in a day, among the newest 10,000 of all workspaces
	Rank             float64        `json:"-"`
}

// Active returns the number of items that hold slots of the workspace: claimed, running, unanswered or uncertain.
func (w WorkspaceRow) Active() int64 { return w.Claimed + w.Running + w.Unanswered + w.Uncertain }

// Full reports whether the items that hold slots leave the workspace no room.
func (w WorkspaceRow) Full() bool { return w.Active() >= int64(max(w.Limit, w.Burst)) }

// WorkspaceKey is the position of the last workspace of a page, after which the next page starts.
type WorkspaceKey struct {
	Rank     float64
	Name, ID string
}

// Key returns the key to list the workspaces after w.
func (w WorkspaceRow) Key() WorkspaceKey { return WorkspaceKey{w.Rank, w.Name, w.ID} }

// ListWorkspaces returns up to atMost workspaces. A search finds up to WorkspacesFound of them: by ID, by the beginning
// of the name, and by any part of the first NamesSearched names, ignoring case; an empty one matches all. The list
// starts after the given key, or at the first workspace if after is nil. Of workspaces in scope it looks at each.
func (s *Store) ListWorkspaces(ctx context.Context, search string, by WorkspaceOrder, after *WorkspaceKey,
	atMost int) ([]WorkspaceRow, error) {
	among := s.Scope
	if among == nil && search != "" {
		found, err := postgres.Values[string](ctx, s.DB, "search workspaces", sql.Text("workspace_search"), search,
			NamesSearched, WorkspacesFound)
		if err != nil {
			return nil, err
		}
		among, search = append([]string{}, found...), ""
	}
	var rank *float64
	var name, id *string
	if after != nil {
		rank, name, id = &after.Rank, &after.Name, &after.ID
	}
	if among != nil {
		return postgres.Read[WorkspaceRow](ctx, s.DB, "list workspaces", sql.Text("view_workspaces_of"), among,
			postgres.OrNull(search), string(by), rank, name, id, atMost, CountLimit, depthLimit)
	}
	return postgres.Read[WorkspaceRow](ctx, s.DB, "list workspaces", sql.Text("view_workspaces"),
		string(by), rank, name, id, atMost, CountLimit, depthLimit)
}

// WorkspacesOf returns those of the workspaces that are in scope.
func (s *Store) WorkspacesOf(ctx context.Context, ids []string) ([]WorkspaceRow, error) {
	return s.Within(ids).ListWorkspaces(ctx, "", ByName, nil, len(ids))
}

// WorkspaceStatistics is the current state of a workspace.
type WorkspaceStatistics struct {
	WorkspaceID            string         `json:"workspace_id"`
	Name                   string         `json:"name"`
	Plan                   string         `json:"plan"`
	Paused                 bool           `json:"paused"`
	MaxConcurrentWorkflows int            `json:"max_concurrent_workflows"`
	Waiting                int64          `json:"waiting"`   // due
	Scheduled              int64          `json:"scheduled"` // not due yet
	Claimed                int64          `json:"claimed"`
	Running                int64          `json:"running"`
	Unanswered             int64          `json:"unanswered"`        // with the uncertain; they hold slots
	OldestWaiting          *time.Duration `json:"oldest_waiting_ns"` // time since it became due; nil if nothing waits
}

// WorkspaceStatistics returns up to atMost workspaces, those with the most items first.
func (s *Store) WorkspaceStatistics(ctx context.Context, atMost int) ([]WorkspaceStatistics, error) {
	return postgres.Read[WorkspaceStatistics](ctx, s.DB, "read workspace statistics", sql.Text("workspace_statistics"),
		atMost)
}
