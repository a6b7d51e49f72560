package demo

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func startShell(t *testing.T, script string) *process {
	t.Helper()
	p, err := startProcess("shell", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c", script))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

func awaitLog(t *testing.T, p *process, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return tail(p.logPath) == want }, 10*time.Second, 5*time.Millisecond)
}

func TestProcessThatEndsInOrder(t *testing.T) {
	t.Parallel()
	p := startShell(t, `trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	awaitLog(t, p, "ready")

	require.NoError(t, p.alive())
	require.NoError(t, p.stop())
	require.ErrorContains(t, p.alive(), "shell ended (exit status 0)")
	require.NoError(t, p.stop(), "once more")
}

func TestProcessThatEndsInDisorder(t *testing.T) {
	t.Parallel()
	p := startShell(t, `trap 'echo cannot; exit 3' TERM; echo ready; while :; do sleep 0.01; done`)
	awaitLog(t, p, "ready")

	require.ErrorContains(t, p.stop(), "stop shell: exit status 3; the end of "+p.logPath+":\nready\ncannot")
}

func TestProcessThatDiesIsReportedOnce(t *testing.T) {
	t.Parallel()
	p := startShell(t, `echo out of luck; exit 4`)
	<-p.exited

	require.ErrorContains(t, p.alive(), "shell ended (exit status 4); the end of "+p.logPath+":\nout of luck")
	require.NoError(t, p.stop(), "it has been told")
}

func TestProcessThatCannotStart(t *testing.T) {
	t.Parallel()
	_, err := startProcess("nothing", filepath.Join(t.TempDir(), "log"), exec.Command("/no/such/program"))
	require.ErrorContains(t, err, "start nothing")
}
