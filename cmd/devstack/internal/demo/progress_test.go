package demo

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/process"
)

func TestCountsArePrintedNowAndThenIfTheyHaveChanged(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := &progress{out: &out, started: time.Now()}

	p.counts(counts{Waiting: 1})
	p.counts(counts{Running: 1}) // too soon
	p.lastCountsAt = time.Time{}
	p.counts(counts{Waiting: 1}) // no change
	p.counts(counts{Completed: 1, Cancelled: 2})

	require.Equal(t, "[  0.0s] 1 waiting, 0 running, 0 completed, 0 failed\n"+
		"[  0.0s] 0 waiting, 0 running, 1 completed, 0 failed, 2 cancelled\n", out.String())
}

func TestABufferIsNoTerminal(t *testing.T) {
	t.Parallel()
	require.Nil(t, terminal(&bytes.Buffer{}))
}

func startView(t *testing.T, script string) *live {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	p, err := process.Start(process.Spec{Name: "view", Program: "sh", Args: []string{"-c", script}, LogPath: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return &live{p}
}

func TestTheLiveViewMayBeLeftAndMayFail(t *testing.T) {
	t.Parallel()
	var none *live
	require.NoError(t, none.open())
	require.NoError(t, none.stop())

	running := startView(t, "trap 'exit 0' TERM; echo; while :; do sleep 0.01; done")
	require.NoError(t, running.open())

	left := startView(t, "exit 0")
	<-left.Exited()
	require.ErrorIs(t, left.open(), errLeft)

	failed := startView(t, "echo no database; exit 1")
	<-failed.Exited()
	require.ErrorContains(t, failed.open(), "no database")
	require.NoError(t, failed.stop(), "the exit was already reported")
}

// A browser opens the link as Go's client does: user and password become basic authentication.
func TestTheLinkToTheWebViewHasTheTokenOfItsReplica(t *testing.T) {
	t.Parallel()
	const token = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	variables, link := webView("127.0.0.1:9464", token)
	require.Equal(t, []string{"PGDISPATCH_ADMIN_ADDR=127.0.0.1:9464", "PGDISPATCH_ADMIN_TOKEN=" + token}, variables)
	request := must.Get(http.NewRequest(http.MethodGet, link, nil)).In(t)
	require.Equal(t, "127.0.0.1:9464", request.URL.Host)
	require.Equal(t, "/ui/", request.URL.Path)
	password, _ := request.URL.User.Password()
	require.Equal(t, token, password)
}

func TestCheckOutcomes(t *testing.T) {
	t.Parallel()
	good := []outcome{
		{ItemID: 1, Status: "COMPLETED"},
		{ItemID: 2, Status: "FAILED", ShouldFail: true, LastError: "node b failed on purpose"},
	}
	require.Empty(t, checkOutcomes(good).Wrong)
	require.Equal(t, "  ok    1 items completed, 1 failed on purpose", checkOutcomes(good).String())

	require.Len(t, checkOutcomes(nil).Wrong, 1, "no items is a failure")
	bad := checkOutcomes([]outcome{
		{ItemID: 1, Status: "FAILED", LastError: "boom"},
		{ItemID: 2, Status: "COMPLETED", ShouldFail: true},
		{ItemID: 3, Status: "FAILED", ShouldFail: true},
		{ItemID: 4, Status: "CANCELLED"},
	})
	require.Equal(t, []string{
		"item 1 is FAILED, not COMPLETED (boom)",
		"item 2 is COMPLETED, not FAILED ()",
		"item 3 failed without an error",
		"item 4 is CANCELLED, not COMPLETED ()",
	}, bad.Wrong)
}

func TestCheckPeaks(t *testing.T) {
	t.Parallel()
	good := workspace{Name: "B", Slots: 5, Peak: 5}
	require.Empty(t, checkPeaks([]workspace{good}).Wrong)
	require.Equal(t, []string{"A had 2 running at once, its limit is 1"},
		checkPeaks([]workspace{{Name: "A", Slots: 1, Peak: 2}, good}).Wrong)
}

func TestCheckWorkflows(t *testing.T) {
	t.Parallel()
	outcomes := []outcome{{ItemID: 1, ExecutionID: "x"}, {ItemID: 2, ExecutionID: "y"}}
	require.Empty(t, checkWorkflows(outcomes, []string{"execution-y", "execution-x"}).Wrong)

	bad := checkWorkflows(outcomes, []string{"execution-x", "execution-x", "stranger"})
	require.Equal(t, []string{
		"item 1 has 2 runs of execution-x", "item 2 has 0 runs of execution-y", "stranger belongs to no item",
	}, bad.Wrong)
	require.Contains(t, bad.String(), "WRONG")
}
