package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/sethvargo/go-retry"
)

// schemaRetryBase and schemaRetryCap bound the pauses between attempts to reach Postgres.
const (
	schemaRetryBase = 50 * time.Millisecond
	schemaRetryCap  = 2 * time.Second
)

// awaitSchema waits until the database answers, and checks that it has the schema that this binary needs.
func awaitSchema(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	complained := false
	backoff := attempt.Backoff(schemaRetryBase, schemaRetryCap)
	return retry.Do(ctx, backoff, func(ctx context.Context) error {
		conn, err := pool.Acquire(ctx)
		var refusal *pgconn.PgError
		var tooOld *postgres.TooOldError
		switch {
		case errors.As(err, &tooOld):
			return tooOld
		case errors.As(err, &refusal) && refusal.Code == "08P01": // protocol_violation: PgBouncer refuses a setting
			return fmt.Errorf("connect to Postgres: %w: if a transaction pooler is in between, set PGDISPATCH_LISTEN=off or "+
				"connect directly", postgres.Redact(err))
		case err != nil:
			if !complained && ctx.Err() == nil {
				complained = true
				log.Error("Waiting for Postgres", "error", postgres.Redact(postgres.WithRemedy(err)))
			}
			return retry.RetryableError(err)
		}
		defer conn.Release()
		state, err := migrate.Status(ctx, conn.Conn())
		switch {
		case err != nil:
			return retry.RetryableError(err)
		case state.Current < state.Newest:
			return schemaTooOld(state)
		case state.Current > state.Newest:
			log.Warn("The schema is newer than this pgdispatch", "schema", state.Current, "known", state.Newest)
		}
		return nil
	})
}

// databaseReady checks that the database answers and has the schema that this binary needs.
func databaseReady(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return postgres.Redact(err)
	}
	defer conn.Release()
	state, err := migrate.Status(ctx, conn.Conn())
	if err != nil {
		return postgres.Redact(err)
	}
	if state.Current < state.Newest {
		return schemaTooOld(state)
	}
	return nil
}

func schemaTooOld(state migrate.State) error {
	if err := state.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the schema is at version %d and this pgdispatch needs %d: run `pgdispatch migrate up`",
		state.Current, state.Newest)
}
