package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

func TestARowBecomesARunningAndThenAFinishedWorkflow(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()

	execution := s.enqueue("PRO", "Echo", 1)[0]
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "row completes")

	var got input
	require.NoError(t,
		s.client.GetWorkflow(context.Background(), "execution-"+execution, "").Get(context.Background(), &got))
	require.Equal(t, execution, got.ExecutionID)
	require.Equal(t, s.workspace["PRO"], got.WorkspaceID)
	require.Equal(t, []string{"a", "b"}, got.NodeIDs)
	require.JSONEq(t, `{"greeting": "hello"}`, string(got.Params))
	require.Equal(t, got.WorkflowDefinitionVersionID,
		one[string](s, "select workflow_definition_version_id::text from pgdispatch.workflow_executions where id = $1",
			execution))
	require.Equal(t, got.QueueItemID,
		one[int64](s, "select id from pgdispatch.workflow_execution_queue where execution_id = $1", execution))
	require.Equal(t, "COMPLETED",
		one[string](s, "select status from pgdispatch.workflow_executions where id = $1", execution))
	s.requireResult(execution)
}

// requireResult checks that an execution of Echo has stored its result.
func (s *stack) requireResult(execution string) {
	s.t.Helper()
	require.Equal(s.t, execution,
		one[string](s, "select result->>'executionId' from pgdispatch.workflow_executions where id = $1", execution))
}

func TestEveryEndOfAWorkflowIsRecordedAndFreesItsSlot(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	ctx := context.Background()

	// A FREE workspace has one slot: each item starts only after the previous one has released the slot.
	failed := s.enqueue("FREE", "Fail", 1)[0]
	continued := s.enqueue("FREE", "Again", 1)[0]
	s.exec(`update pgdispatch.workflow_definitions set execution_timeout = '1 second' where workspace_id = $1
		and name = 'Hold'`, s.workspace["FREE"])
	timedOut := s.enqueue("FREE", "Hold", 1)[0]
	cancelled := s.enqueue("FREE", "Cancelled", 1)[0]
	s.eventually(func() bool { return s.statusOf(cancelled) == "DISPATCHED" }, "the fourth starts")
	require.NoError(t, s.client.CancelWorkflow(ctx, "execution-"+cancelled, ""))
	terminated := s.enqueue("FREE", "Cancelled", 1)[0]
	s.eventually(func() bool { return s.statusOf(terminated) == "DISPATCHED" }, "the fifth starts")
	require.NoError(t, s.client.TerminateWorkflow(ctx, "execution-"+terminated, "", "enough"))
	last := s.enqueue("FREE", "Echo", 1)[0]
	s.eventually(func() bool { return s.statusOf(last) == "COMPLETED" }, "the last completes")

	for execution, want := range map[string]struct{ status, reason string }{
		failed:     {"FAILED", "the oven is cold (Oven): no gas"},
		continued:  {"FAILED", "second run failed"},
		timedOut:   {"TIMED_OUT", "workflow timed out"},
		cancelled:  {"CANCELED", "workflow was cancelled"},
		terminated: {"TERMINATED", "workflow was terminated: enough"},
	} {
		require.Equal(t, "FAILED", s.statusOf(execution))
		require.Equal(t, want.status,
			one[string](s, "select status from pgdispatch.workflow_executions where id = $1", execution))
		require.Equal(t, want.reason,
			one[string](s, "select last_error from pgdispatch.workflow_execution_queue where execution_id = $1", execution))
	}
	require.Equal(t, int64(1),
		one[int64](s, "select n from audit.greatest_held where workspace_id = $1", s.workspace["FREE"]))
}

func TestAReplicaThatOnlyPollsStartsRowsToo(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica("PGDISPATCH_LISTEN=off", "PGDISPATCH_POLL_INTERVAL=100ms")
	execution := s.enqueue("PRO", "Echo", 1)[0]
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "row completes")
	require.False(t, p.has("Listening"))
}

