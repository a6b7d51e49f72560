package stack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// program writes a shell script that stands in for a binary. The tests are not parallel: no program may be started
// while another is written.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	return path
}

func logPath(t *testing.T) string { return filepath.Join(t.TempDir(), "log") }

func TestReplicaHasItsEnvironmentAndIsAwaited(t *testing.T) {
	p, err := Replica{
		Name: "replica", DatabaseURL: "postgres://here", Temporal: "there:7233", Env: []string{"TEMPORAL_NAMESPACE=own"},
		Binary: program(t, `echo "$1 $DATABASE_URL $TEMPORAL_ADDRESS $TEMPORAL_NAMESPACE"
			echo '{"msg":"Serving health and metrics","address":"127.0.0.1:8080"}'; exec sleep 60`), LogPath: logPath(t),
	}.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })

	address, err := AwaitSaying(t.Context(), p, Serving)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", address)
	require.Contains(t, p.Log(), "run postgres://here there:7233 own\n")
}

func TestReplicaThatEndsIsNotAwaitedForEver(t *testing.T) {
	p, err := Replica{Name: "replica", Binary: program(t, "echo no database; exit 1"), LogPath: logPath(t)}.Start()
	require.NoError(t, err)

	_, err = AwaitSaying(t.Context(), p, Listening)
	require.ErrorContains(t, err, "no database")
}

func TestTemporalKeepsItsPort(t *testing.T) {
	// Like devstack, it picks a free port if given 0.
	devstack := program(t, `port=${3#*:}; [ "$port" = 0 ] && port=4711
		echo "{\"address\":\"127.0.0.1:$port\",\"namespace\":\"default\"}"; exec sleep 60`)
	server := &Temporal{Binary: devstack, LogPath: logPath(t)}
	for range 2 {
		require.NoError(t, server.Start())
		require.Equal(t, "127.0.0.1:4711", server.Address())
		require.NoError(t, server.Process().Kill())
	}
	require.Contains(t, server.Process().Log(), ":4711")
}

func TestMigrationThatFailsSaysWhy(t *testing.T) {
	require.NoError(t, Migrate(t.Context(), program(t, `[ "$*" = "migrate up" ]`), "postgres://here"))
	err := Migrate(t.Context(), program(t, "echo no such host; exit 1"), "postgres://here")
	require.ErrorContains(t, err, "no such host")
}
