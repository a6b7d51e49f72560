package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signal ends workflows of type Hold.
func (s *stack) signal(executions ...string) {
	s.t.Helper()
	for _, execution := range executions {
		require.NoError(s.t, s.client.SignalWorkflow(context.Background(), "execution-"+execution, "", "go", nil))
	}
}

// A replica that is cut off from Temporal lives on in Postgres, and would keep its executions from those who could watch them.
func TestExecutionsOfAReplicaThatIsCutOffFromTemporalAreWatchedByAnother(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*proxy){"refused": (*proxy).down, "frozen": (*proxy).freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			proxy := newProxy(t, s.temporal)
			direct := s.temporal
			const lease = "PGDISPATCH_LEASE=4s"
			s.temporal = proxy.address
			first := s.replica(lease, "PGDISPATCH_POLL_INTERVAL=1s").ready()
			executions := s.enqueue("PRO", "Hold", 5)
			s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 5 }, "all start")
			s.temporal = direct
			s.replica(lease, "PGDISPATCH_POLL_INTERVAL=1s").ready()

			cut(proxy)
			s.signal(executions...)
			await(t, 20*time.Second, func() bool { return s.count("status = 'COMPLETED'") == 5 }, "their ends are seen")
			s.eventually(func() bool {
				return first.logs.has("Temporal is out of reach: giving up watches, so that other replicas may take them")
			}, "it says so")
			require.LessOrEqual(t, strings.Count(first.logs.String(), "Cannot wait for an execution's end"), 0, "and not for each of them")
		})
	}
}
