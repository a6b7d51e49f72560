package operate

import (
	"context"
	"math"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// countLimit is the number of items up to which a list counts a status of a workspace, and itemsLooked the number of
	// items that a list looks at for one page. The results show where a limit was reached.
	countLimit  = 1000
	itemsLooked = 10_000
	// FailuresLooked is the number of newest failures that DeadGroups groups.
	FailuresLooked = 2_000
	// errorsLooked is the number of newest failures whose errors CompleteErrors looks at.
	errorsLooked = 500
	// definitionsLooked is the number of a workspace's definitions that CompleteDefinitions looks at.
	definitionsLooked = 1000
	// NamesSearched is the number of names that ListWorkspaces searches for a part, and WorkspacesFound the number of
	// workspaces that it finds.
	NamesSearched   = 20_000
	WorkspacesFound = 1000
	// CountLimit is the number of items up to which WorkspaceRow and WorkspaceDetail count exactly.
	CountLimit = countLimit
)

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
	Waiting int64  `json:"waiting"` // due or not; CountLimit means that many or more
	Claimed int64  `json:"claimed"`
	Running int64  `json:"running"` // CountLimit means that many or more
	// Unanswered and OldestUnanswered are as in Depth. Those with the oldest are listed ByOldest, too.
	Unanswered       int64          `json:"unanswered"`
	OldestUnanswered *time.Duration `json:"oldest_unanswered_ns"`
	OldestWaiting    *time.Duration `json:"oldest_waiting_ns"` // time since it became due; nil if nothing is due
	Failures         int64          `json:"failures"`          // in a day, among the newest 10,000 of all workspaces
	Rank             float64        `json:"-"`
}

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
			postgres.OrNull(search), string(by), rank, name, id, atMost, countLimit, depthLimit)
	}
	return postgres.Read[WorkspaceRow](ctx, s.DB, "list workspaces", sql.Text("view_workspaces"),
		string(by), rank, name, id, atMost, countLimit, depthLimit)
}

// WorkspaceDetail is a workspace with its recent failures. Waiting and Running count up to CountLimit, and
// OldestWaiting is the time since the item became due.
type WorkspaceDetail struct {
	Workspace
	Failures int64 `json:"failures"` // in a day, among the newest 10,000 of all workspaces
}

// WorkspaceDetail returns a workspace, or false if it does not exist. Its cost does not grow with the number of items.
func (s *Store) WorkspaceDetail(ctx context.Context, id string) (WorkspaceDetail, bool, error) {
	found, err := postgres.Read[WorkspaceDetail](ctx, s.DB, "read workspace", sql.Text("view_workspace"), id, countLimit,
		depthLimit, s.Scope)
	if err != nil || len(found) == 0 {
		return WorkspaceDetail{}, false, err
	}
	return found[0], true, nil
}

// ItemPage is a page of items, the newest first.
type ItemPage struct {
	Items []Item
	// Next is the ItemFilter.Before of the next page. Zero if there is none.
	Next int64
	// Looked is the number of items that were looked at. Bounded reports whether there may be more that were not.
	Looked  int64
	Bounded bool
}

// ListItems returns a page of up to atMost items. A definition's ID or name selects those of definitions that have it.
// It looks at a bounded number of items, by the index with the fewest candidates. If few of them match, the page may be
// short although Next is set.
func (s *Store) ListItems(ctx context.Context, f ItemFilter, status string, workspaces []string,
	definition string, atMost int) (ItemPage, error) {
	before := f.Before
	if before == 0 {
		before = math.MaxInt64
	}
	type found struct {
		ID     *int64
		Looked int64
		Lowest *int64
	}
	rows, err := postgres.Read[found](ctx, s.DB, "list items", sql.Text("view_items"),
		postgres.OrNull(status), s.scoped(workspaces), postgres.OrNull(definition), postgres.OrNull(f.Error),
		f.Since.At, f.Since.Ago, f.Until.At, f.Until.Ago, before, atMost, itemsLooked)
	if err != nil || len(rows) == 0 {
		return ItemPage{}, err
	}
	page := ItemPage{Looked: rows[0].Looked, Bounded: rows[0].Looked >= itemsLooked}
	ids := []int64{}
	for _, row := range rows {
		if row.ID != nil {
			ids = append(ids, *row.ID)
		}
	}
	byID := status == "" || status == "COMPLETED" || status == "CANCELLED"
	switch {
	case len(ids) == atMost:
		page.Next = ids[atMost-1]
	case byID && page.Bounded:
		page.Next = *rows[0].Lowest // no more matches among these; older items were not looked at
	}
	page.Items, err = s.Items(ctx, ids, nil, false)
	return page, err
}

// DeadGroup is a group of open dead letters whose errors differ only in IDs and numbers.
type DeadGroup struct {
	Kind       string    `json:"kind"`
	Items      int64     `json:"items"`
	Workspaces int64     `json:"workspaces"`
	FirstAt    time.Time `json:"first_at"`
	LastAt     time.Time `json:"last_at"`
	Newest     int64     `json:"newest"`  // the ID of the newest item
	Example    string    `json:"example"` // its error
}

// DeadGroups groups the open dead letters among the newest 2,000 failures. It returns up to atMost groups, the largest
// first.
func (s *Store) DeadGroups(ctx context.Context, atMost int) ([]DeadGroup, error) {
	return postgres.Read[DeadGroup](ctx, s.DB, "group dead letters", sql.Text("view_dead_groups"), FailuresLooked, atMost,
		s.Scope)
}

// CompleteErrors returns up to atMost texts that contain part, ignoring case, and that errors of recent failures have
// in common. The most frequent comes first.
func (s *Store) CompleteErrors(ctx context.Context, part string, atMost int) ([]string, error) {
	return postgres.Values[string](ctx, s.DB, "find errors", sql.Text("view_errors"), errorsLooked, part, atMost,
		s.Scope)
}

// DeadOfKind returns the IDs of up to atMost dead letters of a group, the latest failure first. The list starts after
// the given key, or at the first if after is nil. It looks at the same failures as DeadGroups.
func (s *Store) DeadOfKind(ctx context.Context, kind string, workspaces []string, after *DeadKey,
	atMost int) ([]int64, error) {
	failedAt, id := after.columns()
	return postgres.Values[int64](ctx, s.DB, "read a group of dead letters", sql.Text("view_dead_group"), FailuresLooked,
		kind, atMost, failedAt, id, s.scoped(workspaces))
}
