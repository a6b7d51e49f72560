package lint_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/internal/telemetry"
	"github.com/pgdispatch/pgdispatch/sql"
)

// make golden runs the tests that have "Page" in their names with -update.

// moves are the transitions of an item that may_move allows: the whole text, from and to.
func moves(t *testing.T) [][]string {
	t.Helper()
	functions := sql.Functions()
	at := slices.IndexFunc(functions, func(f sql.Function) bool { return f.Name == "may_move" })
	all := regexp.MustCompile(`\('([A-Z]+)', +'([A-Z]+)'\)`).FindAllStringSubmatch(functions[at].Text, -1)
	require.NotEmpty(t, all)
	return all
}

// The diagram labels each move with the statements whose first lines declare it.
func TestThePageOfTheDesignDrawsTheLifecycle(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	out.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> PENDING: insert\n")
	left, entered := map[string]bool{}, []string{}
	for _, m := range moves(t) {
		declares, by := regexp.MustCompile(`^-- (.*; )?`+m[1]+` -> [A-Z, ]*\b`+m[2]+`\b`), []string{}
		for _, verb := range sql.Verbs() {
			if declares.MatchString(sql.Text(verb)) {
				by = append(by, verb)
			}
		}
		fmt.Fprintf(&out, "    %s --> %s: %s\n", m[1], m[2], strings.Join(by, ", "))
		left[m[1]], entered = true, append(entered, m[2])
	}
	slices.Sort(entered)
	for _, state := range slices.Compact(entered) {
		if !left[state] {
			fmt.Fprintf(&out, "    %s --> [*]\n", state)
		}
	}
	out.WriteString("```\n")
	goldentest.RequirePart(t, "docs/contributing/design.md", "<!-- generated: states -->\n", "<!-- end -->\n",
		out.String())
}

func TestLifecycleExplainsEveryStateAndMove(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/lifecycle.md")
	for _, m := range moves(t) {
		require.Contains(t, page, "| `"+m[1]+"` |")
		require.Contains(t, page, "| `"+m[2]+"` |")
		require.Contains(t, page, "| `"+m[1]+"` to `"+m[2]+"` | ")
	}
}

const (
	sqlstatesPage   = "docs/sqlstates.md"
	beginSQLSTATEs  = "<!-- The list is generated from the SQL functions: make golden -->\n"
	endSQLSTATEs    = "<!-- The list ends -->\n"
	quoted          = `'((?:[^']|''|'\s+')*)'` // a literal, also in several parts
	raisedStatement = `(?s)raise exception ` + quoted + `[^;]*?using errcode = '(\w+)',\s*hint = ` + quoted
)

var partsMeet = regexp.MustCompile(`'\s+'`)

// refusal is an error that a function raises.
type refusal struct{ code, message, hint string }

