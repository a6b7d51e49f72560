package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/sql"
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
}

// unlike returns the files of sql.Functions that differ from those that were applied to the database, and the others of
// which the database lacks or has changed an object. Functions that exist only in the database are kept: an older
// replica may call them, and a migration drops them.
func unlike(ctx context.Context, db querier) (outdated, damaged []sql.Function, err error) {
	rows, err := db.Query(ctx, "select name, sha256 from pgdispatch.applied_functions")
	if err != nil {
		return nil, nil, fmt.Errorf("read applied functions: %w", err)
	}
	applied := map[string]string{}
	var name, sum string
	if _, err := pgx.ForEachRow(rows, []any{&name, &sum}, func() error {
		applied[name] = sum
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("read applied functions: %w", err)
	}
	broken, err := defects(ctx, db)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range sql.Functions() {
		switch {
		case applied[f.Name] != f.SHA256():
			outdated = append(outdated, f)
		case slices.ContainsFunc(broken, func(o sql.Object) bool { return restores(f, o) }):
			damaged = append(damaged, f)
		}
	}
	return outdated, damaged, nil
}

func names(files []sql.Function) (all []string) {
	for _, f := range files {
		all = append(all, f.Name)
	}
	return all
}

// defects returns what is missing or wrong in a schema of the newest version.
func defects(ctx context.Context, db querier) ([]sql.Object, error) {
	rows, err := db.Query(ctx, sql.CatalogueText())
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[sql.Object])
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return sql.Defects(found), nil
}

// restores reports whether a file creates an object.
func restores(f sql.Function, o sql.Object) bool {
	switch o.Kind {
	case "function":
		name, _, _ := strings.Cut(o.Name, "(")
		return strings.Contains(f.Text, "create or replace function pgdispatch."+name+"(")
	case "trigger":
		return f.Name == sql.Triggers && !strings.HasSuffix(o.Name, ".refuse_truncate")
	}
	return false
}

// repairObjects makes missing and invalid indexes anew, and restores defaults and NOT NULL of columns.
func repairObjects(ctx context.Context, conn *pgx.Conn, report func(Step)) error {
	broken, err := defects(ctx, conn)
	if err != nil {
		return err
	}
	for _, o := range broken {
		for _, statement := range o.Repair() {
			run := func(statement string) error {
				_, err := conn.Exec(ctx, statement)
				return err
			}
			if o.Kind == "column" {
				run = func(statement string) error { return applyTrigger(ctx, conn, statement) } // locks the table
			}
			if err := run(statement); err != nil {
				return fmt.Errorf("repair %s %s: %w", o.Kind, o.Name, err)
			}
		}
		if o.Repair() != nil {
			report(Step{Name: o.Name, Direction: "repair"})
		}
	}
	return nil
}

// repeat replaces the changed files of sql.Functions and updates the roles, then replaces the triggers if they changed.
func repeat(ctx context.Context, conn *pgx.Conn, report func(Step)) error {
	outdated, damaged, err := unlike(ctx, conn)
	if err != nil {
		return err
	}
	changed := append(outdated, damaged...)
	triggers := slices.IndexFunc(changed, func(f sql.Function) bool { return f.Name == sql.Triggers })
	functions := changed
	if triggers >= 0 {
		functions = slices.Delete(slices.Clone(changed), triggers, triggers+1)
	}
	// One transaction: no one can call a new function before its privileges are set. READ COMMITTED, to see what others
	// commit meanwhile, such as the same roles.
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := replaceFunctions(ctx, tx, functions); err != nil {
			return err
		}
		return grant(ctx, tx)
	})
	if err == nil && triggers >= 0 {
		err = replaceTriggers(ctx, conn, changed[triggers])
	}
	if err == nil {
		err = guardTables(ctx, conn)
	}
	if err != nil {
		return err
	}
	for _, f := range changed {
		report(Step{Name: f.Name, Direction: "replace"})
	}
	if err := advanceSequences(ctx, conn, report); err != nil {
		return err
	}
	return repairObjects(ctx, conn, report)
}

