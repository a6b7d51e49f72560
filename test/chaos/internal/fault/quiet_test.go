package fault

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/proxy"
)

// The quiet faults know statements by how their names begin. They import nothing of the product, so a statement that is
// changed may leave a name behind that fits none, and then a sweep counts as the settle that it looks like.
func TestEveryNameOfAStatementFitsOne(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../../sql/*/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var names []string
	for _, file := range files {
		names = append(names, proxy.StatementName(text(t, file)))
	}
	fits := func(prefix string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) })
	}
	for _, prefix := range slices.Concat(incidental, []string{claims, heartbeats, takes}) {
		if first, _, _ := strings.Cut(prefix, " "); first == "writes" || strings.ToUpper(first) == first {
			require.True(t, fits(prefix), prefix)
		}
	}
	require.True(t, isIncidental(proxy.StatementName(text(t, "../../../../sql/sweeper/sweep.sql"))))
}

func text(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
