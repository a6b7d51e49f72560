package claim

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// countLimit is how many items of a workspace's status a list counts, and itemsLooked how many items it looks through for a
	// page. Both are said where they end something.
	countLimit  = 1000
	itemsLooked = 10_000
	// FailuresLooked is how many of the newest failures are grouped.
	FailuresLooked = 2_000
	// CountLimit is countLimit for those who show it.
	CountLimit = countLimit
)

// WorkspaceOrder is what a list of workspaces is sorted by, the most first; names in their order.
type WorkspaceOrder string

// The orders.
const (
	ByName     WorkspaceOrder = "name"
	ByRunning  WorkspaceOrder = "running"
	ByOldest   WorkspaceOrder = "oldest" // by the item that has been due for longest
	ByFailures WorkspaceOrder = "failures"
)

// WorkspaceRow is a workspace in a list.
type WorkspaceRow struct {
	ID            string         `json:"workspace_id"`
	Name          string         `json:"name"`
	Plan          string         `json:"plan"`
	Limit         int            `json:"max_concurrent_workflows"` // the one in force
	Paused        bool           `json:"paused"`
	Waiting       int64          `json:"waiting"` // due or not; CountLimit: at least
	Claimed       int64          `json:"claimed"`
	Running       int64          `json:"running"`           // CountLimit: at least
	OldestWaiting *time.Duration `json:"oldest_waiting_ns"` // since it was due; nil: none is
	Failures      int64          `json:"failures"`          // in a day, among the newest 10,000 of all workspaces
	Rank          float64        `json:"-"`
}

// WorkspaceKey is where a page of workspaces ends and the next one goes on.
type WorkspaceKey struct {
	Rank     float64
	Name, ID string
}

// Key is the row's own.
func (w WorkspaceRow) Key() WorkspaceKey { return WorkspaceKey{w.Rank, w.Name, w.ID} }

// ListWorkspaces reads workspaces with a part of the name, or the ID, "" for all, after the one with this key, nil for the
// first; at most so many.
func (s *Store) ListWorkspaces(ctx context.Context, search string, by WorkspaceOrder, after *WorkspaceKey, atMost int) ([]WorkspaceRow, error) {
	var rank *float64
	var name, id *string
	if after != nil {
		rank, name, id = &after.Rank, &after.Name, &after.ID
	}
	return read[WorkspaceRow](ctx, s.async(), "list workspaces", sql.ViewWorkspaces,
		optional(search), string(by), rank, name, id, atMost, countLimit, depthLimit)
}

// WorkspaceDetail is a workspace on a page of its own. Waiting and Running end at CountLimit, and OldestWaiting is since it was due.
type WorkspaceDetail struct {
	Workspace
	Failures int64 `json:"failures"` // in a day, among the newest 10,000 of all workspaces
}

// WorkspaceDetail reads one, at a cost that does not grow with its items; false: it is not there.
func (s *Store) WorkspaceDetail(ctx context.Context, id string) (WorkspaceDetail, bool, error) {
	found, err := read[WorkspaceDetail](ctx, s.async(), "read workspace", sql.ViewWorkspace, id, countLimit, depthLimit)
	if err != nil || len(found) == 0 {
		return WorkspaceDetail{}, false, err
	}
	return found[0], true, nil
}

// ItemPage is a part of the items, the newest first.
type ItemPage struct {
	Items []QueueItem
	// Next is where the next page begins, see ItemFilter.Before; 0: there is none.
	Next int64
	// Looked is how many items were looked at, and Bounded whether there may be others that were not.
	Looked  int64
	Bounded bool
}

// ListItems reads a page of items. It looks at so many of them and no more, by the index that has the fewest: where few match,
// the page may be short, and Next goes on.
func (s *Store) ListItems(ctx context.Context, f ItemFilter, status string, workspaces, definitions []string, atMost int) (ItemPage, error) {
	before := f.Before
	if before == 0 {
		before = math.MaxInt64
	}
	type found struct {
		ID     *int64
		Looked int64
		Lowest *int64
	}
	rows, err := rows(ctx, s.async(), settleTimeout, "list items", pgx.RowToStructByPos[found], sql.ViewItems,
		optional(status), workspaces, definitions, optional(f.Error),
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
		page.Next = *rows[0].Lowest // nothing more among these; older ones were not looked at
	}
	page.Items, err = s.QueueItems(ctx, ids, nil, false)
	return page, err
}

// DeadGroup is open dead letters with one kind of error: the same but for IDs and numbers.
type DeadGroup struct {
	Kind       string    `json:"kind"`
	Items      int64     `json:"items"`
	Workspaces int64     `json:"workspaces"`
	FirstAt    time.Time `json:"first_at"`
	LastAt     time.Time `json:"last_at"`
	Newest     int64     `json:"newest"`  // the ID of the newest item
	Example    string    `json:"example"` // its error
}

// DeadGroups groups the open dead letters among the newest 2,000 failures, the largest groups first; at most so many.
func (s *Store) DeadGroups(ctx context.Context, atMost int) ([]DeadGroup, error) {
	return read[DeadGroup](ctx, s.async(), "group dead letters", sql.ViewDeadGroups, FailuresLooked, atMost)
}

// DeadOfKind returns the IDs of a group's dead letters after the one with this key, nil for the first, those that failed last first; at
// most so many. They are looked for where DeadGroups looks.
func (s *Store) DeadOfKind(ctx context.Context, kind string, after *DeadKey, atMost int) ([]int64, error) {
	failedAt, id := after.columns()
	return rows(ctx, s.async(), settleTimeout, "read a group of dead letters", pgx.RowTo[int64], sql.ViewDeadGroup, FailuresLooked, kind, atMost, failedAt, id)
}
