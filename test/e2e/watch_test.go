package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// signal ends workflows of type Hold.
func (s *stack) signal(executions ...string) {
	s.t.Helper()
	for _, execution := range executions {
		require.NoError(s.t, s.client.SignalWorkflow(context.Background(), "execution-"+execution, "", "go", nil))
	}
}

// A replica cut off from Temporal stays present in Postgres, and would keep its executions from replicas that could
// watch them.
func TestExecutionsOfAReplicaThatIsCutOffFromTemporalAreWatchedByAnother(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*proxy){"refused": (*proxy).down, "frozen": (*proxy).freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			proxy := newProxy(t, s.temporal)
			direct := s.temporal
			const lease = "PGDISPATCH_LEASE=4s"
			s.temporal = proxy.Address
			first := s.replica(lease, "PGDISPATCH_POLL_INTERVAL=1s").ready()
			executions := s.enqueue("PRO", "Hold", 5)
			s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 5 }, "all executions start")
			s.temporal = direct
			s.replica(lease, "PGDISPATCH_POLL_INTERVAL=1s").ready()

			cut(proxy)
			s.signal(executions...)
			await(t, 20*time.Second, func() bool { return s.count("status = 'COMPLETED'") == 5 }, "all ends are recorded")
			s.eventually(func() bool {
				return first.has("Temporal is unreachable; releasing watches to other replicas")
			}, "the release is logged")
			require.LessOrEqual(t, strings.Count(first.Log(), "Cannot watch an execution"), 0,
				"it is not logged per execution")
			s.requireSlotsMatchTemporal()
		})
	}
}

// terminateAndCancel ends two executions of Cancelled once they run.
func (s *stack) terminateAndCancel(held []string) {
	s.t.Helper()
	for _, execution := range held {
		s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "the execution runs")
	}
	require.NoError(s.t, s.client.TerminateWorkflow(context.Background(), "execution-"+held[0], "", "enough"))
	require.NoError(s.t, s.client.CancelWorkflow(context.Background(), "execution-"+held[1], ""))
}

// requireEnds waits until n executions have ended, and compares how some of them did: the status and the error.
func (s *stack) requireEnds(n int, ends map[string]string) {
	s.t.Helper()
	s.eventually(func() bool { return s.count("status in ('COMPLETED', 'FAILED')") == n }, "all ends are recorded")
	for execution, want := range ends {
		require.Equal(s.t, want,
			one[string](s, "select status || ' ' || coalesce(error, '') from pgdispatch.workflow_executions where id = $1",
				execution))
	}
}

// The reconciler alone finds every end, and no slot leaks.
func TestWithoutAnyWatchEveryEndIsFound(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for range 2 {
		s.replica("PGDISPATCH_MAX_WATCHES=0").ready()
	}
	running := s.enqueue("PRO", "Hold", 2) // which keep their slots
	executions := append(s.enqueue("ENTERPRISE", "Echo", 60), s.enqueue("FREE", "Again", 2)...)
	failing := s.enqueue("PRO", "Fail", 2)
	held := s.enqueue("PRO", "Cancelled", 2)
	s.terminateAndCancel(held)

	executions = append(append(executions, failing...), held...)
	s.requireEnds(len(executions), map[string]string{
		executions[0]: "COMPLETED ", executions[60]: "FAILED second run failed",
		failing[1]: "FAILED the oven is cold (Oven): no gas",
		held[0]:    "TERMINATED workflow was terminated: enough", held[1]: "CANCELED workflow was cancelled",
	})
	s.requireResult(executions[0])
	s.requireOneRunEach(executions[:60])
	require.Equal(t, "DISPATCHED DISPATCHED", s.statusOf(running[0])+" "+s.statusOf(running[1]))
	s.requireSlotsMatchTemporal()
}

func TestWhatEndedWhileNoReplicaRanIsFoundAtTheStart(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	first := s.replica("PGDISPATCH_LEASE=1s").ready()
	executions := s.enqueue("PRO", "Hold", 5)
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 5 }, "all executions start")
	require.NoError(t, first.Kill())
	s.signal(executions...)
	s.replica("PGDISPATCH_LEASE=1s", "PGDISPATCH_MAX_WATCHES=0").ready()
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 5 }, "all ends are recorded")
	s.requireSlotsMatchTemporal()
}

func TestAnExecutionThatTemporalHasLostGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	for name, watches := range map[string]string{"watched": "10", "not watched": "0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.replica("PGDISPATCH_MAX_WATCHES=" + watches).ready()
			gone := s.enqueue("FREE", "Hold", 1)[0]
			s.eventually(func() bool { return s.statusOf(gone) == "DISPATCHED" }, "the execution is dispatched")
			_, err := s.client.WorkflowService().DeleteWorkflowExecution(context.Background(),
				&workflowservice.DeleteWorkflowExecutionRequest{
					Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "execution-" + gone},
				})
			require.NoError(t, err)
			// Simulates a minute of silence.
			s.exec("update pgdispatch.workflow_executions set started_at = started_at - interval '1 minute' where id = $1", gone)
			next := s.enqueue("FREE", "Echo", 1)[0]
			s.eventually(func() bool { return s.statusOf(next) == "COMPLETED" }, "the slot is free")
			require.Equal(t, "FAILED", s.statusOf(gone))
			s.requireSlotsMatchTemporal()
		})
	}
}

// reset resets a workflow as soon as it has made progress.
func (s *stack) reset(execution string) {
	s.t.Helper()
	run := &commonpb.WorkflowExecution{WorkflowId: "execution-" + execution,
		RunId: one[string](s, "select run_id from pgdispatch.workflow_executions where id = $1", execution)}
	s.eventually(func() bool {
		_, err := s.client.ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: "default", WorkflowExecution: run, Reason: "again", RequestId: execution, WorkflowTaskFinishEventId: 4,
		})
		return err == nil
	}, "its first task is completed, and it is reset")
}

// A reset continues in a new run, which holds the slot like its predecessor.
func TestAResetWorkflowKeepsItsSlot(t *testing.T) {
	t.Parallel()
	for name, watches := range map[string]string{"watched": "10", "not watched": "0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.replica("PGDISPATCH_MAX_WATCHES=" + watches).ready()
			execution := s.enqueue("FREE", "Hold", 1)[0]
			s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "the execution is dispatched")
			s.reset(execution)
			next := s.enqueue("FREE", "Echo", 1)[0]
			s.signal(execution)
			s.eventually(func() bool { return s.statusOf(next) == "COMPLETED" }, "its end is recorded")
			require.Equal(t, "COMPLETED", s.statusOf(execution), "the end of the terminated run is not recorded")
		})
	}
}
