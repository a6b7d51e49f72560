package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// readTimeout bounds every look at the database.
	readTimeout = 10 * time.Second
	// failuresShown is how many of the last failures the board lists.
	failuresShown = 3
)

// workspaceRow is what the table shows of a workspace.
type workspaceRow struct {
	ID        string
	Name      string
	Plan      string
	Slots     int
	Pending   int
	Running   int
	Completed int
	Failed    int
	Cancelled int
	// P50 and P99 are the pickup latency in milliseconds; nil before the first start.
	P50, P99 *float64
}

// failure is an item that failed.
type failure struct {
	ItemID    int64
	Workspace string
	Error     string
}

// board is one look at the queue.
type board struct {
	Workspaces []workspaceRow
	Failures   []failure
	// Peaks are the most running items that any look has seen, by workspace ID.
	Peaks map[string]int
}

// boardReader looks at the queue again and again, and remembers the peaks.
type boardReader struct {
	pool  *pgxpool.Pool
	peaks map[string]int
}

// read takes one look.
func (r *boardReader) read(ctx context.Context) (board, error) {
	workspaces, err := collect[workspaceRow](ctx, r.pool, boardQuery)
	if err != nil {
		return board{}, fmt.Errorf("read the queue: %w", err)
	}
	failures, err := collect[failure](ctx, r.pool, failuresQuery, failuresShown)
	if err != nil {
		return board{}, fmt.Errorf("read the failures: %w", err)
	}
	for _, w := range workspaces {
		r.peaks[w.ID] = max(r.peaks[w.ID], w.Running)
	}
	return board{Workspaces: workspaces, Failures: failures, Peaks: r.peaks}, nil
}

// unfinished counts the items that are waiting or running.
func (b board) unfinished() int {
	n := 0
	for _, w := range b.Workspaces {
		n += w.Pending + w.Running
	}
	return n
}

// total counts all items.
func (b board) total() int {
	n := b.unfinished()
	for _, w := range b.Workspaces {
		n += w.Completed + w.Failed + w.Cancelled
	}
	return n
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
