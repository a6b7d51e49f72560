// Package migrate migrates the pgdispatch schema up or down, one migration at a time, and replaces functions that have
// changed.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/pgdispatch/pgdispatch/sql"
)

// versionTable is created with the baseline. Another baseline needs another name: a binary from before it then finds no
// version, so it starts no replica and its migration fails at the first table that exists.
const versionTable = "pgdispatch.schema_migrations"

// formerVersionTables exist in schemas from before the baseline.
var formerVersionTables = []string{"pgdispatch.schema_version", "pgdispatch.migrations"}

// lockKey is the advisory lock held during a migration. It is taken before the schema exists, which is too early for
// tern's own lock. Any role can take an advisory lock, so another client could delay a migration, but not break it.
const lockKey = 7210453188364021

// lockPoll is the time between two attempts to take it.
const lockPoll = 100 * time.Millisecond

// Step is one change, passed to the report callback.
type Step struct {
	Version int32 // 0 if it is not a migration
	Name    string
	// Direction is "up" or "down" for a migration, "replace" for a file of sql.Functions, and "repair" for an index or a
	// sequence.
	Direction string
}

// State is the state of the schema in a database.
type State struct {
	Current int32 // 0 means no schema
	Newest  int32 // the newest version that this binary knows
	Names   []string
	// Outdated names the files of sql.Functions that differ from those that were applied to the database, and Damaged
	// the others whose functions or triggers somebody has changed since. They are set only if Current is Newest.
	Outdated, Damaged []string
	// BeforeBaseline is the version of a schema from before the baseline, when version numbers restarted. Zero means
	// that it is not such a schema. If it is nonzero, Current is 0.
	BeforeBaseline int32
}

// Err returns an error if this binary cannot migrate the schema: a *BeforeBaselineError or a *NewerError.
func (s State) Err() error {
	switch {
	case s.BeforeBaseline > 0:
		return &BeforeBaselineError{s.BeforeBaseline}
	case s.Current > s.Newest:
		return &NewerError{s.Current, s.Newest}
	}
	return nil
}

// BeforeBaselineError reports a schema from before the baseline, which cannot be migrated.
type BeforeBaselineError struct{ Version int32 }

// Error includes the remedy.
func (e *BeforeBaselineError) Error() string {
	return fmt.Sprintf("the schema has version %d, from before the baseline, and cannot be upgraded: "+
		"export what you need, `drop schema pgdispatch cascade`, and `pgdispatch migrate up`", e.Version)
}

// NoDataError reports a schema whose tables lack the rows that a migration inserts, as after the restore of a dump
// without data.
type NoDataError struct{ Table string }

// Error includes the remedy.
func (e *NoDataError) Error() string {
	return fmt.Sprintf("%s is empty: the schema was restored without its data: restore the data, too, or "+
		"`drop schema pgdispatch cascade` and `pgdispatch migrate up`", e.Table)
}

// NewerError reports a schema created by a newer pgdispatch.
type NewerError struct{ Current, Newest int32 }

// Error includes the remedy.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the schema is at version %d and this pgdispatch supports up to %d: migrate it with the newer "+
		"pgdispatch", e.Current, e.Newest)
}

// To migrates to a version; 0 drops all tables with their data. It calls report, which may be nil, before each
// migration, and for each function once all are replaced. Concurrent calls wait for each other. If State.Err returns an
// error, To returns it and changes nothing. It waits for locks half a second at a time, so that writers pass, and for a
// minute at each step; then it fails, with all steps before this one in effect.
//
// At the newest version, To also replaces changed functions and sets the roles' privileges. If it cannot set up the
// roles, the server sends a warning with the remedy, and the schema keeps its owner.
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
		if version < 0 || version > state.Newest {
			return fmt.Errorf("migrate to version %d: the versions are 0 to %d", version, state.Newest)
		}
		m, err := open(ctx, conn)
		if err != nil {
			return err
		}
		for state.Current != version {
			if state.Current, err = step(ctx, m, conn, state.Current, version, report); err != nil {
				return fmt.Errorf("migrate to version %d: %w", version, err)
			}
		}
		if version < Newest() {
			return nil
		}
		return repeat(ctx, conn, report)
	})
}

