package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
}

// outdated returns the files of sql.Functions that differ from the database's version, in order of application.
// Functions that exist only in the database are kept: an older replica may call them, and a migration drops them.
func outdated(ctx context.Context, db querier) ([]sql.Function, error) {
	rows, err := db.Query(ctx, "select name, sha256 from pgdispatch.applied_functions")
	if err != nil {
		return nil, fmt.Errorf("read applied functions: %w", err)
	}
	applied := map[string]string{}
	var name, sum string
	if _, err := pgx.ForEachRow(rows, []any{&name, &sum}, func() error {
		applied[name] = sum
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read applied functions: %w", err)
	}
	var found []sql.Function
	for _, f := range sql.Functions() {
		if applied[f.Name] != f.SHA256() {
			found = append(found, f)
		}
	}
	return found, nil
}

// repeat replaces the changed files of sql.Functions and updates the roles, all in one transaction. No one can thus
// call a new function before its privileges are set. The transaction is READ COMMITTED, so that it sees what others
// commit meanwhile, such as the same roles.
func repeat(ctx context.Context, conn *pgx.Conn, report func(Step)) error {
	var changed []sql.Function
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var err error
		if changed, err = outdated(ctx, tx); err != nil {
			return err
		}
		if err := replace(ctx, tx, changed); err != nil {
			return err
		}
		return grant(ctx, tx)
	})
	if err != nil {
		return err
	}
	for _, f := range changed {
		report(Step{Name: f.Name, Direction: "replace"})
	}
	return nil
}

// replace applies the files and records them.
func replace(ctx context.Context, tx pgx.Tx, changed []sql.Function) error {
	if len(changed) == 0 {
		return nil
	}
	// A claim holds this lock until it ends, so none is in progress while the functions it calls are replaced. A claim
	// that waits for the lock continues in the old claim function, which then calls the new versions of the others.
	if _, err := tx.Exec(ctx, "lock table pgdispatch.claim_lock in share row exclusive mode"); err != nil {
		return fmt.Errorf("wait for claims: %w", err)
	}
	// A function may call a later one.
	if _, err := tx.Exec(ctx, "set local check_function_bodies = off"); err != nil {
		return fmt.Errorf("switch off check_function_bodies: %w", err)
	}
	const record = `insert into pgdispatch.applied_functions as a (name, sha256) values ($1, $2)
		on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at`
	for _, f := range changed {
		if _, err := tx.Exec(ctx, f.Text); err != nil {
			return fmt.Errorf("apply %s.sql: %w", f.Name, err)
		}
		if _, err := tx.Exec(ctx, record, f.Name, f.SHA256()); err != nil {
			return fmt.Errorf("record %s.sql: %w", f.Name, err)
		}
	}
	return nil
}

// grant creates the roles and sets their privileges.
func grant(ctx context.Context, tx pgx.Tx) error {
	roles, grants := sql.Roles()
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
}
