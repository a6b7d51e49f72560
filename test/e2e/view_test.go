package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

// Ends count however they are reported: two by Temporal, one manually.
func TestWhatAReplicaDoesIsSeenByStatusAndOnItsPages(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica(anyPort, "PGDISPATCH_LEASE=1s", "PGDISPATCH_POLL_INTERVAL=100ms").ready()
	s.enqueue("ENTERPRISE", "Echo", 2)
	running := s.enqueue("ENTERPRISE", "Hold", 1)[0]
	s.eventually(func() bool {
		return s.count("status = 'COMPLETED'") == 2 && s.statusOf(running) == "DISPATCHED"
	}, "all executions are started, and two have ended")
	s.exec("select pgdispatch.finish($1, 'FAILED', 'said by hand')", running)

	store := &operate.Store{DB: s.db}
	var seen operate.Overview
	s.eventually(func() bool {
		var err error
		seen, err = store.Overview(t.Context())
		require.NoError(t, err)
		completed, failed, _ := seen.Ended()
		if completed != 2 || failed != 1 || seen.DueToStarted().Starts != 3 || len(seen.Replicas) != 1 {
			return false
		}
		state := seen.Replicas[0].State // as of its last heartbeat, possibly before it listened
		return len(state.WakeUps) > 0 && state.Listening != nil && *state.Listening
	}, "the end is counted")
	require.NotNil(t, seen.Replicas[0].State.Listening)
	require.True(t, *seen.Replicas[0].State.Listening)
	require.Positive(t, seen.DueToStarted().P50)
	require.EqualValues(t, 3, seen.StartableToStarted().Starts)

	for path, want := range map[string]string{
		"/": "Longest waiting workspaces", "/ui/": "1 dead letter waits", "/ui/workspaces": "ENTERPRISE",
		"/ui/items?status=FAILED": "said by hand",
		"/ui/items/" + running:    "execution-" + running, "/ui/dead": "said by hand",
	} {
		status, text := p.get(path)
		require.Equal(t, http.StatusOK, status, path)
		require.Contains(t, text, want, path)
	}
	require.NotContains(t, strings.ToLower(p.Log()), "cannot serve a page")
}
