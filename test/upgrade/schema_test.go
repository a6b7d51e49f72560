package upgrade

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// printStatements is a program that prints the statements of the source that it is part of.
const printStatements = `package main

import (
	"encoding/json"
	"os"

	"github.com/pgdispatch/pgdispatch/sql"
)

func main() {
	all := map[string]string{}
	for _, verb := range sql.Verbs() {
		all[verb] = sql.Text(verb)
	}
	_ = json.NewEncoder(os.Stdout).Encode(all)
}
`

// statements returns all statements of a build by name.
func (b build) statements(t *testing.T) (all map[string]string) {
	t.Helper()
	dir := filepath.Join(b.source, "cmd", "print-statements")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(printStatements), 0o644))
	command := exec.Command("go", "run", "./cmd/print-statements")
	command.Dir = b.source
	out, err := command.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &all))
	return all
}

// upgraded returns a database that the baseline's build has created and the present build has upgraded, and one that
// the present build has created.
func upgraded(t *testing.T, old, present build) (upgraded, fresh *pgx.Conn) {
	t.Helper()
	first, second := sqltest.EmptyURL(t), sqltest.EmptyURL(t)
	require.NoError(t, old.pgdispatch(first, "migrate", "up"))
	require.NoError(t, present.pgdispatch(first, "migrate", "up"))
	require.NoError(t, present.pgdispatch(second, "migrate", "up"))
	return connect(t, first), connect(t, second)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// Every statement, also those that no load reaches.
func TestEveryStatementOfTheBaselineHasTheSameParametersAndResultOnTheUpgradedSchema(t *testing.T) {
	t.Parallel()
	old, present := both(t)
	url := sqltest.EmptyURL(t)
	require.NoError(t, old.pgdispatch(url, "migrate", "up"))
	before := connect(t, url)
	after, _ := upgraded(t, old, present)
	statements := old.statements(t)
	require.NotEmpty(t, statements)
	for verb, text := range statements {
		want, err := shape(t, before, text)
		require.NoError(t, err, verb)
		got, err := shape(t, after, text)
		if err != nil || !slices.Equal(want, got) {
			t.Errorf("%s.sql of the baseline takes and returns\n  %v, on the upgraded schema\n  %v (%v): keep what it calls, "+
				"and give the new function another name", verb, want, got, err)
		}
	}
}

// shape returns the types of a statement's parameters and the names and types of its columns.
func shape(t *testing.T, conn *pgx.Conn, text string) (shape []string, err error) {
	t.Helper()
	described, err := conn.Prepare(t.Context(), "", text)
	if err != nil {
		return nil, err
	}
	name := func(oid uint32) string {
		if typ, known := conn.TypeMap().TypeForOID(oid); known {
			return typ.Name
		}
		return fmt.Sprint(oid)
	}
	for _, oid := range described.ParamOIDs {
		shape = append(shape, name(oid))
	}
	shape = append(shape, "->")
	for _, field := range described.Fields {
		shape = append(shape, field.Name+" "+name(field.DataTypeOID))
	}
	return shape, nil
}

// Without the functions, of which an upgraded schema keeps those that older replicas call.
const tables = `
select format('column %s.%s %s %s %s', c.table_name, c.column_name, c.data_type, c.is_nullable, c.column_default)
from information_schema.columns c where c.table_schema = 'pgdispatch'
union all
select format('index %s', i.indexdef) from pg_indexes i where i.schemaname = 'pgdispatch'
union all
select format('constraint %s %s', k.conrelid::regclass, pg_get_constraintdef(k.oid)) from pg_constraint k
where k.connamespace = 'pgdispatch'::regnamespace and k.conrelid <> 0
union all
select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'pgdispatch'::regnamespace and not t.tgisinternal
order by 1`

func TestAnUpgradedSchemaHasTheTablesOfAFreshOne(t *testing.T) {
	t.Parallel()
	old, present := both(t)
	upgraded, fresh := upgraded(t, old, present)
	require.Equal(t, lines(t, fresh), lines(t, upgraded),
		"a migration of the baseline has changed: move the change to a new file in sql/tables")
}

func lines(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), tables)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}
