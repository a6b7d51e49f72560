package sqltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t,
		[]string{"/usr/lib/postgresql/18/bin", "/usr/pgsql-15/bin", "/usr/lib/postgresql/9.6/bin",
			"/opt/homebrew/opt/postgresql/bin"},
		newestFirst(
			[]string{"/usr/lib/postgresql/9.6/bin", "/opt/homebrew/opt/postgresql/bin", "/usr/lib/postgresql/18/bin",
				"/usr/pgsql-15/bin"}))
}

func TestHasServerWantsBothPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "initdb"), nil, 0o755))
	require.False(t, hasServer(dir), "initdb alone")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), nil, 0o755))
	require.True(t, hasServer(dir))
}

func TestServerSettingsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	settings := serverSettings(5433, map[string]string{"port": "1", "listen_addresses": "*", "fsync": "on"})

	require.Equal(t, "5433", settings["port"])
	require.Equal(t, "127.0.0.1", settings["listen_addresses"])
	require.Equal(t, "on", settings["fsync"])
}
