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

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
)

const (
	sqlstatesPage   = "../docs/sqlstates.md"
	beginSQLSTATEs  = "<!-- The list is generated from the SQL functions: make golden -->\n"
	endSQLSTATEs    = "<!-- The list ends -->\n"
	quoted          = `'((?:[^']|''|'\s+')*)'` // a literal, also in several parts
	raisedStatement = `(?s)raise exception ` + quoted + `[^;]*?using errcode = '(\w+)',\s*hint = ` + quoted
)

var partsMeet = regexp.MustCompile(`'\s+'`)

// refusal is an error that a function raises.
type refusal struct{ code, message, hint string }

// refusals reads the functions of a migrated database.
func refusals(f fixture) []refusal {
	f.t.Helper()
	found := []refusal{}
	for _, source := range all[string](f,
		"select proname || ' ' || prosrc from pg_proc where pronamespace = 'pgdispatch'::regnamespace order by 1") {
		function, body, _ := strings.Cut(source, " ")
		raises := regexp.MustCompile(raisedStatement).FindAllStringSubmatch(body, -1)
		require.Len(f.t, raises, strings.Count(body, "raise exception"), "%s: an error has a code and a hint", function)
		for _, r := range raises {
			text := strings.NewReplacer("''", "'", "%", "…", "<", "&lt;")
			message, hint := partsMeet.ReplaceAllString(r[1], ""), partsMeet.ReplaceAllString(r[3], "")
			found = append(found, refusal{r[2], text.Replace(message), text.Replace(hint)})
		}
	}
	slices.SortFunc(found, func(a, b refusal) int {
		return strings.Compare(a.code+a.message+a.hint, b.code+b.message+b.hint)
	})
	return slices.Compact(found)
}

func TestThePageOfSQLSTATEsHasEveryErrorThatIsRaised(t *testing.T) {
	t.Parallel()
	list, code := "", ""
	for _, r := range refusals(open(t)) {
		if r.code != code {
			list += fmt.Sprintf("\n### %s\n\n", r.code)
		}
		list += "- *" + r.message + "*"
		if !strings.Contains(r.message, " must ") { // or the message says what to do
			list += ": " + r.hint
		}
		list += "\n"
		code = r.code
	}
	goldentest.RequirePart(t, sqlstatesPage, beginSQLSTATEs, endSQLSTATEs, list+"\n")
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