// refusals reads the functions and triggers.
func refusals(t *testing.T) []refusal {
	t.Helper()
	found := []refusal{}
	for _, f := range sql.Functions() {
		raises := regexp.MustCompile(raisedStatement).FindAllStringSubmatch(f.Text, -1)
		require.Len(t, raises, strings.Count(f.Text, "raise exception"), "%s: an error has a code and a hint", f.Name)
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
	for _, r := range refusals(t) {
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
	var text strings.Builder
	for _, path := range glob(t, "sql/*_test.go") {
		text.WriteString(read(t, path))
	}
	for _, r := range refusals(t) {
		require.Contains(t, text.String(), `"`+r.code+`"`, r.message)
	}
}

const (
	tablesBegin = "<!-- The tables are generated from internal/telemetry/catalogue.go: make golden -->\n"
	tablesEnd   = "<!-- The tables end -->\n"
)

// unexplained lists the values of a metric's label that its meaning does not mention.
func unexplained(m telemetry.Metric) string {
	explained := func(value string) bool { return strings.Contains(m.Meaning, "`"+value+"`") }
	rest := slices.DeleteFunc(slices.Clone(m.Values), explained)
	if len(rest) == 0 {
		return ""
	}
	word := "Also"
	if len(rest) == len(m.Values) {
		word = "Labels:"
	}
	return " " + word + " `" + strings.Join(rest, "`, `") + "`."
}

// tables are the reference's tables of metrics, one for each kind.
func tables() string {
	var text strings.Builder
	for _, kind := range []string{"counter", "histogram", "gauge"} {
		fmt.Fprintf(&text, "\n### %s%ss\n\n| metric | meaning |\n|---|---|\n", strings.ToUpper(kind[:1]), kind[1:])
		for _, m := range telemetry.Catalogue() {
			if m.Kind != kind {
				continue
			}
			name := m.Name
			if m.Label != "" {
				name += "{" + strings.TrimSuffix(m.Label+","+m.Within, ",") + "}"
			}
			fmt.Fprintf(&text, "| `%s` | %s%s |\n", name, m.Meaning, unexplained(m))
		}
	}
	return text.String() + "\n"
}

func TestThePageOfMetricsHasEveryMetric(t *testing.T) {
	t.Parallel()
	goldentest.RequirePart(t, "docs/metrics.md", tablesBegin, tablesEnd, tables())
}

func TestEveryMetricIsDescribedInFull(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range telemetry.Catalogue() {
		require.False(t, names[m.Name], "%s is there twice", m.Name)
		names[m.Name] = true
		require.Regexp(t, `^pgdispatch_[a-z_]+$`, m.Name)
		require.Equal(t, m.Kind == "counter", strings.HasSuffix(m.Name, "_total"), m.Name)
		require.NotEmpty(t, m.Unit, m.Name)
		require.Regexp(t, `^[A-Z].*\.$|^[A-Z1-9].*: .*`, m.Meaning, m.Name)
		require.Equal(t, m.Kind == "histogram", m.Buckets != nil, m.Name)
		require.False(t, m.Kind == "counter" && m.Label != "" && m.Values == nil, "%s has an unbounded label", m.Name)
		require.NotContains(t, m.Meaning, "|")
	}
}

const (
	settingsPage   = "docs/settings.md"
	settingsBegin  = "<!-- The table is generated from internal/config/config.go: make golden -->\n"
	settingsFinish = "<!-- The table ends -->\n"
)

func TestThePageOfSettingsHasEveryOption(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	for _, o := range config.RunOptions {
		fallback := o.Default
		if fallback != "" {
			fallback = "`" + fallback + "`"
		}
		require.NotContains(t, o.Usage, "|")
		require.Equal(t, o.Flag, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(o.Variable, "PGDISPATCH_")), "_", "-"))
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", o.Variable, fallback, o.Usage)
	}
	goldentest.RequirePart(t, settingsPage, settingsBegin, settingsFinish, table.String())
}

// generatedAlerts are the copies of the alerts that promtool tests.
func generatedAlerts(t *testing.T) map[string]string {
	t.Helper()
	text := read(t, "deploy/prometheus/alerts.yml")
	_, groups, found := strings.Cut(text, "\ngroups:\n")
	require.True(t, found)
	var rule strings.Builder
	rule.WriteString("# Generated from deploy/prometheus/alerts.yml: make golden\napiVersion: " +
		"monitoring.coreos.com/v1\nkind: PrometheusRule\n" +
		"metadata:\n  name: pgdispatch\n  labels: {app.kubernetes.io/name: pgdispatch}\nspec:\n  groups:\n")
	for line := range strings.Lines(groups) {
		rule.WriteString("  " + line)
	}
	return map[string]string{
		"deploy/kubernetes/monitoring/prometheusrule.yaml": rule.String(),
		"deploy/helm/pgdispatch/files/alerts.yml": "# Generated from deploy/prometheus/alerts.yml: make golden\ngroups:\n" +
			groups,
	}
}

func TestOperatorsRulePagesForTheSameAlerts(t *testing.T) {
	t.Parallel()
	for path, want := range generatedAlerts(t) {
		goldentest.Require(t, path, want)
	}
}
