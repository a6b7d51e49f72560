package e2e

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
)

// requireSlotsMatchTemporal checks that no slot has leaked or was granted twice: each workspace uses as many slots as
// it has workflows open in Temporal.
func (s *stack) requireSlotsMatchTemporal() {
	s.t.Helper()
	s.eventually(func() bool {
		open := map[string]int{}
		listed, answered := s.listed(" and ExecutionStatus = 'Running'")
		if !answered {
			return false
		}
		for _, run := range listed {
			if s.exists(run) {
				open[s.workspaceOf(run)]++
			}
		}
		for _, workspace := range s.workspace {
			if open[workspace] != one[int](s, `select count(*)::int from pgdispatch.workflow_execution_queue
				where workspace_id = $1 and stage in ('HOLDS', 'DOUBT')`, workspace) {
				return false
			}
		}
		return true
	}, "slots used equal workflows open")
}

// exists asks Temporal for a run that it has listed. A run that was deleted while its start was being listed stays
// listed for good.
func (s *stack) exists(run *workflowpb.WorkflowExecutionInfo) bool {
	s.t.Helper()
	_, err := s.client.DescribeWorkflowExecution(context.Background(), run.GetExecution().GetWorkflowId(),
		run.GetExecution().GetRunId())
	var gone *serviceerror.NotFound
	return !errors.As(err, &gone)
}

// workspaceOf returns the workspace of the item that a run belongs to.
func (s *stack) workspaceOf(run *workflowpb.WorkflowExecutionInfo) string {
	s.t.Helper()
	return one[string](s, "select workspace_id::text from pgdispatch.workflow_executions where 'execution-' || id = $1",
		run.GetExecution().GetWorkflowId())
}

// Another replica takes over a dead replica's watches when its lease has expired, and no end is lost.
func TestExecutionsOfAKilledReplicaAreWatchedAgain(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.watchAgain(s.enqueueHeld(20))
}

// BenchmarkWatchesOfAKilledReplica measures from the kill -9 of the replica that watches 100 executions until another
// watches all of them, and how long that is after the dead replica's lease expired.
//
//	go test -C test ./e2e -run '^$' -bench WatchesOfAKilledReplica -benchtime 3x
func BenchmarkWatchesOfAKilledReplica(b *testing.B) {
	var afterKill, afterLease float64
	for b.Loop() {
		s := newStack(b)
		kill, lease := s.watchAgain(s.enqueueHeld(100))
		afterKill, afterLease = max(afterKill, kill), max(afterLease, lease)
	}
	b.ReportMetric(afterKill*1000, "most-after-kill-ms")
	b.ReportMetric(afterLease*1000, "most-after-lease-ms")
}

const watchLease = "PGDISPATCH_LEASE=3s"

// enqueueHeld makes a first replica start and watch workflows that run until they are signalled.
func (s *stack) enqueueHeld(workflows int) (first *replica, executions []string) {
	s.t.Helper()
	s.exec("update pgdispatch.workspaces set max_concurrent_workflows = $1 where id = $2", workflows,
		s.workspace["ENTERPRISE"])
	first = s.replica(watchLease, "PGDISPATCH_WORKERS=50").ready()
	executions = s.enqueue("ENTERPRISE", "Hold", workflows)
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == len(executions) }, "all executions start")
	return first, executions
}

// watchAgain kills the first replica. It returns the seconds until a second one watches all of its executions, and the
// seconds since the dead one's lease expired, by the database's clock.
func (s *stack) watchAgain(first *replica, executions []string) (afterKill, afterLease float64) {
	s.t.Helper()
	second := s.replica(watchLease).ready()
	names := func(p *replica) string { return `like '%\_` + strconv.Itoa(p.PID) + `\_%'` }
	watched := "select count(*)::int from pgdispatch.workflow_executions where finished_at is null and watcher " +
		names(second)
	require.Zero(s.t, one[int](s, watched))
	require.NoError(s.t, first.Kill())
	const now = "extract(epoch from clock_timestamp())::float8"
	killed := one[float64](s, "select "+now)
	expires := one[float64](s, "select extract(epoch from expires_at)::float8 from pgdispatch.replicas where id "+
		names(first))
	s.eventually(func() bool { return one[int](s, watched) == len(executions) }, "all executions are watched again")
	at := one[float64](s, "select "+now)

	s.signal(executions[1:]...)
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == len(executions)-1 }, "all ends are recorded")
	s.requireSlotsMatchTemporal()
	return at - killed, at - expires
}