// step migrates by one version in the direction of another, and returns the version reached. A migration that locks
// several tables can deadlock with an application, so it is repeated.
func step(ctx context.Context, m *migrate.Migrator, conn *pgx.Conn, from, to int32, report func(Step)) (int32, error) {
	next, direction := from+1, "up"
	if to < from {
		next, direction = from-1, "down"
	}
	report(Step{Version: next, Name: m.Migrations[max(from, next)-1].Name, Direction: direction})
	err := retryLocks(ctx, func(ctx context.Context) error {
		// The migration's end resets it.
		if _, err := conn.Exec(ctx, "set lock_timeout = '"+lockTimeout+"'"); err != nil {
			return err
		}
		err := m.MigrateTo(ctx, next)
		if err != nil {
			_, _ = conn.Exec(ctx, "reset lock_timeout") // the migration's error is the one to return
		}
		return err
	})
	if err != nil {
		return from, err
	}
	return next, nil
}

// Newest returns the version that Up migrates to.
func Newest() int32 { return int32(len(sql.Migrations())) }

// Up migrates to the newest version. See To.
func Up(ctx context.Context, conn *pgx.Conn, report func(Step)) error {
	return To(ctx, conn, Newest(), report)
}

// Status reads the state of the schema. It changes nothing. Without a schema, Current is 0.
func Status(ctx context.Context, conn *pgx.Conn) (State, error) {
	state := State{}
	for _, m := range sql.Migrations() {
		state.Newest++
		state.Names = append(state.Names, m.Name)
	}
	var err error
	if state.Current, err = readVersion(ctx, conn, versionTable); err != nil {
		return state, err
	}
	if state.Current == 0 {
		for _, former := range formerVersionTables {
			if state.BeforeBaseline, err = readVersion(ctx, conn, former); err != nil || state.BeforeBaseline > 0 {
				return state, err
			}
		}
	}
	if state.Current != state.Newest {
		return state, nil
	}
	outdated, damaged, err := unlike(ctx, conn)
	state.Outdated, state.Damaged = names(outdated), names(damaged)
	return state, err
}

// readVersion returns 0 if the table does not exist.
func readVersion(ctx context.Context, conn *pgx.Conn, table string) (version int32, err error) {
	var exists bool
	if err := conn.QueryRow(ctx, "select to_regclass($1) is not null", table).Scan(&exists); err != nil {
		return 0, fmt.Errorf("find %s: %w", table, err)
	}
	if !exists {
		return 0, nil
	}
	err = conn.QueryRow(ctx, "select version from "+table).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, &NoDataError{table}
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", table, err)
	}
	return version, nil
}

func open(ctx context.Context, conn *pgx.Conn) (*migrate.Migrator, error) {
	// "create schema if not exists" requires the privilege to create one even if it exists.
	var exists bool
	if err := conn.QueryRow(ctx, "select to_regnamespace('pgdispatch') is not null").Scan(&exists); err != nil {
		return nil, fmt.Errorf("find schema: %w", err)
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
	// It has no primary key. Without an identity, a publication for all tables refuses the updates of it.
	const identify = `do $$ begin
		if (select c.relreplident <> 'f' from pg_class c where c.oid = 'pgdispatch.schema_migrations'::regclass) then
			alter table pgdispatch.schema_migrations replica identity full;
		end if; end $$`
	if _, err := conn.Exec(ctx, identify); err != nil {
		return nil, fmt.Errorf("identify rows of %s: %w", versionTable, err)
	}
	for _, migration := range sql.Migrations() {
		m.AppendMigration(migration.Name, migration.Up, migration.Down)
	}
	return m, nil
}

// locked runs do with the lock. It polls: a statement that waited for the lock would have a snapshot, for whose end the
// concurrent build of an index waits.
func locked(ctx context.Context, conn *pgx.Conn, do func() error) error {
	for taken := false; !taken; {
		if err := conn.QueryRow(ctx, "select pg_try_advisory_lock($1)", int64(lockKey)).Scan(&taken); err != nil {
			return fmt.Errorf("wait for other migrations: %w", err)
		}
		if taken {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for other migrations: %w", context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
	// The lock is also released when the session ends, so errors can be ignored.
	defer conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock($1)", int64(lockKey)) //nolint:errcheck
	return do()
}
