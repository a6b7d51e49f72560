package sql_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// grammar lists, for each column, values that a client might write. An empty text leaves the column out, and so do two
// of three draws: a row with every column wrong shows nothing.
var grammar = []struct {
	column string
	values []string
}{
	{"params", []string{
		`'{}'`, `'{"a": 1}'`, `'{"a": 1e400}'`, `'{"a": "\u001b[0m\u202e"}'`, `'{"\n": [[[]]]}'`, `'{"a": 1, "a": 2}'`,
		"jsonb_build_object('a', repeat('é', 1000))", "(repeat('{\"a\":', 3000) || '1' || repeat('}', 3000))::jsonb",
		"jsonb_build_object('a', repeat('x', 1966072))", `'[]'`, `'null'`, `null`, `'"x"'`, `'{"a": "\u0000"}'`,
		`'{"a": "\udead"}'`, `'{'`, `''`,
	}},
	{"priority", []string{"0", "100", "-100", "'7'", "-101", "2147483647", "1e30", "0.4", "'NaN'", "null"}},
	{"run_at", []string{
		"now()", "'2000-01-01 00:00Z'", "'2199-12-31 23:59Z'", "now() + interval '1 day'", "'today'", "'epoch'", "'infinity'",
		"'-infinity'",
		"'4713-01-01 BC'", "'294276-12-31'", "''", "null", "'2026-02-30'",
	}},
	{"idempotency_key",
		[]string{"gen_random_uuid()", "gen_random_uuid()", "'same'", "''", "repeat('x', 200)", "repeat('x', 201)",
			`E'\n\x1b'`, "null"}},
	{"traceparent", []string{
		"'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'", "'00-0'", "''", `E'\n'`, "repeat('0', 100000)",
	}},
	{"status", []string{"", "", "", "'PENDING'", "'CLAIMED'", "'pending'", "null"}},
	{"lease_token", []string{"", "", "", "0", "-1", "9223372036854775807"}},
	{"workflow_definition_id", []string{
		"@definition", "@definition", "@definition", "@definition", "@definition", "@definition", "@definition", "@foreign",
		"gen_random_uuid()", "null", "'x'",
	}},
}

func TestRandomRowsAreRefusedOrRun(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("ENTERPRISE"), f.tenant("FREE")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 1000")
	f.maxClaims(1000)
	random := rand.New(rand.NewPCG(20260814, 7))
	accepted := []int64{}
	known := []string{"22", "23502", "23505", "54001", "PGD"}
	for range 500 {
		statement := randomRow(random).statement(w, other) + " returning id"
		var id int64
		before := f.left()
		err := f.db.QueryRow(t.Context(), statement).Scan(&id)
		if err == nil {
			accepted = append(accepted, id)
			continue
		}
		refusal := f.pgError(err)
		require.True(t, slices.ContainsFunc(known, func(class string) bool { return strings.HasPrefix(refusal.Code, class) }),
			"%s %s: %.500s", refusal.Code, refusal.Message, statement)
		require.Equal(t, before, f.left(), "%.500s", statement)
	}
	require.Greater(t, len(accepted), 50, "the grammar must yield valid and invalid rows")
	require.Less(t, len(accepted), 450, "the grammar must yield valid and invalid rows")

	f.exec("update pgdispatch.workflow_execution_queue set run_at = now() where run_at > now()")
	claimed := []int64{}
	for b := f.claim(16); len(b.items) > 0; b = f.claim(16) {
		require.ElementsMatch(t, b.ids(), f.dispatched(b))
		claimed = append(claimed, b.ids()...)
	}
	require.ElementsMatch(t, accepted, claimed, "every accepted row is claimed, whatever else is in its batch")
}

func randomRow(random *rand.Rand) badRow {
	columns, values := []string{"workspace_id"}, []string{"@workspace"}
	for _, column := range grammar {
		value := column.values[random.IntN(len(column.values))]
		if value != "" && (column.column == "workflow_definition_id" || random.IntN(3) == 0) {
			columns, values = append(columns, column.column), append(values, value)
		}
	}
	return badRow{columns: strings.Join(columns, ", "), values: strings.Join(values, ", ")}
}
