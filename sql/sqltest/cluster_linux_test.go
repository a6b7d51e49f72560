package sqltest_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestServerDiesWithItsOwner(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	pid, clusterDir := killOwner(t, dir)

	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil || isZombie(pid) },
		10*time.Second, 10*time.Millisecond, "postgres %d outlived its owner", pid)
	require.DirExists(t, clusterDir, "a killed owner cannot clean up")

	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(clusterDir, "owner.lock"), old, old))
	startCluster(t, sqltest.Options{ParentDir: dir})
	require.NoDirExists(t, clusterDir, "the next start removes what a killed owner left")
}

// killOwner starts a cluster in another process, kills that process, and returns the PID and the directory of the
// cluster.
func killOwner(t *testing.T, dir string) (int, string) {
	t.Helper()
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), ownerVariable+"="+dir)
	owner.Stderr = os.Stderr
	stdout := must.Get(owner.StdoutPipe()).In(t)
	require.NoError(t, owner.Start())
	line := must.Get(bufio.NewReader(stdout).ReadString('\n')).In(t)
	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait()
	pidText, clusterDir, ok := strings.Cut(strings.TrimSpace(line), " ")
	require.True(t, ok, line)
	pid := must.Get(strconv.Atoi(pidText)).In(t)
	return pid, clusterDir
}

// isZombie reports whether a process has ended but was not reaped: a container may have no process that reaps it.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
