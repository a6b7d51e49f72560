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

	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	beginGenerated = "<!-- generated: states -->\n"
	endGenerated   = "<!-- end -->\n"
)

func TestLifecycleDiagram(t *testing.T) {
	t.Parallel()
	f := open(t)
	path := filepath.Join("..", "docs", "lifecycle.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), beginGenerated)
	require.True(t, found, "docs/lifecycle.md has lost its marker")
	_, after, found := strings.Cut(rest, endGenerated)
	require.True(t, found, "docs/lifecycle.md has lost its end marker")
	want := before + beginGenerated + diagram(f) + endGenerated + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "go test ./sql -run TestLifecycleDiagram -update rewrites the diagram")
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

// Every SQL block of these pages is run, in order, on a database per page. A block that begins with "-- refused" and a
// SQLSTATE must fail with it; one with an ellipsis is a sketch and is skipped.
func TestEverySnippetOfThePagesRuns(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "docs/enqueue.md", "docs/quickstart.md", "docs/security.md",
		"docs/troubleshooting.md"} {
		t.Run(page, func(t *testing.T) { t.Parallel(); runSnippets(t, page) })
	}
}

func runSnippets(t *testing.T, name string) {
	f := open(t)
	page, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		if strings.Contains(block[1], "…") {
			continue
		}
		code, refused := strings.CutPrefix(block[1], "-- refused: ")
		if refused {
			code = code[:5]
			require.Equal(t, code, f.refused(block[1]).Code, block[1])
			continue
		}
		if statement, rows, copies := strings.Cut(block[1], "from stdin;\n"); copies {
			rows = strings.TrimSuffix(rows, "\\.\n")
			_, columns, _ := strings.Cut(statement, "(")
			require.NoError(t, f.copyText(strings.TrimSuffix(strings.TrimSpace(columns), ")"), rows), block[1])
			continue
		}
		f.exec(block[1])
	}
}
