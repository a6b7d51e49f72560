package sqltest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// ownerVariable makes the test binary own a cluster in the directory that it names.
const ownerVariable = "PGDISPATCH_TEST_CLUSTER_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerVariable); dir != "" {
		ownClusterUntilKilled(dir)
		return
	}
	sqltest.Main(m)
}

// ownClusterUntilKilled is the other process of TestServerDiesWithItsOwner: it starts a cluster, prints its place, and
// waits to be killed.
func ownClusterUntilKilled(dir string) {
	cluster, err := sqltest.StartCluster(context.Background(), sqltest.Options{ParentDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cluster.PID(), cluster.Dir)
	select {}
}

// openDir is a temporary directory that any user may enter; the parents of t.TempDir may forbid that.
func openDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "pgdispatch-test-*")).In(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func startCluster(t *testing.T, opts sqltest.Options) *sqltest.Cluster {
	t.Helper()
	cluster := must.Get(sqltest.StartCluster(t.Context(), opts)).In(t)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	return cluster
}

func query(t *testing.T, cluster *sqltest.Cluster, query string) (answer string) {
	t.Helper()
	require.NoError(t, sqltest.Pool(t, cluster.URL("postgres")).QueryRow(t.Context(), query).Scan(&answer))
	return answer
}

func TestClusterAcceptsConnectionsAndOverridesSettings(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, sqltest.Options{Settings: map[string]string{"fsync": "on", "work_mem": "7MB"}})

	require.Equal(t, "on", query(t, cluster, "show fsync"), "an override")
	require.Equal(t, "7MB", query(t, cluster, "show work_mem"), "a setting without a default of ours")
	require.Equal(t, "on", query(t, cluster, "show track_commit_timestamp"), "a default")
	require.Equal(t, "UTF8", query(t, cluster, "show server_encoding"))
	require.Equal(t, "127.0.0.1", query(t, cluster, "show listen_addresses"))
	require.Contains(t, cluster.LogTail(), "ready to accept connections")
}

func TestStopLeavesNothingAndMayBeCalledTwice(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, sqltest.Options{})

	require.NoError(t, cluster.Stop())
	require.NoError(t, cluster.Stop())

	requireClosed(t, cluster.Exited())
	require.NoDirExists(t, cluster.Dir)
	_, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cluster.Port)))
	require.Error(t, err, "the port is closed")
}

func TestStopAfterTheServerWasKilled(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, sqltest.Options{})

	require.NoError(t, syscall.Kill(cluster.PID(), syscall.SIGKILL))
	requireClosed(t, cluster.Exited())

	require.NoError(t, cluster.Stop())
	require.NoDirExists(t, cluster.Dir)
}

func TestStartErrorNamesTheReasonAndLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := openDir(t)

	_, err := sqltest.StartCluster(t.Context(), sqltest.Options{
		ParentDir: dir,
		Settings:  map[string]string{"shared_buffers": "a lot"},
	})

	require.ErrorContains(t, err, "shared_buffers", "the error contains the end of the server's log")
	require.Empty(t, entries(t, dir))
}

func TestStartStopsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := sqltest.StartCluster(ctx, sqltest.Options{ParentDir: dir, BinDir: binDir(t)})

	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, entries(t, dir))
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list := must.Get(os.ReadDir(dir)).In(t)
	return list
}

func binDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(sqltest.FindBinDir(t.Context())).In(t)
	return dir
}

func requireClosed(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		require.Fail(t, "still running after 10 s")
	}
}

func TestACrashUndoesAsynchronousCommitsAndNoOthers(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, sqltest.Options{})
	conn, err := pgx.Connect(t.Context(), cluster.URL("postgres"))
	require.NoError(t, err)
	require.NoError(t, cluster.HoldWAL(t.Context()))
	for _, statement := range []string{
		"create table kept (n integer)", "set synchronous_commit = off", "insert into kept values (1)",
		"set synchronous_commit = on", "insert into kept values (2)", // durable, and with it what came before
		"set synchronous_commit = off", "insert into kept values (3)",
	} {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	port := cluster.Port
	require.NoError(t, cluster.Crash(t.Context()))
	require.Equal(t, port, cluster.Port)
	require.Equal(t, "1,2", query(t, cluster, "select string_agg(n::text, ',' order by n) from kept"))
}
