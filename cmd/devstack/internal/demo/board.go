package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// readTimeout bounds each reading of the database.
	readTimeout = 10 * time.Second
	// failuresShown is how many of the last failures the board lists.
	failuresShown = 3
)

// workspaceRow is a workspace's row of the table.
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
	// P50 and P99 are the pickup latency in milliseconds. They are nil before the first start.
	P50, P99 *float64
}

// failure is a failed item.
type failure struct {
	ItemID    int64
	Workspace string
	Error     string
}

// board is one reading of the queue.
type board struct {
	Workspaces []workspaceRow
	Failures   []failure
	// Peaks are the most running items that any reading has found, by workspace ID.
	Peaks map[string]int
}

// boardReader reads the queue repeatedly and remembers the peaks.
type boardReader struct {
	pool  *pgxpool.Pool
	peaks map[string]int
}

// read takes one reading.
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
