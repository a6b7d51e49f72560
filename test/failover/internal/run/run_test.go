package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/failover/internal/audit"
)

func TestPlan_BeginsEachClusterWithASwitchoverAndUsesEveryKindAlike(t *testing.T) {
	t.Parallel()
	plans := Plan(7, 30, len(Modes))
	count := map[string]int{}
	total := 0
	for _, plan := range plans {
		require.Equal(t, AtOnce, plan[0])
		for _, name := range plan {
			count[name]++
			total++
		}
	}
	require.Equal(t, 30, total)
	require.Equal(t, len(Modes), count[AtOnce])
	for _, k := range kinds {
		require.GreaterOrEqual(t, count[k.name], (30-len(Modes))/len(kinds), k.name)
	}

	require.Equal(t, plans, Plan(7, 30, len(Modes)))
	require.NotEqual(t, plans, Plan(8, 30, len(Modes)))
	require.Equal(t, [][]string{{AtOnce}, nil}, Plan(7, 1, 2))
}

func TestOutcome_NamesViolations(t *testing.T) {
	t.Parallel()
	o := &Outcome{Seed: 7, Results: []Result{{Mode: Modes[0], Findings: audit.Findings{
		Acknowledged: 10, Times: []audit.Times{{Event: audit.Event{Kind: "switchover"}, Resumed: 20 * time.Millisecond}},
	}}}}
	require.True(t, o.OK())
	require.Contains(t, o.Markdown(), "| sync | switchover | 0.00 | 0.02 | 0.00 | 0.00 |")
	require.Contains(t, o.Markdown(), "No violation.")

	o.Results[0].Violations = []string{"execution 1: started twice"}
	require.False(t, o.OK())
	require.Contains(t, o.Markdown(), "VIOLATION in sync: execution 1: started twice")
}