func TestARowForLaterIsStartedByTimerAndNotByPoll(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica("PGDISPATCH_POLL_INTERVAL=1h").ready()
	execution := one[string](s, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id,
		run_at)
		select workspace_id, id, now() + interval '700 milliseconds' from pgdispatch.workflow_definitions
			where workspace_id = $1 and name = 'Echo'
		returning execution_id::text`, s.workspace["PRO"])
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "row completes")
	require.True(t,
		one[bool](s, "select claimed_at >= run_at from pgdispatch.workflow_execution_queue where execution_id = $1",
			execution))
}

func TestAnItemThatCannotStartInTimeIsCancelledWithinASecondWithoutAPoll(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica("PGDISPATCH_POLL_INTERVAL=10m").ready()
	workspace := s.addWorkspace("FREE")
	s.exec("update pgdispatch.workspaces set paused = true where id = $1", workspace)
	definition := s.define(workspace, "Late", "Echo", "echo")
	id := one[int64](s, `insert into pgdispatch.workflow_execution_queue
		(workspace_id, workflow_definition_id, start_before)
		values ($1, $2, now() + interval '2 seconds') returning id`, workspace, definition)
	s.eventually(func() bool { return s.count("status = 'CANCELLED'") == 1 }, "the item is cancelled")
	require.Less(t, one[time.Duration](s,
		"select finished_at - start_before from pgdispatch.workflow_execution_queue where id = $1", id), time.Second)
	s.eventually(func() bool {
		return p.has("Cancelled items that were not claimed before their start_before")
	}, "it is logged")
}

func TestPausesHoldLiveAndResumeWithoutAPoll(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica("PGDISPATCH_POLL_INTERVAL=1h").ready()

	s.exec("update pgdispatch.settings set paused = true")
	s.exec("update pgdispatch.workspaces set paused = true where id = $1", s.workspace["PRO"])
	held, other := s.enqueue("PRO", "Echo", 1)[0], s.enqueue("FREE", "Echo", 1)[0]
	s.exec("update pgdispatch.settings set paused = false")
	s.eventually(func() bool { return s.statusOf(other) == "COMPLETED" }, "the other workspace continues")
	require.Equal(t, "PENDING", s.statusOf(held))
	s.exec("update pgdispatch.workspaces set paused = false where id = $1", s.workspace["PRO"])
	s.eventually(func() bool { return s.statusOf(held) == "COMPLETED" }, "the paused workspace resumes")
}

// neverAccepted are start options that Temporal refuses: it sets this search attribute itself.
const neverAccepted = `{"search_attributes": {"StartTime": "2026-01-01T00:00:00Z"}}`

func TestWhatCanNeverStartFailsWithItsReason(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	reserved := s.define(s.workspace["PRO"], "reserved", "Echo", s.queue)
	s.exec("update pgdispatch.workflow_definitions set start_options = $1 where id = $2", neverAccepted, reserved)
	deletedDefinition := s.define(s.workspace["PRO"], "deleted", "Echo", s.queue)
	deletedWorkspace := s.addWorkspace("PRO")
	s.workspace["DELETED"] = deletedWorkspace
	refused := s.enqueue("PRO", "reserved", 1)[0]
	orphan := s.enqueue("PRO", "deleted", 1)[0]
	homeless := s.enqueue("DELETED", "Echo", 1)[0]
	s.exec("delete from pgdispatch.workflow_definitions where id = $1", deletedDefinition)
	s.exec("delete from pgdispatch.workspaces where id = $1", deletedWorkspace)
	stranger := s.foreign()

	s.replica().ready()
	for execution, reason := range map[string]string{
		refused:  "StartTime",
		orphan:   "workflow definition not found",
		homeless: "workspace not found",
		stranger: "used by a workflow that pgdispatch did not start",
	} {
		s.eventually(func() bool { return s.statusOf(execution) == "FAILED" }, "item fails: %s", reason)
		require.Contains(t,
			one[string](s, "select last_error from pgdispatch.workflow_execution_queue where execution_id = $1", execution),
			reason)
		require.Equal(t, 1,
			one[int](s, "select attempt_count from pgdispatch.workflow_execution_queue where execution_id = $1", execution),
			reason)
	}
	require.NotEmpty(t, reserved)
	require.Equal(t, 4, one[int](s, "select count(*)::int from pgdispatch.dead_letters"))
}

// foreign starts a workflow under the ID of an item that is enqueued afterwards.
func (s *stack) foreign() string {
	s.t.Helper()
	execution := uuid.NewString()
	_, err := s.client.ExecuteWorkflow(context.Background(),
		client.StartWorkflowOptions{ID: "execution-" + execution, TaskQueue: s.queue}, "Hold", input{})
	require.NoError(s.t, err)
	s.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id)
		select workspace_id, id, $2 from pgdispatch.workflow_definitions where workspace_id = $1
			and name = 'Echo'`, s.workspace["ENTERPRISE"], execution)
	return execution
}

func TestAnOutageOfTemporalFailsNothingAndEndsByItself(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	proxy := newProxy(t, s.temporal)
	proxy.down()
	s.temporal = proxy.Address
	p := s.replica("PGDISPATCH_LEASE=2s", "PGDISPATCH_START_TIMEOUT=500ms", "PGDISPATCH_POLL_INTERVAL=200ms").ready()

	executions := append(s.enqueue("PRO", "Echo", 8), s.enqueue("FREE", "Echo", 3)...)
	s.eventually(func() bool {
		return p.has(
			"Temporal does not accept workflows; pausing starts and probing. Items stay queued and no attempt is counted")
	}, "the outage is logged")
	s.eventually(func() bool { return strings.Count(p.Log(), "Released queue item") > 4 }, "probes continue")
	require.Zero(t,
		one[int](s,
			"select count(*)::int from pgdispatch.workflow_execution_queue where status = 'FAILED' or failure_count > 0"))

	proxy.up()
	for _, execution := range executions {
		s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "rows complete after the outage")
	}
	require.Equal(t, 1, one[int](s, "select max(attempt_count) from pgdispatch.workflow_execution_queue"))
	s.eventually(func() bool { return p.has("Temporal accepts workflows again; resuming starts") }, "recovery logged")
	s.requireOneRunEach(executions)
}

