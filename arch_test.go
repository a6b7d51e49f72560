// Package pgdispatch_test checks the repository's rules, such as which package may import which, and that the pages and
// the files of deploy/ agree with the code.
package pgdispatch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	module = "github.com/pgdispatch/pgdispatch"
	// maxFunctionLines and maxFileLines are the limits for product code; tests have slightly higher ones.
	maxFunctionLines, maxTestFunctionLines = 60, 70
	maxFileLines, maxTestFileLines         = 350, 400
	// maxSQLFunctionLines counts a function as it is applied, with its parts.
	maxSQLFunctionLines = 90
	maxStatementLines   = 60
	maxSQLColumns       = 150
	maxColumns          = 120
)

// edges lists all imports between the product's packages. A new one is a decision.
var edges = map[string][]string{
	"claim":               {"claim/schedule", "internal/postgres", "internal/temporal", "sql"},
	"claim/schedule":      nil, // pure
	"cmd/pgdispatch":      {"internal/config", "internal/logging", "internal/operate/cli", "internal/replica"},
	"complete":            {"internal/attempt", "internal/postgres", "internal/serve", "internal/temporal", "sql"},
	"dispatch":            {"claim", "dispatch/engine", "internal/attempt", "internal/postgres"},
	"dispatch/engine":     nil,
	"docs/clients":        nil,
	"docs/clients/worker": nil,
	"finish":              {"internal/temporal"}, // for workers: as few dependencies as possible
	"internal/admin":      {"internal/attempt", "internal/serve", "internal/signin"},
	"internal/attempt":    nil,
	"internal/config":     {"internal/postgres", "internal/spelling", "internal/temporal"},
	"internal/goldentest": nil,
	"internal/local":      nil,
	"internal/logging":    {"internal/postgres"},
	"internal/logtest":    nil,
	"internal/must":       nil,
	"internal/operate":    {"internal/postgres", "internal/spelling", "internal/temporal", "notify", "sql"},
	"internal/operate/cli": {"internal/config", "internal/operate", "internal/operate/doctor", "internal/operate/view",
		"internal/postgres", "internal/spelling", "internal/temporal", "sql/migrate"},
	"internal/operate/doctor": {"internal/config", "internal/local", "internal/operate", "internal/operate/view",
		"internal/postgres", "internal/spelling", "internal/temporal", "notify", "sql/migrate"},
	"internal/operate/view": {"internal/operate"},
	"internal/operate/web": {"internal/operate", "internal/operate/view", "internal/postgres", "internal/signin",
		"internal/temporal"},
	"internal/postgres": {"internal/local"},
	"internal/process":  nil,
	"internal/spelling": nil,
	// wires all packages
	"internal/replica": {"claim", "complete", "dispatch", "dispatch/engine", "internal/admin", "internal/attempt",
		"internal/config", "internal/logging", "internal/operate", "internal/operate/web", "internal/postgres",
		"internal/signin", "internal/telemetry", "internal/temporal", "notify", "request", "sql", "sql/migrate", "sweeper"},
	"internal/serve":       nil,
	"internal/troubletest": nil,
	"internal/storetest":   {"claim", "complete", "internal/operate", "request", "sql", "sql/sqltest", "sweeper"},
	"internal/signin":      nil,
	"internal/signintest":  nil,
	"internal/codectest":   nil,
	// called by these packages, and reads gauges
	"internal/telemetry": {"claim", "dispatch/engine", "internal/operate", "internal/postgres", "sweeper"},
	"internal/temporal":  {"dispatch/engine", "internal/local"},
	"notify":             {"internal/attempt", "internal/postgres", "sql"},
	"request":            {"dispatch/engine", "internal/attempt", "internal/postgres", "internal/temporal", "sql"},
	"sql":                nil,
	"sql/migrate":        {"internal/postgres", "sql"},
	"sql/sqltest":        {"sql/migrate"},
	"sweeper":            {"internal/attempt", "internal/postgres", "internal/temporal", "notify", "sql"},
}

func TestPackagesKnowOnlyWhoTheyNeed(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for _, line := range goList(t, `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module+"/")
		if fields[0] == module {
			continue
		}
		got[name] = nil
		for _, imported := range fields[1:] {
			if internal, ok := strings.CutPrefix(imported, module+"/"); ok {
				got[name] = append(got[name], internal)
			}
		}
	}
	require.Equal(t, edges, got)
}

func TestTestCodeStaysOutOfTheBinary(t *testing.T) {
	t.Parallel()
	for _, dependency := range goList(t, "{{.ImportPath}}", "-deps", "./cmd/pgdispatch") {
		require.NotRegexp(t, "internal/must|go.temporal.io/server|"+
			"(codec|golden|log|signin|sql|store|trouble)test$", dependency)
	}
	// Temporal's SDK imports testify itself; pgdispatch's own packages do not.
	for _, line := range goList(t, `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, module+"/"), " ")
		forTests := []string{"sql/sqltest", "internal/storetest", "internal/goldentest", "internal/must",
			"internal/troubletest"}
		if !slices.Contains(forTests, name) {
			require.NotContains(t, line, "testify")
			require.NotContains(t, strings.Fields(line), "testing")
		}
	}
}

