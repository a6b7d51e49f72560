package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
)

// load keeps every workspace at its limit for a while, on a server with some hundred starts per second.
var load = map[string]int{"FREE": 6, "PRO": 30, "ENTERPRISE": 120}

func (s *stack) enqueueLoad(definition string) []string {
	s.t.Helper()
	var executions []string
	for plan, items := range load {
		executions = append(executions, s.enqueue(plan, definition, items)...)
	}
	return executions
}

func TestThreeReplicasShareTheWorkWithinEveryLimit(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec("update pgdispatch.settings set max_claims = 10")
	const few = "PGDISPATCH_WORKERS=4" // otherwise one replica uses up W, and the others sleep
	replicas := []*replica{s.replica(few).ready(), s.replica(few).ready(), s.replica(few).ready()}
	executions := s.enqueueLoad("Echo")

	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == len(executions) }, "all executions complete")
	greatest := s.requireLimits(10)
	require.Greater(t, greatest, 5, "the cap was nearly reached")
	s.requireOneRunEach(executions)
	for _, replica := range replicas {
		s.eventually(func() bool { return replica.has("Dispatched execution") }, "every replica dispatches")
	}
	require.Equal(t, 1, one[int](s, "select max(attempt_count) from pgdispatch.workflow_execution_queue"))
}

func TestFourReplicasOfFiftyWorkersNeverLeaseATwentyFirst(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec("update pgdispatch.settings set max_claims = 20")
	s.exec("update pgdispatch.workspaces set max_concurrent_workflows = 1000 where id = $1", s.workspace["ENTERPRISE"])
	executions := s.enqueue("ENTERPRISE", "Echo", 600)
	for range 4 {
		s.replica("PGDISPATCH_WORKERS=50")
	}
	s.eventually(func() bool {
		return s.count("status in ('DISPATCHED', 'COMPLETED')") == len(executions)
	}, "all items are dispatched")
	require.Equal(t, 20, one[int](s, "select n::int from audit.greatest_leased"), "W is reached, and never exceeded")
	s.requireOneRunEach(executions)
	require.Zero(t, s.count("failure_count > 0"))
}

// requireLimits replays every change in commit order, and asks Temporal when workflows ran. It returns the largest
// number of items leased at once.
func (s *stack) requireLimits(maxClaims int) int {
	s.t.Helper()
	greatest := one[int](s, "select n::int from audit.greatest_leased")
	require.LessOrEqual(s.t, greatest, maxClaims, "leased at once")
	running := s.greatestRunning()
	for plan, limit := range map[string]int{"FREE": 1, "PRO": 5, "ENTERPRISE": 20} {
		held := one[int](s, "select coalesce(max(n), 0)::int from audit.greatest_held where workspace_id = $1",
			s.workspace[plan])
		s.t.Logf("%s: limit %d, greatest number of slots held %d, of workflows running in Temporal %d", plan, limit, held,
			running[s.workspace[plan]])
		require.LessOrEqual(s.t, held, limit, "slots held by %s", plan)
		require.LessOrEqual(s.t, running[s.workspace[plan]], limit, "workflows of %s running in Temporal", plan)
	}
	s.t.Logf("W %d, greatest number of items leased at once %d", maxClaims, greatest)
	return greatest
}

// greatestRunning returns, for each workspace, how many of its workflows ran at once by Temporal's times. All must have
// ended.
func (s *stack) greatestRunning() map[string]int {
	s.t.Helper()
	type event struct {
		at    time.Time
		delta int
	}
	var runs []*workflowpb.WorkflowExecutionInfo
	s.eventually(func() bool {
		runs, _ = s.listed("")
		closed := !slices.ContainsFunc(runs, func(run *workflowpb.WorkflowExecutionInfo) bool { return run.CloseTime == nil })
		return closed && len(runs) > 0 && len(runs) >= s.count("dispatched_at is not null")
	}, "Temporal lists every started workflow as closed")
	events := map[string][]event{}
	for _, run := range runs {
		workspace := s.workspaceOf(run)
		events[workspace] = append(events[workspace], event{run.StartTime.AsTime(), 1}, event{run.CloseTime.AsTime(), -1})
	}
	greatest := map[string]int{}
	for workspace, list := range events {
		slices.SortFunc(list, func(a, b event) int { return a.at.Compare(b.at) })
		running := 0
		for _, e := range list {
			running += e.delta
			greatest[workspace] = max(greatest[workspace], running)
		}
	}
	return greatest
}

