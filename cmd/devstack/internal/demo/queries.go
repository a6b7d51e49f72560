package demo

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The demonstration's statements. They read only columns that the contract allows users to read.
var (
	//go:embed queries/counts.sql
	countsQuery string
	//go:embed queries/workspaces.sql
	workspacesQuery string
	//go:embed queries/outcomes.sql
	outcomesQuery string
	//go:embed queries/graph.sql
	graphQuery string
	//go:embed queries/example.sql
	exampleQuery string
)

// readTimeout bounds each reading of the database.
const readTimeout = 10 * time.Second

// counts are how many items are in which state.
type counts struct{ Waiting, Running, Completed, Failed, Cancelled int }

func (c counts) unfinished() int { return c.Waiting + c.Running }

// String returns the counts as a line.
func (c counts) String() string {
	line := fmt.Sprintf("%d waiting, %d running, %d completed, %d failed", c.Waiting, c.Running, c.Completed, c.Failed)
	if c.Cancelled > 0 {
		line += fmt.Sprintf(", %d cancelled", c.Cancelled)
	}
	return line
}

// workspace is the result of a workspace's items. Peak is the most that ran at the same time.
type workspace struct {
	Name, Plan                     string
	Slots, Peak, Completed, Failed int
}

// String returns the workspace as a line of the summary.
func (w workspace) String() string {
	return fmt.Sprintf("  %-14s %-11s at most %2d of %2d running at once, %3d completed, %d failed",
		w.Name, w.Plan, w.Peak, w.Slots, w.Completed, w.Failed)
}

// collect reads all rows of a query into structs, column by column.
func collect[T any](ctx context.Context, pool *pgxpool.Pool, query string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("the query took longer than %s", readTimeout))
	defer cancel()
	rows, err := pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
