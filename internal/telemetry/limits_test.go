package telemetry

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

const aWorkspace = "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01"

// limited is a queue with limits, of which one has a key named as the sum of the others is.
func limited() *fakeQueue {
	most := 4
	return &fakeQueue{depth: operate.Depth{Replicas: 1}, limits: operate.LimitUse{OthersActive: 5, OthersWaiting: 6,
		Limits: []operate.KeyLimit{
			{Key: "smtp", MaxConcurrent: &most, Active: 4, Waiting: 2},
			{Key: "smtp", WorkspaceID: aWorkspace, MaxConcurrent: &most, Active: 1, Waiting: 1},
			{Key: otherLimits, Active: 9},
		}}}
}

// series returns the values of a gauge by the values of its labels.
func series(t *testing.T, about *Telemetry, name string) map[string]float64 {
	t.Helper()
	families, err := about.Registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, label := range m.GetLabel() {
				labels += label.GetName() + "=" + label.GetValue() + " "
			}
			if family.GetName() == name {
				all[labels] = m.GetGauge().GetValue()
			}
		}
	}
	return all
}

func observed(t *testing.T, queue *fakeQueue, limits int) *Telemetry {
	t.Helper()
	about, _ := measured(t)
	require.NoError(t,
		about.Observe(&Gauges{Queue: queue, Limits: limits, Ready: ready, Watches: func() int { return 0 }}))
	return about
}

func TestTheMostUsedLimitsHaveGaugesAndTheOthersASum(t *testing.T) {
	t.Parallel()
	about := observed(t, limited(), 3)
	inWorkspace := "key=smtp workspace_id=" + aWorkspace + " "
	require.Equal(t, map[string]float64{"key=smtp ": 4, inWorkspace: 1, "key=other ": 9,
		"key=other workspace_id=other ": 5}, series(t, about, "pgdispatch_limit_active"))
	require.Equal(t, map[string]float64{"key=smtp ": 4, inWorkspace: 4}, series(t, about, "pgdispatch_limit_max"))
	require.Equal(t, map[string]float64{"key=smtp ": 2, inWorkspace: 1, "key=other ": 0,
		"key=other workspace_id=other ": 6}, series(t, about, "pgdispatch_limit_waiting"))
	require.Equal(t, map[string]float64{"key=smtp ": 1, inWorkspace: 0, "key=other ": 0},
		series(t, about, "pgdispatch_limit_full"))

	require.Len(t, series(t, observed(t, limited(), 1), "pgdispatch_limit_active"), 2, "no more than are allowed")
}

func TestTheOtherGaugesDoNotNeedTheLimits(t *testing.T) {
	t.Parallel()
	queue := limited()
	queue.limitsErr = errors.New("function does not exist")
	about := observed(t, queue, 3)
	require.Empty(t, series(t, about, "pgdispatch_limit_active"))
	requireValue(t, about, "pgdispatch_replicas", 1)
	requireValue(t, about, "pgdispatch_database_up", 1)
	requireValue(t, about, "pgdispatch_store_errors_total depth", 1)
}
