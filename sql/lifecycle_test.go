package sql_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	beginGenerated = "<!-- generated: states -->\n"
	endGenerated   = "<!-- end -->\n"
)

func TestLifecycleDiagram(t *testing.T) {
	t.Parallel()
	f := open(t)
	goldentest.RequirePart(t, "../docs/contributing/design.md", beginGenerated, endGenerated, diagram(f))
}

// diagram draws may_move, and labels each arrow with the statements whose headers declare it.
func diagram(f fixture) string {
	f.t.Helper()
	var out strings.Builder
	out.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> PENDING: insert\n")
	moves := allowed(f)
	for _, m := range moves {
		by := []string{}
		for _, verb := range sql.Verbs() {
			if slices.Contains(header(f.t, verb), m) {
				by = append(by, verb)
			}
		}
		fmt.Fprintf(&out, "    %s --> %s: %s\n", m.from, m.to, strings.Join(by, ", "))
	}
	for _, state := range statuses(f) {
		if !slices.ContainsFunc(moves, func(m move) bool { return m.from == state }) {
			fmt.Fprintf(&out, "    %s --> [*]\n", state)
		}
	}
	out.WriteString("```\n")
	return out.String()
}

func TestLifecycleExplainsEveryStateAndStatement(t *testing.T) {
	t.Parallel()
	f := open(t)
	page, err := os.ReadFile(filepath.Join("..", "docs", "lifecycle.md"))
	require.NoError(t, err)
	for _, state := range statuses(f) {
		require.Contains(t, string(page), "| `"+state+"` |")
	}
	for _, m := range allowed(f) {
		require.Contains(t, string(page), "| `"+m.from+"` to `"+m.to+"` | ")
	}
}
