package main

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMigrateSaysWhatItHasApplied(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: sqltest.EmptyURL(t)}
	require.Regexp(t, `^up 001_baseline\.sql\napplied \d\d functions\napplied triggers\n$`, d.types("migrate", "up"))
	require.Equal(t, "nothing to do: the schema is at version 1\n", d.types("migrate", "up"))
	require.Equal(t, "applied 001_baseline.sql\n", d.types("migrate", "status"))
	require.Equal(t, "down 001_baseline.sql\n", d.types("migrate", "down", "--yes"))
	out, errs, code := d.tries("migrate", "status")
	require.Equal(t, "missing 001_baseline.sql\n", out)
	require.Contains(t, errs, "migrations are missing: run `pgdispatch migrate up`")
	require.Equal(t, 1, code)
}

func TestMigrateStatusNamesFunctionsThatAreOutdated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec("update pgdispatch.applied_functions set sha256 = 'another' where name = 'claim'")
	out, errs, code := d.tries("migrate", "status")
	require.Equal(t, "applied 001_baseline.sql\noutdated claim.sql\n", out)
	require.Contains(t, errs, "functions are outdated: run `pgdispatch migrate up`")
	require.Equal(t, 1, code)
	require.JSONEq(t, `[{"name": "001_baseline.sql", "applied": true}, {"name": "claim.sql", "applied": false}]`, first(d.tries("migrate", "status", "-o", "json")))
	require.Equal(t, "applied 1 function\n", d.types("migrate", "up"))
	require.Equal(t, "applied 001_baseline.sql\n", d.types("migrate", "status"))
}

func first(out, _ string, _ int) string { return out }

func TestASchemaFromBeforeTheBaselineIsRefusedByEveryCommandThatLooksAtIt(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: sqltest.EmptyURL(t)}
	d.db = sqltest.Pool(t, d.url)
	d.exec("create schema pgdispatch")
	d.exec("create table pgdispatch.schema_version as select 15 as version")
	for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"migrate", "down", "--yes"}} {
		out, errs, code := d.tries(args...)
		require.Empty(t, out)
		require.Contains(t, errs, "the schema is of version 15 from before the baseline and cannot be upgraded", args)
		require.Contains(t, errs, "`drop schema pgdispatch cascade`", args)
		require.Equal(t, 1, code, args)
	}
	require.ErrorContains(t, awaitSchema(t.Context(), d.db, slog.New(slog.DiscardHandler)), "`drop schema pgdispatch cascade`", "no replica starts")
	require.ErrorContains(t, databaseReady(t.Context(), d.db), "`drop schema pgdispatch cascade`")
	found, _ := d.diagnosis("--temporal-address", nowhere)
	require.Contains(t, found["migrations"].Remedy, "`drop schema pgdispatch cascade`")
}

func TestMigrateUpRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec("update pgdispatch.migrations set version = $1", migrate.Newest()+1)
	_, errs, code := d.tries("migrate", "up")
	require.Contains(t, errs, "the schema is at version 2 and this pgdispatch knows 1: migrate it with the newer pgdispatch")
	require.Equal(t, 1, code)
}
