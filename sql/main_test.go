package sql_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

var update = flag.Bool("update", false, "rewrite the golden files and the diagram in docs/contributing/design.md")

func TestMain(m *testing.M) { sqltest.Main(m) }

// requireGolden compares text with a file in the module's testdata, or writes it there.
func requireGolden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("..", "testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	golden, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(golden), text, "go test ./sql -update rewrites %s; read the difference first", name)
}