func goList(t *testing.T, format string, args ...string) []string {
	t.Helper()
	out := must.Get(exec.Command("go", append([]string{"list", "-f", format}, args...)...).Output()).In(t)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

var sqlText = regexp.MustCompile(`(?i)^\s*(select|insert|update|delete|with|lock|listen|notify)\s`)

// sqlAllowed lists the places outside package sql that contain statements, and why.
var sqlAllowed = map[string]string{
	"sql/migrate/migrate.go":   "reads and locks the version table, which exists before any migration",
	"sql/migrate/functions.go": "records applied files before any verb exists",
}

func TestSQLStandsInSQLFiles(t *testing.T) {
	t.Parallel()
	for path, file := range parse(t, false) {
		if sqlAllowed[path] != "" || strings.HasPrefix(path, "sql/sqltest/") ||
			strings.HasPrefix(path, "cmd/devstack/") || strings.HasPrefix(path, "test/bench/") ||
			strings.HasPrefix(path, "test/mutants/") ||
			strings.HasPrefix(path, "docs/clients/") {
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

func TestSQLFunctionsAreOfAReadableLength(t *testing.T) {
	t.Parallel()
	for _, function := range sql.Functions() {
		if function.Name == "triggers" {
			continue // many functions of a few lines each
		}
		lines := strings.Split(strings.TrimSpace(function.Text), "\n")
		require.LessOrEqual(t, len(lines), maxSQLFunctionLines, function.Name)
		for n, line := range lines {
			require.LessOrEqual(t, len(line), maxSQLColumns, "%s: line %d", function.Name, n+1)
		}
	}
}

func TestFilesAndFunctionsAreOfAReadableLength(t *testing.T) {
	t.Parallel()
	for path, file := range parse(t, true) {
		inFile, inFunction := maxFileLines, maxFunctionLines
		if strings.HasSuffix(path, "_test.go") {
			inFile, inFunction = maxTestFileLines, maxTestFunctionLines
		}
		require.LessOrEqual(t, file.lines(file.ast), inFile, path)
		for n, line := range strings.Split(file.text, "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), maxColumns, "%s: line %d", path, n+1)
		}
		for _, declaration := range file.ast.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				require.LessOrEqual(t, file.lines(function), inFunction, "%s: %s", path, function.Name.Name)
			}
		}
	}
}

func TestEverythingExportedIsDocumented(t *testing.T) {
	t.Parallel()
	for path, file := range parse(t, false) {
		for _, declaration := range file.ast.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				require.False(t, d.Name.IsExported() && d.Doc == nil && isExportedReceiver(d), "%s: %s has no comment", path,
					d.Name.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if typeSpec, ok := spec.(*ast.TypeSpec); ok {
						require.False(t, typeSpec.Name.IsExported() && d.Doc == nil && typeSpec.Doc == nil, "%s: %s has no comment", path,
							typeSpec.Name.Name)
					}
				}
			}
		}
	}
}

func isExportedReceiver(function *ast.FuncDecl) bool {
	if function.Recv == nil {
		return true
	}
	expr := function.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	name, ok := expr.(*ast.Ident)
	return ok && name.IsExported()
}

func TestNoTestSleepsOutsideABubble(t *testing.T) {
	t.Parallel()
	files := parse(t, true)
	bubbles := map[string]bool{} // packages whose loops are tested in synctest bubbles
	for path, file := range files {
		if slices.ContainsFunc(file.ast.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == `"testing/synctest"`
		}) {
			bubbles[filepath.Dir(path)] = true
		}
	}
	for path, file := range files {
		if !strings.HasSuffix(path, "_test.go") || path == "arch_test.go" {
			continue
		}
		if !bubbles[filepath.Dir(path)] {
			require.NotContains(t, file.text, "time.Sleep(", path)
		}
		require.NotRegexp(t, `\bt\.Skipf?\(`, file.text, path)
	}
}

// statements returns the folder of each statement.
func statements() map[string]string {
	folders := map[string]string{}
	for _, verb := range sql.Verbs() {
		folders[verb] = sql.Room(verb)
	}
	return folders
}

func TestStatementsAreShortAndSayWhatTheyMove(t *testing.T) {
	t.Parallel()
	for verb, folder := range statements() {
		lines := strings.Split(strings.TrimSpace(sql.Text(verb)), "\n")
		if verb != "claim_single" { // which is one statement on purpose: as several it costs more
			require.LessOrEqual(t, len(lines), maxStatementLines, "%s/%s", folder, verb)
		}
		for n, line := range lines {
			require.LessOrEqual(t, len(line), maxSQLColumns, "%s/%s: line %d", folder, verb, n+1)
		}
		require.Regexp(t, `^-- (reads|writes,? [a-z_ ,]+|[A-Z]+ -> [A-Z, ]+(; [A-Z]+ -> [A-Z, ]+)*)$`, lines[0], "%s/%s",
			folder, verb)
	}
}

var statementUse = regexp.MustCompile(`sql\.Text\("([a-z_]+)"\)`)

func TestAStatementIsInTheFolderOfThePackageThatExecutesIt(t *testing.T) {
	t.Parallel()
	folders := statements()
	unused := maps.Clone(folders)
	for path, file := range parse(t, false) {
		if strings.HasPrefix(path, "test/") || strings.HasPrefix(path, "internal/storetest/") {
			continue
		}
		for _, use := range statementUse.FindAllStringSubmatch(file.text, -1) {
			require.Equal(t, folders[use[1]], filepath.Base(filepath.Dir(path)), "%s executes %s", path, use[1])
			delete(unused, use[1])
		}
	}
	require.Equal(t, map[string]string{"cancel": "client"}, unused)
}

type source struct {
	set  *token.FileSet
	ast  *ast.File
	text string
}

func (s source) lines(node ast.Node) int {
	return s.set.Position(node.End()).Line - s.set.Position(node.Pos()).Line + 1
}

// parse reads all Go files of all modules, with or without the tests.
func parse(t *testing.T, tests bool) map[string]source {
	t.Helper()
	files := map[string]source{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || !tests && strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		files[filepath.ToSlash(path)] = source{set, file, string(text)}
		return err
	}))
	return files
}
