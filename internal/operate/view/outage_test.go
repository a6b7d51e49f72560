package view

import (
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
}
