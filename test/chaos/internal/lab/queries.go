package lab

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/test/internal/queries"
)

const (
	// queryTimeout bounds one query of the harness.
	queryTimeout = 10 * time.Second
	// patience bounds how long the harness waits for an unavailable database.
	patience = 60 * time.Second
	// retryInterval is the interval between its attempts.
	retryInterval = 50 * time.Millisecond
)

//go:embed queries/*.sql
var files embed.FS

// Query returns one of the harness's statements or scripts. They use what applications use: the documented tables,
// columns and functions. In addition, audit.sql reads two columns of an item that no application reads.
func Query(name string) string { return queries.Get(files, "queries/"+name) }

// Store asks one database, also while it crashes and returns.
type Store struct{ db *pgxpool.Pool }

// Asked is something that has a Store.
type Asked interface{ asked() *Store }

func (l *Store) asked() *Store { return l }

// Exec executes a statement on the primary, without retries.
func (l *Store) Exec(ctx context.Context, query string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, fmt.Errorf("%s took longer than %s", query, queryTimeout))
	defer cancel()
	if _, err := l.db.Exec(ctx, Query(query), args...); err != nil {
		return fmt.Errorf("execute %s: %w", query, err)
	}
	return nil
}

// Script executes the statements of a script one by one, each with retries. Statements are split at semicolons.
func (l *Store) Script(ctx context.Context, query string) error {
	for statement := range strings.SplitSeq(Query(query), ";") {
		err := l.insist(ctx, func() error {
			ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, fmt.Errorf("%s took longer than %s", query, queryTimeout))
			defer cancel()
			_, err := l.db.Exec(ctx, statement)
			return err
		})
		if err != nil {
			return fmt.Errorf("execute %s: %w", query, err)
		}
	}
	return nil
}

// Insist executes a repeatable statement on the primary, and retries until the primary has answered.
func (l *Store) Insist(ctx context.Context, query string, args ...any) error {
	return l.insist(ctx, func() error { return l.Exec(ctx, query, args...) })
}

// Row reads one row from the primary, and retries while the primary is unavailable.
func (l *Store) Row(ctx context.Context, query string, args []any, into ...any) error {
	return l.insist(ctx, func() error {
		ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, fmt.Errorf("%s took longer than %s", query, queryTimeout))
		defer cancel()
		if err := l.db.QueryRow(ctx, Query(query), args...).Scan(into...); err != nil {
			return fmt.Errorf("read %s: %w", query, err)
		}
		return nil
	})
}

// Rows reads all rows from the primary, and retries while it is unavailable.
func Rows[T any](
	ctx context.Context, of Asked, query string, scan pgx.RowToFunc[T], args ...any,
) (all []T, err error) {
	l := of.asked()
	err = l.insist(ctx, func() error {
		rows, err := l.db.Query(ctx, Query(query), args...)
		if err != nil {
			return fmt.Errorf("read %s: %w", query, err)
		}
		all, err = pgx.CollectRows(rows, scan)
		if err != nil {
			return fmt.Errorf("read %s: %w", query, err)
		}
		return nil
	})
	return all, err
}

func (l *Store) insist(ctx context.Context, ask func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := ask()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}
