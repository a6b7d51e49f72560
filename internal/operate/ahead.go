package operate

import (
	"context"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Ahead returns how many due items of a waiting item's workspace are claimed before it, at least up to CountLimit.
func (s *Store) Ahead(ctx context.Context, item int64) (int64, error) {
	return postgres.Value[int64](ctx, s.DB, "count the items ahead", sql.Text("item_ahead"), item, countLimit, s.Scope)
}

// changesOfItems is how many changes of items are searched for those of one item.
const changesOfItems = 500

// ChangesOf returns what was done to an item, the newest first, from the log of changes: requests to stop its
// execution, and of the newest changes of items those that name it.
func (s *Store) ChangesOf(ctx context.Context, item int64) ([]Administered, error) {
	found, err := s.Items(ctx, []int64{item}, nil, false)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	whole := &Store{DB: s.DB} // the log has changes of items of several workspaces, of which ofItem leaves one
	stops, err := whole.Audit(ctx, AuditFilter{Subject: "execution " + found[0].ExecutionID}, changesOfItems)
	if err != nil {
		return nil, err
	}
	all, err := whole.Audit(ctx, AuditFilter{Subject: "items"}, changesOfItems)
	if err != nil {
		return nil, err
	}
	return ofItem(stops, all, found[0]), nil
}
