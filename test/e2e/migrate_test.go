package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMigrateSaysWhatItHasApplied(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: sqltest.EmptyURL(t)}
	require.Regexp(t, "^"+eachMigration("up")+`applied \d+ functions\napplied triggers\n$`, d.types("migrate", "up"))
	require.Equal(t, fmt.Sprintf("nothing to do: the schema is at version %d\n", migrate.Newest()),
		d.types("migrate", "up"))
	require.Equal(t, eachMigration("applied"), d.types("migrate", "status"))
	require.Contains(t, d.types("migrate", "down", "--to", "0", "--yes"), "down 001_baseline.sql\n")
	out, errs, code := d.tries("migrate", "status")
	require.Equal(t, eachMigration("missing"), out)
	require.Contains(t, errs, "migrations are missing: run `pgdispatch migrate up`")
	require.Equal(t, 1, code)
}

func TestMigrateStatusNamesFunctionsAndTriggersThatDiffer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec("update pgdispatch.applied_functions set sha256 = 'another' where name = 'claim_pick'")
	out, errs, code := d.tries("migrate", "status")
	require.Equal(t, eachMigration("applied")+"outdated claim_pick\n", out)
	require.Contains(t, errs, "functions are outdated: run `pgdispatch migrate up`")
	require.Equal(t, 1, code)
	listed := first(d.tries("migrate", "status", "-o", "json"))
	require.Contains(t, listed, `"name": "001_baseline.sql",`+"\n    "+`"applied": true`)
	require.Contains(t, listed, `"name": "claim_pick",`+"\n    "+`"applied": false`)
	require.Equal(t, "applied 1 function\n", d.types("migrate", "up"))
	d.exec("alter table pgdispatch.workspaces disable trigger refuse_value")
	out, errs, code = d.tries("migrate", "status")
	require.Equal(t, eachMigration("applied")+"damaged triggers\n", out)
	require.Contains(t, errs, "functions or triggers are damaged: run `pgdispatch migrate up`")
	require.Equal(t, 1, code)
	require.Equal(t, "applied triggers\n", d.types("migrate", "up"))
	require.Equal(t, eachMigration("applied"), d.types("migrate", "status"))
}

// eachMigration returns a line for each migration, with this word before it.
func eachMigration(word string) (lines string) {
	for _, m := range sql.Migrations() {
		lines += word + " " + m.Name + "\n"
	}
	return lines
}

func first(out, _ string, _ int) string { return out }

func TestASchemaFromBeforeTheBaselineIsRefusedByEveryCommandThatLooksAtIt(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: sqltest.EmptyURL(t)}
	d.db = sqltest.Pool(t, d.url)
	d.exec("create schema pgdispatch")
	d.exec("create table pgdispatch.migrations as select 10 as version")
	for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"migrate", "down", "--yes"}} {
		out, errs, code := d.tries(args...)
		require.Empty(t, out)
		require.Contains(t, errs, "the schema has version 10, from before the baseline, and cannot be upgraded", args)
		require.Contains(t, errs, "`drop schema pgdispatch cascade`", args)
		require.Equal(t, 1, code, args)
	}
	found, _ := d.diagnosis("--temporal-address", nowhere)
	require.Contains(t, found["migrations"].Remedy, "`drop schema pgdispatch cascade`")
}

func TestMigrateUpRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec("update pgdispatch.schema_migrations set version = $1", migrate.Newest()+1)
	_, errs, code := d.tries("migrate", "up")
	require.Contains(t, errs,
		fmt.Sprintf("the schema is at version %d and this pgdispatch supports up to %d: migrate it with the newer pgdispatch",
			migrate.Newest()+1, migrate.Newest()))
	require.Equal(t, 1, code)
}
