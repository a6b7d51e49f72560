package e2e

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// rounds is how often a test with a crash repeats it.
const rounds = "PGDISPATCH_ROUNDS"

// newestRun returns the newest run of an execution's workflow.
func (s *stack) newestRun(execution string) string {
	s.t.Helper()
	described, err := s.client.DescribeWorkflowExecution(s.t.Context(), temporal.WorkflowID(execution), "")
	require.NoError(s.t, err)
	return described.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

// relayed sends a signal to a Relay workflow, and waits until the workflow has continued as a new run with it.
func (s *stack) relayed(execution, value string) {
	s.t.Helper()
	before := s.newestRun(execution)
	s.exec(add, execution, value)
	s.eventually(func() bool { return s.newestRun(execution) != before }, "it continues as new with %s", value)
}

// Postgres crashes right after the delivery, with no other load: nothing else makes asynchronous commits durable.
func TestAfterAQuietCrashOfPostgresEachSignalHasTakenEffectOnce(t *testing.T) {
	t.Parallel()
	cluster, url := sqltest.Private(t)
	s := newStackOn(t, url)
	s.replica().ready()
	crashes, err := strconv.Atoi(os.Getenv(rounds))
	if err != nil {
		crashes = 2
	}
	for round := range crashes {
		execution := s.enqueue("PRO", "Relay", 1)[0]
		s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "it runs")
		require.NoError(t, cluster.HoldWAL(t.Context()))
		s.relayed(execution, "1")
		s.relayed(execution, "2") // the second run gets it
		s.db.Reset()
		require.NoError(t, cluster.Crash(t.Context()))
		s.exec("update pgdispatch.signals set next_try_at = clock_timestamp() where state = 'OPEN'") // its lease ends
		s.exec(add, execution, "end")
		require.Equal(t, []string{"1", "2"}, s.collected(execution), "round %d", round)
	}
}
