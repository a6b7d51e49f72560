package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

const patience = 10 * time.Second

func startShell(t *testing.T, logPath, script string) *Process {
	t.Helper()
	p := must.Get(Start(Spec{Name: "shell", Program: "sh", Args: []string{"-c", script}, LogPath: logPath})).In(t)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p
}

func newLog(t *testing.T) string { return filepath.Join(t.TempDir(), "log") }

// startPolite starts a shell that handles SIGTERM as given, and waits until it has reported that it is ready.
func startPolite(t *testing.T, atTerm string) *Process {
	t.Helper()
	p := startShell(t, newLog(t), `trap '`+atTerm+`' TERM; echo ready; while :; do sleep 0.01; done`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, p.Await(ctx, func() error {
		if !strings.Contains(p.Log(), "ready") {
			return errors.New("it has not logged it")
		}
		return nil
	}))
	return p
}

func TestProcessThatEndsInOrder(t *testing.T) {
	t.Parallel()
	p := startPolite(t, "exit 0")
	require.NoError(t, p.Alive())
	require.NoError(t, p.Stop(patience))
	require.ErrorContains(t, p.Alive(), "shell ended (exit status 0)")
	require.NoError(t, p.Stop(patience), "a second Stop succeeds")
}

func TestProcessThatEndsInDisorder(t *testing.T) {
	t.Parallel()
	p := startPolite(t, "echo cannot; exit 3")
	require.ErrorContains(t, p.Stop(patience), "stop shell: exit status 3; the end of "+p.LogPath+":\nready\ncannot")
}

func TestProcessThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	p := startPolite(t, "")
	require.ErrorContains(t, p.Stop(50*time.Millisecond), "still there 50ms after SIGTERM, killed")
	require.False(t, p.Running())
}

func TestProcessThatDiesIsReportedOnce(t *testing.T) {
	t.Parallel()
	p := startShell(t, newLog(t), `echo out of luck; exit 4`)
	<-p.Exited()

	require.ErrorContains(t, p.Alive(), "shell ended (exit status 4); the end of "+p.LogPath+":\nout of luck")
	require.NoError(t, p.Stop(patience), "the failure was already reported")
}

func TestWaitEndsWithTheProcessOrTheContext(t *testing.T) {
	t.Parallel()
	never := func() error { return errors.New("not yet") }
	require.ErrorContains(t, startShell(t, newLog(t), `echo no; exit 1`).Await(t.Context(), never), "exit status 1")

	p := startPolite(t, "exit 0")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	err := p.Await(ctx, never)
	require.ErrorContains(t, err, "no time: not yet")
	require.ErrorContains(t, err, "ready")
}

func TestProcessesMayShareALog(t *testing.T) {
	t.Parallel()
	log := newLog(t)
	<-startShell(t, log, "echo ready").Exited()
	second := startShell(t, log, "echo second")
	<-second.Exited()

	require.Equal(t, "second\n", second.Log())
	all := must.Get(os.ReadFile(log)).In(t)
	require.Equal(t, "ready\nsecond\n", string(all))
}

func TestProcessThatCannotStart(t *testing.T) {
	t.Parallel()
	_, err := Start(Spec{Name: "nothing", Program: "/no/such/program", LogPath: newLog(t)})
	require.ErrorContains(t, err, "start nothing")
}

func TestEnvironmentPointsNowhereElse(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGDISPATCH_WORKERS", "TEMPORAL_ADDRESS", "DATABASE_URL"} {
		t.Setenv(name, "elsewhere")
	}
	t.Setenv("DATABASE_URL_OF_OTHERS", "kept")

	environment := Environment("DATABASE_URL=here")

	require.Contains(t, environment, "DATABASE_URL_OF_OTHERS=kept")
	require.Equal(t, "DATABASE_URL=here", environment[len(environment)-1])
	require.NotContains(t, strings.Join(environment, "\n"), "elsewhere")
}

func TestAddressIsFree(t *testing.T) {
	t.Parallel()
	address := must.Get(FreeAddress()).In(t)
	require.Regexp(t, `^127\.0\.0\.1:[1-9]\d*$`, address)
}
