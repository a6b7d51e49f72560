package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// fitnessInterval is how often a replica checks that it may still work with the database.
const fitnessInterval = time.Minute

// fitness is what decides whether a replica may work with the database. Copied means that the database was bound to
// another installation, BoundTo, and is now found here.
type fitness struct {
	Hidden       []string // tables
	Role         string
	TriggersFire bool
	Copied       bool
	BoundTo      string
	BoundAt      *time.Time
}

// errCopied is part of the error of a database that is a copy.
var errCopied = errors.New("replicas start nothing from a copy")

// err returns why a replica must not work with the database, or nil.
func (f fitness) err() error {
	switch {
	case len(f.Hidden) > 0:
		return fmt.Errorf("row level security may hide rows of %s from role %s, and replicas must see every row: on "+
			"each table, `create policy replicas on pgdispatch... to pgdispatch_dispatcher using (true)`, or "+
			"`alter table ... disable row level security`", strings.Join(f.Hidden, ", "), f.Role)
	case !f.TriggersFire:
		return fmt.Errorf("session_replication_role is replica for role %s: triggers do not fire, so slots are not released "+
			"and limits not enforced: reset it for the role and the database", f.Role)
	case f.Copied:
		return fmt.Errorf("this database is a copy of %q, or was moved, since a replica last used it: %w: if no "+
			"replica uses the other one any more, run `pgdispatch migrate adopt` here", f.BoundTo, errCopied)
	}
	return nil
}

func readFitness(ctx context.Context, pool *pgxpool.Pool) (fitness, error) {
	return postgres.Row[fitness](ctx, pool, "check the database", sql.Text("fitness"))
}

// awaitFitness binds the database to this installation if it is bound to none, and returns an error if this replica
// must not work with it. While the database is a copy, it waits for an operator, and calls waiting with the reason.
func awaitFitness(ctx context.Context, pool *pgxpool.Pool, waiting func(string), log *slog.Logger) error {
	said := false
	for {
		err := postgres.Exec(ctx, pool, "bind the database", sql.Text("bind_installation"))
		var found fitness
		if err == nil {
			found, err = readFitness(ctx, pool)
		}
		unfit := found.err()
		switch {
		case err == nil && !errors.Is(unfit, errCopied):
			if said && unfit == nil {
				log.Info("The database was adopted")
			}
			return unfit
		case err != nil && !postgres.IsUnavailable(err) && !postgres.TookTooLong(err):
			return postgres.Redact(err)
		case err == nil && !said:
			said = true
			waiting("database: " + unfit.Error())
			log.Error("Waiting for an operator: the database is a copy", "error", unfit)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(schemaRetryCap):
		}
	}
}

// stayFit returns an error once a replica must no longer work with the database, which stops it in order. Started
// again, the replica says so and waits, or refuses to run.
func stayFit(ctx context.Context, pool *pgxpool.Pool, every time.Duration, log *slog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		found, err := readFitness(ctx, pool)
		if err != nil {
			continue // others report it
		}
		if err := found.err(); err != nil {
			log.Error("Stopping: this replica must not work with the database any more", "error", err)
			return err
		}
	}
}
