// Package migrate brings the schema pgdispatch up or down, one migration at a time, and replaces its functions where they have changed.
package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	versionTable = "pgdispatch.migrations"
	// formerVersionTable is there in schemas from before the baseline.
	formerVersionTable = "pgdispatch.schema_version"
)

// lockKey is held while a migration runs, from before the schema exists: tern's own lock comes too late for that.
// An advisory lock can be taken by any role, so a stranger could delay a migration, but not break one.
const lockKey = 7210453188364021

// Step is one thing that was done.
type Step struct {
	Version   int32 // 0 where Direction is "replace"
	Name      string
	Direction string // "up" or "down": a migration was run; "replace": a file of sql.Functions was
}

// State says what a database has of the schema.
type State struct {
	Current int32 // 0: none
	Newest  int32 // the newest this binary knows
	Names   []string
	// Outdated names the files of sql.Functions that the database does not have as this binary has them. It is known at the
	// newest version only.
	Outdated []string
	// BeforeBaseline is the version of a schema from before the numbers began anew; 0: it is none. Current is 0 then.
	BeforeBaseline int32
}

// Err says why the schema cannot be migrated by this binary: a *BeforeBaselineError, a *NewerError, or nil.
func (s State) Err() error {
	switch {
	case s.BeforeBaseline > 0:
		return &BeforeBaselineError{s.BeforeBaseline}
	case s.Current > s.Newest:
		return &NewerError{s.Current, s.Newest}
	}
	return nil
}

// BeforeBaselineError refuses a schema from before the baseline, to which no migration leads.
type BeforeBaselineError struct{ Version int32 }

// Error says what to do.
func (e *BeforeBaselineError) Error() string {
	return fmt.Sprintf("the schema is of version %d from before the baseline and cannot be upgraded: "+
		"export what you need, `drop schema pgdispatch cascade`, and `pgdispatch migrate up`", e.Version)
}

// NewerError refuses a schema that a newer pgdispatch has made.
type NewerError struct{ Current, Newest int32 }

// Error says what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the schema is at version %d and this pgdispatch knows %d: migrate it with the newer pgdispatch", e.Current, e.Newest)
}

// To migrates to a version. It reports each migration before it is run, and each function when all are replaced. Version 0
// removes every table: everything in them is lost. Several calls at once wait for each other, and the later ones find nothing
// left to do. A schema of which State.Err says something is left as it is.
//
// At the newest version, what has changed of sql.Functions is replaced, and the roles get what they may do, each time: somebody
// may have made them only now. Where that cannot be, the server sends a warning with what to do, and the schema is left to whoever
// owns it.
func To(ctx context.Context, conn *pgx.Conn, version int32, report func(Step)) error {
	if report == nil {
		report = func(Step) {}
	}
	return locked(ctx, conn, func() error {
		state, err := Status(ctx, conn)
		if err != nil {
			return err
		}
		if err := state.Err(); err != nil {
			return err
		}
		m, err := open(ctx, conn)
		if err != nil {
			return err
		}
		m.OnStart = func(sequence int32, name, direction, _ string) {
			report(Step{Version: sequence, Name: name, Direction: direction})
		}
		if err := m.MigrateTo(ctx, version); err != nil {
			return fmt.Errorf("migrate to version %d: %w", version, err)
		}
		if version < Newest() {
			return nil
		}
		return repeat(ctx, conn, report)
	})
}

// Newest returns the version that Up migrates to.
func Newest() int32 { return int32(len(sql.Migrations())) }

// Up migrates to the newest version.
func Up(ctx context.Context, conn *pgx.Conn, report func(Step)) error {
	return To(ctx, conn, Newest(), report)
}

// Status reads what a database has. It changes nothing: a database without the schema is at version 0.
func Status(ctx context.Context, conn *pgx.Conn) (State, error) {
	state := State{}
	for _, m := range sql.Migrations() {
		state.Newest++
		state.Names = append(state.Names, m.Name)
	}
	var err error
	if state.BeforeBaseline, err = readVersion(ctx, conn, formerVersionTable); err != nil || state.BeforeBaseline > 0 {
		return state, err
	}
	if state.Current, err = readVersion(ctx, conn, versionTable); err != nil || state.Current != state.Newest {
		return state, err
	}
	functions, err := outdated(ctx, conn)
	for _, f := range functions {
		state.Outdated = append(state.Outdated, f.Name)
	}
	return state, err
}

// readVersion reads 0 where the table is not there.
func readVersion(ctx context.Context, conn *pgx.Conn, table string) (version int32, err error) {
	var exists bool
	if err := conn.QueryRow(ctx, "select to_regclass($1) is not null", table).Scan(&exists); err != nil {
		return 0, fmt.Errorf("look for %s: %w", table, err)
	}
	if !exists {
		return 0, nil
	}
	if err := conn.QueryRow(ctx, "select version from "+table).Scan(&version); err != nil {
		return 0, fmt.Errorf("read %s: %w", table, err)
	}
	return version, nil
}

func open(ctx context.Context, conn *pgx.Conn) (*migrate.Migrator, error) {
	// "If not exists" would need the privilege to create one, even where it does.
	var exists bool
	if err := conn.QueryRow(ctx, "select to_regnamespace('pgdispatch') is not null").Scan(&exists); err != nil {
		return nil, fmt.Errorf("look for schema: %w", err)
	}
	if !exists {
		if _, err := conn.Exec(ctx, "create schema pgdispatch"); err != nil {
			return nil, fmt.Errorf("create schema: %w", err)
		}
	}
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", versionTable, err)
	}
	for _, migration := range sql.Migrations() {
		m.AppendMigration(migration.Name, migration.Up, migration.Down)
	}
	return m, nil
}

func locked(ctx context.Context, conn *pgx.Conn, do func() error) error {
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", int64(lockKey)); err != nil {
		return fmt.Errorf("wait for other migrations: %w", err)
	}
	// The session's end frees the lock too, so an error here loses nothing.
	defer conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock($1)", int64(lockKey)) //nolint:errcheck
	return do()
}
