package lint_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// maxSQLColumns is the length of a line.
const maxSQLColumns = 150

var sqlText = regexp.MustCompile(`(?i)^\s*(select|insert|update|delete|with|lock|listen|notify)\s`)

// sqlAllowed lists the places outside package sql that contain statements, and why.
var sqlAllowed = map[string]string{
	"sql/migrate/migrate.go":   "reads and locks the version table, which exists before any migration",
	"sql/catalogue.go":         "makes repairs of the names in the catalogue",
	"sql/migrate/functions.go": "records applied files before any verb exists",
}

func TestSQLStandsInSQLFiles(t *testing.T) {
	t.Parallel()
	others := []string{"sql/sqltest", "cmd/devstack", "test/bench", "test/mutants", "docs/clients"}
	for path, file := range withoutTests(t, others...) {
		if sqlAllowed[path] != "" {
			continue
		}
		ast.Inspect(file.ast, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				require.NotRegexp(t, sqlText, strings.Trim(literal.Value, "`\""), "%s has a statement: it belongs in sql", path)
			}
			return true
		})
	}
}

func TestSQLFunctions_FitTheScreen(t *testing.T) {
	t.Parallel()
	for _, function := range sql.Functions() {
		for n, line := range strings.Split(strings.TrimSpace(function.Text), "\n") {
			require.LessOrEqual(t, len(line), maxSQLColumns, "%s: line %d", function.Name, n+1)
		}
	}
}

func TestStatements_SayWhatTheyMove(t *testing.T) {
	t.Parallel()
	for _, verb := range sql.Verbs() {
		name := sql.Room(verb) + "/" + verb
		lines := strings.Split(strings.TrimSpace(sql.Text(verb)), "\n")
		for n, line := range lines {
			require.LessOrEqual(t, len(line), maxSQLColumns, "%s: line %d", name, n+1)
		}
		require.Regexp(t, `^-- (reads|writes,? [a-z_ ,]+|[A-Z]+ -> [A-Z, ]+(; [A-Z]+ -> [A-Z, ]+)*)$`, lines[0], name)
	}
}

var statementUse = regexp.MustCompile(`sql\.Text\("([a-z_]+)"\)`)

func TestAStatementIsInTheFolderOfThePackageThatExecutesIt(t *testing.T) {
	t.Parallel()
	unused := sql.Verbs()
	for path, file := range withoutTests(t, "test", "internal/storetest") {
		for _, use := range statementUse.FindAllStringSubmatch(file.text, -1) {
			require.Equal(t, sql.Room(use[1]), filepath.Base(filepath.Dir(path)), "%s executes %s", path, use[1])
			unused = slices.DeleteFunc(unused, func(verb string) bool { return verb == use[1] })
		}
	}
	require.Equal(t, []string{"cancel"}, unused, "applications execute it")
}

func TestMigrationsAreNumberedFromOneOnAndGoBothWays(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, sql.Migrations())
	for n, m := range sql.Migrations() {
		require.True(t, strings.HasPrefix(m.Name, fmt.Sprintf("%03d_", n+1)), m.Name)
		require.NotEmpty(t, m.Up, m.Name)
		require.NotEmpty(t, m.Down, m.Name)
	}
}

// Each file is applied again over the existing schema, in whatever state it is.
func TestEveryFunctionAndTriggerReplacesWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, f := range sql.Functions() {
		require.Contains(t, f.Text, "create or replace ", f.Name)
		require.NotRegexp(t, `(?m)^create (function|trigger)`, f.Text, f.Name)
		if f.Name != sql.Triggers {
			require.Contains(t, f.Text, "create or replace function pgdispatch."+f.Name+"(", "%s is named like its file", f.Name)
		}
	}
}

// unscoped are the statements that are not given the scope of a Store, by the reason.
var unscoped = map[string]string{
	"they are the same for all workspaces":                 "replicas settings_get tier_list",
	"a store within some workspaces does not execute them": "limit_remove limit_set limits_in_use",
	"only the command line executes them": `definition_create definition_version definitions
		item_find item_purge items_enqueue items_enqueue_keyed items_open listen_ended
		signal_send_to workspace_create workspace_list workspace_statistics adopt_database`,
}

func TestAStoreGivesItsScopeToEveryStatement(t *testing.T) {
	t.Parallel()
	without := []string{}
	for path, file := range withoutTests(t) {
		if filepath.Dir(path) != "internal/operate" {
			continue
		}
		for function := range strings.SplitSeq(file.text, "\nfunc ") {
			if strings.Contains(function, "s.Scope") || strings.Contains(function, "s.scoped(") {
				continue
			}
			for _, verb := range statementUse.FindAllStringSubmatch(function, -1) {
				if !strings.HasPrefix(verb[1], "doctor_") {
					without = append(without, verb[1])
				}
			}
		}
	}
	slices.Sort(without)
	var reasoned []string
	for _, statements := range unscoped {
		reasoned = append(reasoned, strings.Fields(statements)...)
	}
	require.ElementsMatch(t, reasoned, slices.Compact(without))
}
