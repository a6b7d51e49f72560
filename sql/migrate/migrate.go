// Package migrate brings the schema pgdispatch up or down, one migration at a time.
package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/pgdispatch/pgdispatch/sql"
)

const versionTable = "pgdispatch.schema_version"

// lockKey is held while a migration runs, from before the schema exists: tern's own lock comes too late for that.
// An advisory lock can be taken by any role, so a stranger could delay a migration, but not break one.
const lockKey = 7210453188364021

// Step is one migration that was run.
type Step struct {
	Version   int32
	Name      string
	Direction string // "up" or "down"
}

// State says which migrations a database has.
type State struct {
	Current int32 // 0: none
	Newest  int32 // the newest this binary knows
	Names   []string
}

// To migrates to a version and reports each step before it is taken. Version 0 removes every table: everything in them
// is lost. Several calls at once wait for each other, and the later ones find nothing left to do.
//
// At the newest version the roles get what they may do, each time: somebody may have made them only now. Where that cannot be,
// the server sends a warning with what to do, and the schema is left to whoever owns it.
func To(ctx context.Context, conn *pgx.Conn, version int32, report func(Step)) error {
	return locked(ctx, conn, func() error {
		m, err := open(ctx, conn)
		if err != nil {
			return err
		}
		m.OnStart = func(sequence int32, name, direction, _ string) {
			if report != nil {
				report(Step{Version: sequence, Name: name, Direction: direction})
			}
		}
		if err := m.MigrateTo(ctx, version); err != nil {
			return fmt.Errorf("migrate to version %d: %w", version, err)
		}
		if version < Newest() {
			return nil
		}
		return grant(ctx, conn)
	})
}

// Newest returns the version that Up migrates to.
func Newest() int32 {
	names, err := migrate.FindMigrations(sql.Migrations())
	if err != nil {
		panic(err) // the migrations are embedded, and every test reads them
	}
	return int32(len(names))
}

// Up migrates to the newest version.
func Up(ctx context.Context, conn *pgx.Conn, report func(Step)) error {
	return To(ctx, conn, Newest(), report)
}

// Status reads which version a database has. It changes nothing: a database without the schema is at version 0.
func Status(ctx context.Context, conn *pgx.Conn) (State, error) {
	names, err := migrate.FindMigrations(sql.Migrations())
	if err != nil {
		return State{}, fmt.Errorf("find migrations: %w", err)
	}
	state := State{Newest: int32(len(names)), Names: names}
	var exists bool
	if err := conn.QueryRow(ctx, "select to_regclass($1) is not null", versionTable).Scan(&exists); err != nil {
		return state, fmt.Errorf("look for %s: %w", versionTable, err)
	}
	if !exists {
		return state, nil
	}
	if err := conn.QueryRow(ctx, "select version from "+versionTable).Scan(&state.Current); err != nil {
		return state, fmt.Errorf("read %s: %w", versionTable, err)
	}
	return state, nil
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
	if err := m.LoadMigrations(sql.Migrations()); err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return m, nil
}

// grant makes the roles and gives them their privileges. What others commit meanwhile, such as the same roles, is to be seen.
func grant(ctx context.Context, conn *pgx.Conn) error {
	roles, grants := sql.Roles()
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, roles); err != nil {
			return fmt.Errorf("make roles: %w", err)
		}
		var complete bool
		const count = "select count(*) = 5 from pg_roles where rolname in ('pgdispatch_owner', 'pgdispatch_dispatcher', 'pgdispatch_enqueuer', 'pgdispatch_operator', 'pgdispatch_reader')"
		if err := tx.QueryRow(ctx, count).Scan(&complete); err != nil || !complete {
			return err
		}
		if _, err := tx.Exec(ctx, grants); err != nil {
			return fmt.Errorf("grant privileges: %w", err)
		}
		return nil
	})
}

func locked(ctx context.Context, conn *pgx.Conn, do func() error) error {
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", int64(lockKey)); err != nil {
		return fmt.Errorf("wait for other migrations: %w", err)
	}
	// The session's end frees the lock too, so an error here loses nothing.
	defer conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock($1)", int64(lockKey)) //nolint:errcheck
	return do()
}
