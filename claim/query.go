package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// querier executes statements: a pool or a connection.
type querier interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// rows runs a statement and scans each row with rowTo.
func rows[T any](ctx context.Context, on querier, timeout time.Duration, verb string, rowTo pgx.RowToFunc[T], statement string, args ...any) ([]T, error) {
	ctx, cancel := bounded(ctx, timeout, verb)
	defer cancel()
	answer, err := on.Query(ctx, statement, args...)
	if err != nil {
		return nil, named(ctx, on, verb, err)
	}
	result, err := pgx.CollectRows(answer, rowTo)
	if err != nil {
		return nil, named(ctx, on, verb, err)
	}
	return result, nil
}

// read runs a statement and scans each row into a struct by position.
func read[T any](ctx context.Context, on querier, verb, statement string, args ...any) ([]T, error) {
	return rows(ctx, on, settleTimeout, verb, pgx.RowToStructByPos[T], statement, args...)
}

// one runs a statement that returns one value.
func one[T any](ctx context.Context, on querier, timeout time.Duration, verb, statement string, args ...any) (T, error) {
	ctx, cancel := bounded(ctx, timeout, verb)
	defer cancel()
	var result T
	if err := on.QueryRow(ctx, statement, args...).Scan(&result); err != nil {
		return result, named(ctx, on, verb, err)
	}
	return result, nil
}

// exec runs a statement that returns nothing.
func exec(ctx context.Context, on querier, timeout time.Duration, verb, statement string, args ...any) error {
	ctx, cancel := bounded(ctx, timeout, verb)
	defer cancel()
	if _, err := on.Exec(ctx, statement, args...); err != nil {
		return named(ctx, on, verb, err)
	}
	return nil
}

// bounded returns a context with a timeout whose cause names the statement.
func bounded(ctx context.Context, timeout time.Duration, verb string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s gave up after %s", verb, timeout))
}

// named wraps err with the statement's verb, the timeout that ended it, and the remedy if one is known. If the server
// is read-only, named resets the pool, because the server may be a former primary.
func named(ctx context.Context, on any, verb string, err error) error {
	if pool, ok := on.(*pgxpool.Pool); ok && hasCode(err, readOnly) {
		pool.Reset()
	}
	err = WithRemedy(withoutData(err))
	if ctx.Err() != nil && context.Cause(ctx) != ctx.Err() {
		return fmt.Errorf("%s: %w: %w", verb, context.Cause(ctx), err)
	}
	return fmt.Errorf("%s: %w", verb, err)
}