// listed returns the runs of this test's task queue that match the query. It reports false if Temporal's visibility
// does not answer in time; the caller retries.
func (s *stack) listed(and string) (runs []*workflowpb.WorkflowExecutionInfo, answered bool) {
	s.t.Helper()
	for token := []byte(nil); ; {
		page, err := s.client.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: "TaskQueue = '" + s.queue + "'" + and, NextPageToken: token,
		})
		if err != nil {
			s.t.Log("list workflows:", err)
			return nil, false
		}
		runs = append(runs, page.Executions...)
		if token = page.NextPageToken; len(token) == 0 {
			return runs, true
		}
	}
}

// requireOneRunEach asks Temporal for all runs of each execution's workflow.
func (s *stack) requireOneRunEach(executions []string) {
	s.t.Helper()
	s.eventually(func() bool {
		runs := map[string]int{}
		listed, _ := s.listed("")
		for _, run := range listed {
			runs[run.GetExecution().GetWorkflowId()]++
		}
		for _, execution := range executions {
			if n := runs["execution-"+execution]; n != 1 {
				require.LessOrEqual(s.t, n, 1, "runs of %s", execution)
				return false // visibility lags
			}
		}
		return true
	}, "each execution has one run")
}

func TestSIGTERMReleasesWhatItHoldsAndExitsCleanly(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	proxy := newProxy(t, s.temporal)
	s.temporal = proxy.Address
	p := s.replica("PGDISPATCH_DRAIN_TIMEOUT=300ms", "PGDISPATCH_START_TIMEOUT=30s").ready()
	s.enqueue("FREE", "Echo", 1)
	s.eventually(func() bool { return p.has("Execution ended") }, "an execution ends before the freeze")

	proxy.freeze() // starts are sent and never answered
	s.enqueue("PRO", "Echo", 5)
	s.eventually(func() bool { return s.count("status = 'CLAIMED'") == 5 }, "five starts hang")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
	require.Zero(t, s.count("status = 'CLAIMED'"))
	require.Equal(t, 5, s.count("status = 'PENDING' and outcome_unknown and attempt_count = 0 and failure_count = 0"))
	require.Zero(t, one[int](s, "select count(*)::int from pgdispatch.replicas"))
}

func TestASecondSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	proxy := newProxy(t, s.temporal)
	s.temporal = proxy.Address
	p := s.replica("PGDISPATCH_DRAIN_TIMEOUT=1h", "PGDISPATCH_START_TIMEOUT=5m", "PGDISPATCH_LEASE=1h").ready()
	proxy.freeze()
	s.enqueue("PRO", "Echo", 1)
	s.eventually(func() bool { return s.count("status = 'CLAIMED'") == 1 }, "a start hangs")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	select {
	case <-p.Exited():
		require.Fail(t, "the first signal did not wait for the start")
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, p.Signal(syscall.SIGTERM))
	select {
	case <-p.Exited():
		require.Fail(t, "a signal within a second is the same one")
	case <-time.After(time.Second):
	}
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Equal(t, 1, p.exit())
}

func (s *stack) count(condition string) int {
	s.t.Helper()
	return one[int](s, "select count(*)::int from pgdispatch.workflow_execution_queue where "+condition)
}

func TestAReplicaRefusesASchemaItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec("update pgdispatch.schema_migrations set version = 0")
	p := s.replica()
	require.Equal(t, 1, p.exit())
	require.Contains(t, p.Log(), "run `pgdispatch migrate up`")
	require.Regexp(t, `(?s)^\{[^\n]*"Starting".*\}\npgdispatch: [^\n]*\n$`, p.Log(),
		"the log precedes the error")
}

func TestAReplicaNeverLogsItsPassword(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.url = strings.Replace(s.url, "postgres@", "postgres:hunter2@", 1)
	p := s.replica("PGDISPATCH_LOG_LEVEL=debug").ready()
	s.enqueue("FREE", "Echo", 1)
	s.eventually(func() bool { return p.has("Execution ended") }, "an execution ends")
	require.NotContains(t, p.Log(), "hunter2")
	require.NotContains(t, p.Log(), "greeting", "no payload is logged")
}

func TestAnIdleReplicaStopsWithItsListenerGone(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica("PGDISPATCH_POLL_INTERVAL=1h").ready()
	s.exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgdispatch listener' " +
		"and datname = current_database()")
	s.eventually(func() bool { return strings.Count(p.Log(), `"msg":"Listening"`) == 2 }, "listens again")
	execution := s.enqueue("FREE", "Echo", 1)[0]
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "notifications arrive")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
}