// advanceSequences sets each sequence past its table: a logical copy of a database has no values of sequences.
func advanceSequences(ctx context.Context, conn *pgx.Conn, report func(Step)) error {
	rows, err := conn.Query(ctx, sql.SequencesText())
	if err != nil {
		return fmt.Errorf("find sequences that are behind: %w", err)
	}
	highest := map[string]int64{}
	var name string
	var value int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		highest[name] = value
		return nil
	}); err != nil {
		return fmt.Errorf("find sequences that are behind: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(highest)) {
		const advance = `select setval(s.of, greatest($2, coalesce(pg_sequence_last_value(s.of), 0)))
			from (select $1::text::regclass as of) s`
		if _, err := conn.Exec(ctx, advance, "pgdispatch."+name, highest[name]); err != nil {
			return fmt.Errorf("advance sequence %s: %w", name, err)
		}
		report(Step{Name: name, Direction: "repair"})
	}
	return nil
}

// replaceFunctions applies the files and records them.
func replaceFunctions(ctx context.Context, tx pgx.Tx, changed []sql.Function) error {
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
		return fmt.Errorf("disable check_function_bodies: %w", err)
	}
	for _, f := range changed {
		if _, err := tx.Exec(ctx, f.Text); err != nil {
			return fmt.Errorf("apply function %s: %w", f.Name, err)
		}
		if err := record(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}

// replaceTriggers applies each step of the file by itself.
func replaceTriggers(ctx context.Context, conn *pgx.Conn, file sql.Function) error {
	for step := range strings.SplitSeq(file.Text, "\n\n") {
		if err := applyTrigger(ctx, conn, step); err != nil {
			return fmt.Errorf("apply %s: %w", file.Name, err)
		}
	}
	return record(ctx, conn, file)
}

// guardTables adds the trigger that refuses TRUNCATE to the tables on which none fires. That of versions gets none,
// because it outlives the trigger's function.
func guardTables(ctx context.Context, conn *pgx.Conn) error {
	const unguarded = `select c.oid::regclass::text from pg_class c
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p') and c.oid <> $1::text::regclass
		  and not exists (select from pg_trigger t
		                  where t.tgrelid = c.oid and t.tgfoid = 'pgdispatch.refuse_truncate()'::regprocedure
		                    and t.tgenabled in ('O', 'A'))`
	rows, err := conn.Query(ctx, unguarded, versionTable)
	if err != nil {
		return fmt.Errorf("find tables without refuse_truncate: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("find tables without refuse_truncate: %w", err)
	}
	for _, table := range tables {
		if err := applyTrigger(ctx, conn, "create or replace trigger refuse_truncate before truncate on "+table+
			" for each statement execute function pgdispatch.refuse_truncate()"); err != nil {
			return fmt.Errorf("refuse to truncate %s: %w", table, err)
		}
	}
	return nil
}

// applyTrigger runs a statement that locks one table against writers, in a transaction of its own.
func applyTrigger(ctx context.Context, conn *pgx.Conn, statement string) error {
	return retryLocks(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "set local lock_timeout = '"+lockTimeout+"';"+statement)
			return err
		})
	})
}

// record notes that a file was applied.
func record(ctx context.Context, db querier, f sql.Function) error {
	const statement = `insert into pgdispatch.applied_functions as a (name, sha256) values ($1, $2)
		on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at`
	if _, err := db.Exec(ctx, statement, f.Name, f.SHA256()); err != nil {
		return fmt.Errorf("record %s: %w", f.Name, err)
	}
	return nil
}

// grant creates the roles and sets their privileges.
func grant(ctx context.Context, tx pgx.Tx) error {
	roles, grants := sql.Roles()
	if _, err := tx.Exec(ctx, roles); err != nil {
		return fmt.Errorf("create roles: %w", err)
	}
	var complete bool
	const count = "select count(*) = 5 from pg_roles " +
		"where rolname in ('pgdispatch_owner', 'pgdispatch_dispatcher', 'pgdispatch_enqueuer', 'pgdispatch_operator', " +
		"'pgdispatch_reader')"
	if err := tx.QueryRow(ctx, count).Scan(&complete); err != nil || !complete {
		return err
	}
	if _, err := tx.Exec(ctx, grants); err != nil {
		return fmt.Errorf("grant privileges: %w", err)
	}
	return nil
}
