package pgdispatch_test

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

// emission is a line of docs/contributing/observability.md: the name, the file that emits it, and the test that checks
// it.
var emission = regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| `([^`]+)` \\| `(Test[^`]+)` \\|")

func TestWhatIsEmittedIsEmittedThereAndSeenByItsTest(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("docs/contributing/observability.md")).In(t)
	files := parse(t, true)
	tests := map[string]string{}
	for path, file := range files {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, declaration := range file.ast.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(function.Name.Name, "Test") {
				from, to := file.set.Position(function.Pos()).Offset, file.set.Position(function.End()).Offset
				tests[function.Name.Name] = file.text[from:to]
			}
		}
	}
	lines := emission.FindAllStringSubmatch(string(page), -1)
	require.Equal(t, strings.Count(string(page), "\n| ")-3, len(lines),
		"every line of the tables except their three heads")
	for _, line := range lines {
		name, path, test := line[1], line[2], line[3]
		require.Contains(t, files, path)
		require.Contains(t, files[path].text, `"`+name+`"`, "%s does not emit it", path)
		// As a string of its own, or with a level before it or a label after it.
		require.Regexp(t, `"(?:[A-Z]+ )?`+regexp.QuoteMeta(name)+`[" ]`, tests[test], "%s does not check it", test)
	}
}

// Log messages are constants, so the messages of the page can be looked up in the code.
// joined matches a string literal that continues on the next line.
var joined = regexp.MustCompile("\" ?\\+\n\t+\"")

func TestEveryLogEventOfTheDocsIsInTheCode(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("docs/logs.md")).In(t)
	var code strings.Builder
	for path, file := range parse(t, false) {
		if !strings.HasPrefix(path, "cmd/devstack/") && !strings.HasPrefix(path, "test/") {
			code.WriteString(joined.ReplaceAllString(file.text, ""))
		}
	}
	rows := regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| [A-Z]").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(rows), 40)
	for _, row := range rows {
		for _, message := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			require.Contains(t, code.String(), `"`+message[1]+`"`)
		}
	}
}

var leveledCall = regexp.MustCompile(`\.(Debug|Info|Warn|Error)(?:Context)?\(\s*(?:ctx,\s+)?"([^"]+)"`)

func TestTheDocsSayAtWhichLevelAnEventIsLogged(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("docs/logs.md")).In(t)
	levels := map[string]string{}
	rows := regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([A-Z]+)[:. ]")
	for _, row := range rows.FindAllStringSubmatch(string(page), -1) {
		for _, message := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			levels[message[1]] = row[2]
		}
	}
	for path, file := range parse(t, false) {
		if strings.HasPrefix(path, "cmd/devstack/") || strings.HasPrefix(path, "test/bench/") {
			continue
		}
		for _, call := range leveledCall.FindAllStringSubmatch(joined.ReplaceAllString(file.text, ""), -1) {
			require.Equal(t, levels[call[2]], strings.ToUpper(call[1]), "%s: %s", path, call[2])
		}
	}
}
