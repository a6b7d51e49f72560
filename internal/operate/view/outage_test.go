package view

import (
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

func TestAnOutageHasItsCauseAndSinceWhen(t *testing.T) {
	t.Parallel()
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	o := operate.Overview{Depth: operate.Depth{MaxClaims: 100, DeadLettersExact: true}, Replicas: []operate.Replica{{},
		{}}}
	require.Nil(t, OutageOf(o))
	o.Replicas[0].State = operate.ReplicaState{BreakerOpen: true, BreakerSince: &second}
	require.Nil(t, OutageOf(o), "the other replica starts workflows")
	o.Replicas[1].State = operate.ReplicaState{BreakerOpen: true, BreakerSince: &first}
	outage := OutageOf(o)
	require.Contains(t, outage.What, "no workflows from any replica")
	require.Equal(t, first, *outage.Since)
	o.Depth.Paused = true
	require.Contains(t, OutageOf(o).What, "paused by the settings")
	require.Nil(t, OutageOf(o).Since)
	require.Empty(t, OutageOf(o).Begun())
	o.Depth.PausedSince, o.Depth.PausedBy = &second, "anna (web)"
	require.Equal(t, "Since 1970-01-01 00:00:02 UTC, by anna (web).", OutageOf(o).Begun())
	screen := strings.Join(Screen{Overview: o}.Lines(Style{}), "\n")
	require.Contains(t, screen, "so no items are claimed. Since 1970-01-01 00:00:02 UTC, by anna (web). →")
	require.Contains(t, screen, "the replicas probe. Since 1970-01-01 00:00:01 UTC. →")
	o.Depth.Paused, o.Depth.MaxClaims = false, 0
	require.Contains(t, OutageOf(o).What, "max-claims is 0")
	require.Equal(t, &second, OutageOf(o).Since)
}
