package replica

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/sethvargo/go-retry"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// poolSettings returns the settings of the connections for claims and for everything else. Without LISTEN there may be
// a transaction pooler in between, which accepts no settings. Both are nil then, and every commit is durable.
func poolSettings(c config.Config) (forClaims, forOthers map[string]string) {
	if !c.Listen {
		return nil, nil
	}
	claims, others := "on", "off"
	switch c.Durable {
	case config.DurableAll:
		others = "on"
	case config.DurableNone:
		claims = "off"
	}
	durable := map[string]string{"pgdispatch.durable_commits": string(c.Durable)} // read by commit_durably
	return postgres.DirectSettings(postgres.Planning, durable,
			map[string]string{"synchronous_commit": claims, "lock_timeout": claim.ClaimLockTimeout.String()}),
		postgres.DirectSettings(postgres.Planning, durable, map[string]string{"synchronous_commit": others})
}

// viewSettings are for the web view. Its queries are planned for their actual parameters.
func viewSettings(c config.Config) map[string]string {
	if !c.Listen {
		return nil
	}
	return postgres.DirectSettings(map[string]string{
		"statement_timeout": "5s", "jit": "off", "plan_cache_mode": "force_custom_plan",
	})
}

// dialListener returns a function that opens a new connection outside the pools on each call.
func dialListener(to postgres.Target) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		return to.Connect(ctx, postgres.ListenerSettings(), nil)
	}
}

// dialGate returns a function that opens a new gate session on each call. If this machine disappears, the server
// notices within seconds and another replica takes over.
func dialGate(to postgres.Target) func(context.Context) (notify.GateSession, error) {
	settings := postgres.DirectSettings(map[string]string{
		"application_name": "pgdispatch gate", "synchronous_commit": "off", "tcp_user_timeout": postgres.TCPUserTimeout,
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "1", "tcp_keepalives_count": "3",
	})
	return func(ctx context.Context) (notify.GateSession, error) {
		conn, err := to.Connect(ctx, settings, nil)
		if err != nil {
			return nil, err
		}
		return &notify.Session{Conn: conn}, nil
	}
}

// schemaRetryBase and schemaRetryCap bound the pauses between attempts to reach Postgres.
const (
	schemaRetryBase = 50 * time.Millisecond
	schemaRetryCap  = 2 * time.Second
)

// awaitSchema waits until the database answers, and checks that it has the schema that this binary needs.
func awaitSchema(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	complained := false
	wait := func(ctx context.Context, err error) error {
		if !complained && ctx.Err() == nil {
			complained = true
			log.Error("Waiting for Postgres", "error", postgres.Redact(postgres.WithRemedy(err)))
		}
		return retry.RetryableError(err)
	}
	backoff := attempt.Backoff(schemaRetryBase, schemaRetryCap)
	return retry.Do(ctx, backoff, func(ctx context.Context) error {
		conn, err := pool.Acquire(ctx)
		switch {
		case postgres.IsUnfit(err):
			return postgres.Redact(err)
		case postgres.RefusesSettings(err):
			return fmt.Errorf("connect to Postgres: %w: if a transaction pooler is in between, set PGDISPATCH_LISTEN=off or "+
				"connect directly", postgres.Redact(err))
		case err != nil:
			return wait(ctx, err)
		}
		defer conn.Release()
		state, err := migrate.Status(ctx, conn.Conn())
		switch {
		case err != nil:
			return wait(ctx, err)
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