func TestAReplicaKilledUnderLoadLosesNothingAndStartsNothingTwice(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec("update pgdispatch.settings set max_claims = 20")
	options := []string{"PGDISPATCH_LEASE=1s", "PGDISPATCH_POLL_INTERVAL=1s"}
	replicas := map[string]*replica{}
	for range 3 {
		replica := s.replica(options...).ready()
		replicas[strconv.Itoa(replica.PID)] = replica
	}
	executions := s.enqueueLoad("Echo")

	// Kill a replica that holds leases, three times, each time replacing it. An item that all three had held would
	// rightly be FAILED as one that kills its holders, so the next kill waits until no item is left that two of them
	// have held.
	const holder = `select case when count(*) filter (where lost_lease_count > 1 and status in ('PENDING', 'CLAIMED')) > 0
		then ''
			else coalesce(min(split_part(claimed_by, '_', -2)) filter (where status = 'CLAIMED'), '') end
		from pgdispatch.workflow_execution_queue`
	for range 3 {
		var victim *replica
		s.eventually(func() bool {
			if s.count("status = 'PENDING'") == 0 {
				executions = append(executions, s.enqueue("ENTERPRISE", "Echo", 20)...)
			}
			victim = replicas[one[string](s, holder)]
			return victim != nil
		}, "a replica holds a lease")
		require.NoError(t, victim.Signal(syscall.SIGKILL))
		s.eventually(func() bool {
			return s.count("status = 'CLAIMED' and claimed_by like '%\\_"+strconv.Itoa(victim.PID)+"\\_%'") == 0
		}, "the sweeper takes its leases")
		delete(replicas, strconv.Itoa(victim.PID))
		replica := s.replica(options...)
		replicas[strconv.Itoa(replica.PID)] = replica
	}
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == len(executions) }, "all executions complete")
	s.requireLimits(20)
	s.requireOneRunEach(executions)
	require.Zero(t, s.count("status <> 'COMPLETED' or failure_count > 0"))
}

func TestARestartedReplicaWatchesWhatItsPredecessorStarted(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	first := s.replica("PGDISPATCH_LEASE=1s").ready()
	executions := s.enqueue("PRO", "Hold", 5)
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 5 }, "all executions start")
	require.NoError(t, first.Signal(syscall.SIGKILL))

	for _, execution := range executions[:3] { // these end unwatched
		require.NoError(t, s.client.SignalWorkflow(context.Background(), "execution-"+execution, "", "go", nil))
	}
	s.replica("PGDISPATCH_LEASE=1s").ready()
	for _, execution := range executions[3:] {
		require.NoError(t, s.client.SignalWorkflow(context.Background(), "execution-"+execution, "", "go", nil))
	}
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 5 }, "all ends are recorded")
	s.requireSlotsMatchTemporal()
}

func TestARollingRestartUnderLoadCountsNoAttempt(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	replicas := []*replica{s.replica().ready(), s.replica().ready()}
	executions := s.enqueueLoad("Echo")
	for n, old := range replicas {
		s.eventually(func() bool { return s.count("status in ('DISPATCHED', 'COMPLETED')") > 40*(n+1) }, "starts continue")
		require.NoError(t, old.Signal(syscall.SIGTERM))
		require.Zero(t, old.exit())
		s.replica()
	}
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == len(executions) }, "all executions complete")
	s.requireLimits(100)
	s.requireOneRunEach(executions)
	require.Equal(t, 1, one[int](s, "select max(attempt_count) from pgdispatch.workflow_execution_queue"))
}

// BenchmarkInsertToStart measures, on an idle system, from before the INSERT is sent until the row is DISPATCHED, by
// the database's clock, and until Temporal's own start time.
func BenchmarkInsertToStart(b *testing.B) {
	s := newStack(b)
	s.exec("drop trigger audit on pgdispatch.workflow_execution_queue")
	s.replica("PGDISPATCH_LOG_LEVEL=warn")
	s.eventually(func() bool {
		return one[int](s, "select count(*)::int from pgdispatch.replicas") == 1
	}, "replica starts")
	s.exec("update pgdispatch.workspaces set max_concurrent_workflows = 100000")
	s.enqueue("ENTERPRISE", "Echo", 20)
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 20 }, "the warm-up item completes")

	var took []time.Duration
	for b.Loop() {
		execution := s.enqueue("ENTERPRISE", "Echo", 1)[0]
		s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "the execution completes")
		took = append(took,
			one[time.Duration](s,
				"select dispatched_at - created_at from pgdispatch.workflow_execution_queue where execution_id = $1", execution))
		<-time.After(rand.N(20 * time.Millisecond)) // avoids synchronizing with periodic work
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}
