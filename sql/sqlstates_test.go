package sql_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	sqlstatesPage   = "../docs/sqlstates.md"
	beginSQLSTATEs  = "<!-- The table is generated from sql/functions: make golden -->\n"
	endSQLSTATEs    = "<!-- The table ends -->\n"
	quoted          = `'((?:[^']|'')*)'`
	raisedStatement = `(?s)raise exception ` + quoted + `[^;]*?using errcode = '(\w+)',\s*hint = ` + quoted
)

// raisedBy describes the client's action if it is not the function's name.
var raisedBy = map[string]string{
	"item_enqueued": "an insert of items", "refuse_item": "an insert of items",
	"item_stage": "an insert or update of items", "check_values": "an insert or update of items",
	"refuse_change": "an update of items", "item_moved": "an update of items", "execution_said": "an update of executions",
	"see_to": "`replay`, `discard`", "check_definition": "an insert of items", "check_policy": "`enqueue`",
}

// refusal is an error that a function raises.
type refusal struct{ code, message, hint, by string }

// refusals reads the functions of a migrated database.
func refusals(f fixture) []refusal {
	f.t.Helper()
	found := []refusal{}
	for _, source := range all[string](f,
		"select proname || ' ' || prosrc from pg_proc where pronamespace = 'pgdispatch'::regnamespace order by 1") {
		function, body, _ := strings.Cut(source, " ")
		by, known := raisedBy[function]
		if !known {
			by = "`" + function + "`"
		}
		raises := regexp.MustCompile(raisedStatement).FindAllStringSubmatch(body, -1)
		require.Len(f.t, raises, strings.Count(body, "raise exception"), "%s: an error has a code and a hint", function)
		for _, r := range raises {
			text := strings.NewReplacer("''", "'", "%", "…", "|", `\|`, "<", "&lt;")
			found = append(found, refusal{r[2], text.Replace(r[1]), text.Replace(r[3]), by})
		}
	}
	slices.SortStableFunc(found, func(a, b refusal) int { return strings.Compare(a.code+a.message, b.code+b.message) })
	return slices.Compact(found)
}

func TestThePageOfSQLSTATEsHasEveryErrorThatIsRaised(t *testing.T) {
	t.Parallel()
	table := "| SQLSTATE | the error says | its hint | raised by |\n|---|---|---|---|\n"
	for _, r := range refusals(open(t)) {
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", r.code, r.message, r.hint, r.by)
	}
	page, err := os.ReadFile(sqlstatesPage)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), beginSQLSTATEs)
	require.True(t, found)
	_, after, found := strings.Cut(rest, endSQLSTATEs)
	require.True(t, found)
	want := before + beginSQLSTATEs + table + endSQLSTATEs + after
	if *update {
		require.NoError(t, os.WriteFile(sqlstatesPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "make golden rewrites it")
}

func TestEveryErrorIsSeenByATest(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var text strings.Builder
	for _, path := range tests {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		text.Write(content)
	}
	for _, r := range refusals(open(t)) {
		require.Contains(t, text.String(), `"`+r.code+`"`, r.message)
	}
}
