package operate

import (
	"context"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// EndedCount is how many items have ended with a status.
type EndedCount struct {
	Status string
	// Items is the number of those found. Exact reports whether there are no others.
	Items int64
	Exact bool
	// About is the number by Postgres' statistics. Nil if they do not have the status, or do not apply.
	About *int64
}

// EndedItems counts the ended items of the workspaces, or of all in scope if workspaces is nil, by status. The cost
// does not grow with the number of items: it counts up to 10,000 failures, or the newest 1,000 for some workspaces,
// and the others if there are fewer than 10,000 items. Postgres' statistics are of all workspaces, so those of some
// have no About.
func (s *Store) EndedItems(ctx context.Context, workspaces []string) ([]EndedCount, error) {
	return postgres.Read[EndedCount](ctx, s.DB, "count ended items", sql.Text("view_ended"),
		s.scoped(workspaces), depthLimit, countLimit)
}
