// Package postgres connects to Postgres, executes statements and explains their errors. It knows nothing of the schema.
package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Timeout bounds each statement that is given no other timeout. When it expires, the caller stops waiting; the database
// may still finish the statement.
const Timeout = 5 * time.Second

// Conn executes statements: a pool, a connection or a transaction.
type Conn interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// Read runs a statement and scans each row into a struct by column name, ignoring case and underscores.
func Read[T any](ctx context.Context, on Conn, verb, statement string, args ...any) ([]T, error) {
	return ReadWithin[T](ctx, Timeout, on, verb, statement, args...)
}

// ReadWithin is Read with another timeout.
func ReadWithin[T any](ctx context.Context, timeout time.Duration, on Conn, verb, statement string,
	args ...any) ([]T, error) {
	return collect(ctx, timeout, on, verb, pgx.RowToStructByName[T], statement, args)
}

// Row is Read for a statement that returns one row or none, which leaves the struct zero.
func Row[T any](ctx context.Context, on Conn, verb, statement string, args ...any) (row T, err error) {
	return RowWithin[T](ctx, Timeout, on, verb, statement, args...)
}

// RowWithin is Row with another timeout.
func RowWithin[T any](ctx context.Context, timeout time.Duration, on Conn, verb, statement string,
	args ...any) (row T, err error) {
	rows, err := ReadWithin[T](ctx, timeout, on, verb, statement, args...)
	if len(rows) > 0 {
		row = rows[0]
	}
	return row, err
}

// Values runs a statement with one column and returns its values.
func Values[T any](ctx context.Context, on Conn, verb, statement string, args ...any) ([]T, error) {
	return ValuesWithin[T](ctx, Timeout, on, verb, statement, args...)
}

// ValuesWithin is Values with another timeout.
func ValuesWithin[T any](ctx context.Context, timeout time.Duration, on Conn, verb, statement string,
	args ...any) ([]T, error) {
	return collect(ctx, timeout, on, verb, pgx.RowTo[T], statement, args)
}

// Value runs a statement that returns one value.
func Value[T any](ctx context.Context, on Conn, verb, statement string, args ...any) (T, error) {
	ctx, cancel := Bound(ctx, Timeout, verb)
	defer cancel()
	var result T
	if err := on.QueryRow(ctx, statement, args...).Scan(&result); err != nil {
		return result, Explain(ctx, on, verb, err)
	}
	return result, nil
}

// Exec runs a statement that returns nothing.
func Exec(ctx context.Context, on Conn, verb, statement string, args ...any) error {
	ctx, cancel := Bound(ctx, Timeout, verb)
	defer cancel()
	if _, err := on.Exec(ctx, statement, args...); err != nil {
		return Explain(ctx, on, verb, err)
	}
	return nil
}

func collect[T any](ctx context.Context, timeout time.Duration, on Conn, verb string, rowTo pgx.RowToFunc[T],
	statement string, args []any) ([]T, error) {
	ctx, cancel := Bound(ctx, timeout, verb)
	defer cancel()
	rows, err := on.Query(ctx, statement, args...)
	if err != nil {
		return nil, Explain(ctx, on, verb, err)
	}
	result, err := Collect(rows, rowTo)
	if err != nil {
		return nil, Explain(ctx, on, verb, err)
	}
	return result, nil
}

// Collect scans each row. If one cannot be scanned, the error is an UnexpectedError.
func Collect[T any](rows pgx.Rows, rowTo pgx.RowToFunc[T]) ([]T, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) {
		value, err := rowTo(row)
		if err != nil {
			err = Unexpected("%w", err)
		}
		return value, err
	})
}

// Bound returns a context with a timeout whose cause names the statement.
func Bound(ctx context.Context, timeout time.Duration, verb string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, &silentError{verb, timeout})
}

// Explain wraps err with the statement's verb, the timeout that ended it, and the remedy if one is known. If the server
// is read-only, it resets the pool, because the server may be a former primary.
func Explain(ctx context.Context, on any, verb string, err error) error {
	if pool, ok := on.(*pgxpool.Pool); ok && HasCode(err, readOnly) {
		pool.Reset()
	}
	err = WithRemedy(withoutData(err))
	if ctx.Err() != nil && context.Cause(ctx) != ctx.Err() {
		return fmt.Errorf("%s: %w: %w", verb, context.Cause(ctx), err)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// OrZero returns the value behind p, or the zero value if p is nil.
func OrZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// OrNull returns a pointer to value, or nil if value is zero: a parameter that is null if it is not set.
func OrNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// OrEmpty returns list, or an empty list if it is nil: comparing with a null array is never true.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
