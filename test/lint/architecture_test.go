package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	"internal/looptest":   nil,
	"internal/must":       nil,
	"internal/operate":    {"internal/postgres", "internal/spelling", "internal/temporal", "notify", "sql"},
	"internal/operate/cli": {"internal/config", "internal/operate", "internal/operate/doctor", "internal/operate/view",
		"internal/postgres", "internal/spelling", "internal/temporal", "sql/migrate"},
	"internal/operate/doctor": {"internal/config", "internal/local", "internal/operate", "internal/operate/view",
		"internal/postgres", "internal/spelling", "internal/temporal", "notify", "sql/migrate"},
	"internal/operate/view": {"internal/operate"},
	"internal/operate/web": {"internal/operate", "internal/operate/view", "internal/postgres", "internal/signin",
		"internal/temporal"},
	"internal/postgres": {"internal/local", "sql"},
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
			"(codec|golden|log|loop|signin|sql|store|trouble)test$", dependency)
	}
	// Temporal's SDK imports testify itself; pgdispatch's own packages do not.
	for _, line := range goList(t, `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, module+"/"), " ")
		forTests := []string{"sql/sqltest", "internal/storetest", "internal/goldentest", "internal/looptest",
			"internal/must", "internal/troubletest"}
		if !slices.Contains(forTests, name) {
			require.NotContains(t, line, "testify")
			require.NotContains(t, strings.Fields(line), "testing")
		}
	}
}
