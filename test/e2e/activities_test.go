package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
	frontends "github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// defineActivity adds a definition of an activity to the workspace of a plan, named after its type.
func (s *stack) defineActivity(plan, activityType, options string) {
	s.t.Helper()
	s.exec(`insert into pgdispatch.workflow_definitions
		(workspace_id, name, kind, workflow_type, task_queue, execution_timeout, input, start_options)
		values ($1, $2, 'activity', $2, $3, '1 minute', 'params', $4)`, s.workspace[plan], activityType, s.queue, options)
}

// ended waits until an execution has ended, and returns how.
func (s *stack) ended(execution string) string {
	s.t.Helper()
	s.eventually(func() bool {
		return s.statusOf(execution) != "PENDING" && s.count("execution_id = '"+execution+
			"' and finished_at is not null") == 1
	}, "it ends")
	return one[string](s, `select concat_ws(' ', e.kind, q.status, e.status, e.error, e.result)
		from pgdispatch.workflow_executions e join pgdispatch.workflow_execution_queue q on q.execution_id = e.id
		where e.id = $1`, execution)
}

// runsOf counts the activities that Temporal has or had under an execution's ID.
func (s *stack) runsOf(execution string) (runs int64) {
	s.t.Helper()
	s.eventually(func() bool {
		counted, err := s.client.WorkflowService().CountActivityExecutions(s.t.Context(),
			&workflowservice.CountActivityExecutionsRequest{Namespace: "default",
				Query: "ActivityId = '" + temporal.WorkflowID(execution) + "'"})
		runs = counted.GetCount()
		return err == nil && runs > 0
	}, "it is listed")
	return runs
}

// throughProxy puts a proxy between replicas and Temporal.
func (s *stack) throughProxy() *frontends.Frontend {
	s.t.Helper()
	frontend, err := frontends.NewFrontend(s.temporal, &frontends.Steps{})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = frontend.Close() })
	s.temporal = frontend.Address
	return frontend
}

// Some are watched, the others are found by lists: a replica that watches nothing has only those.
func TestAnItemOfAnActivityEndsAsTheActivityDoes(t *testing.T) {
	t.Parallel()
	for _, watches := range []string{"100", "0"} {
		t.Run("watches "+watches, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			const twice = `"retry_policy": {"maximum_attempts": 2, "initial_interval": "1ms"}`
			s.defineActivity("PRO", "Pass", "{}")
			s.defineActivity("PRO", "Break", "{"+twice+"}")
			s.defineActivity("PRO", "Hang", `{"start_to_close_timeout": "0.2s", `+twice+`}`)
			s.replica("PGDISPATCH_MAX_WATCHES=" + watches).ready()
			passes, breaks := s.enqueue("PRO", "Pass", 1)[0], s.enqueue("PRO", "Break", 1)[0]
			hangs := s.enqueue("PRO", "Hang", 1)[0]
			require.Equal(t, `activity COMPLETED COMPLETED {"greeting": "hello"}`, s.ended(passes))
			require.Equal(t, "activity FAILED FAILED the oven is cold (Oven): no gas", s.ended(breaks))
			require.Equal(t, "activity FAILED TIMED_OUT activity StartToClose timeout", s.ended(hangs))
			require.Equal(t, int64(1), s.runsOf(passes))

			require.Equal(t, 1, one[int](s, `select count(*)::int from pgdispatch.dead_letters where execution_id = $1`, breaks))
			replayed := one[string](s, "select r.execution_id::text from pgdispatch.replay($1) r", breaks)
			require.Equal(t, "activity FAILED FAILED the oven is cold (Oven): no gas", s.ended(replayed))
		})
	}
}

func TestAnActivityIsCancelledAndTerminatedByRequest(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.defineActivity("FREE", "Beat", `{"heartbeat_timeout": "5m", "retry_policy": {"maximum_attempts": 1}}`)
	s.defineActivity("FREE", "Hang", "{}")
	s.replica("PGDISPATCH_POLL_INTERVAL=1h").ready()
	cancelled, terminated := s.enqueue("FREE", "Beat", 1)[0], s.enqueue("FREE", "Hang", 1)[0]
	said, last := s.enqueue("FREE", "Hang", 1)[0], s.enqueue("FREE", "Echo", 1)[0]
	s.eventually(func() bool { return s.statusOf(cancelled) == "DISPATCHED" }, "it starts")
	s.exec("select pgdispatch.request_cancel($1)", cancelled)
	require.Equal(t, "activity FAILED CANCELED activity was cancelled", s.ended(cancelled))
	s.eventually(func() bool { return s.statusOf(terminated) == "DISPATCHED" }, "the slot is free")
	s.exec("select pgdispatch.request_terminate($1, 'enough')", terminated)
	require.Equal(t, "activity FAILED TERMINATED activity was terminated: enough", s.ended(terminated))
	s.eventually(func() bool { return s.statusOf(said) == "DISPATCHED" }, "the slot is free")
	require.True(t, one[bool](s, `select pgdispatch.finish($1, 'COMPLETED', null, '{"sent": 3}')`, said))
	require.Equal(t, `activity COMPLETED COMPLETED {"sent": 3}`, s.ended(said))
	require.Equal(t, "workflow COMPLETED COMPLETED", s.ended(last)[:len("workflow COMPLETED COMPLETED")])
	require.Equal(t, int64(1),
		one[int64](s, "select n from audit.greatest_held where workspace_id = $1", s.workspace["FREE"]), "of both kinds")
}

// The start takes effect and its answer is lost; then its replica dies. Another one finds the run.
func TestAnActivityWhoseStartWasNotAnsweredRunsOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.defineActivity("PRO", "Pass", "{}")
	s.defineActivity("PRO", "Hang", "{}")
	frontend := s.throughProxy()
	frontend.Set(frontends.Rule{Method: "StartActivityExecution", Void: true, Calls: 2})
	first := s.replica("PGDISPATCH_LEASE=2s", "PGDISPATCH_START_TIMEOUT=1s").ready()
	passes, hangs := s.enqueue("PRO", "Pass", 1)[0], s.enqueue("PRO", "Hang", 1)[0]
	s.eventually(func() bool { return frontend.Hits() == 2 }, "both are started")
	require.NoError(t, first.Kill())
	s.replica("PGDISPATCH_LEASE=2s").ready()
	require.Equal(t, `activity COMPLETED COMPLETED {"greeting": "hello"}`, s.ended(passes), "before it was found")
	s.eventually(func() bool { return s.statusOf(hangs) == "DISPATCHED" }, "it is found while it runs")
	for _, execution := range []string{passes, hangs} {
		require.Equal(t, int64(1), s.runsOf(execution))
	}
	s.exec("select pgdispatch.request_terminate($1)", hangs)
	require.Equal(t, "activity FAILED TERMINATED activity was terminated", s.ended(hangs))
}

func TestActivitiesWaitForATemporalThatStartsThemAndHoldUpNobody(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.defineActivity("PRO", "Pass", "{}")
	d := &desk{t: t, url: s.url, db: s.db}
	frontend := s.throughProxy()
	old := serviceerror.ToStatus(serviceerror.NewUnimplemented("unknown method StartActivityExecution")).Err()
	frontend.Set(frontends.Rule{Method: "StartActivityExecution", Refuse: old})
	p := s.replica("PGDISPATCH_POLL_INTERVAL=200ms").ready()
	activities := s.enqueue("PRO", "Pass", 3)
	s.eventually(func() bool {
		return p.has("Temporal does not accept workflows; pausing starts and probing. Items stay " +
			"queued and no attempt is counted")
	}, "it is logged")
	for range 3 {
		for _, execution := range s.enqueue("PRO", "Echo", 5) {
			require.Contains(t, s.ended(execution), "workflow COMPLETED")
		}
	}
	require.Contains(t, p.Log(), "standalone activities need Temporal 1.32 or newer")
	s.eventually(func() bool { return frontend.Hits() > 3 }, "it is tried again")
	require.Equal(t, 3, one[int](s, `select count(*)::int from pgdispatch.workflow_execution_queue
		where status in ('PENDING', 'CLAIMED') and failure_count = 0 and execution_id = any ($1::text[]::uuid[])`,
		activities))
	says := func() bool {
		return strings.Contains(d.types("status"), "starts no standalone activities: their items wait, workflows are started")
	}
	s.eventually(says, "status says so")
	frontend.Set(frontends.Rule{})
	for _, execution := range activities {
		require.Contains(t, s.ended(execution), "activity COMPLETED")
		require.Equal(t, int64(1), s.runsOf(execution))
	}
	s.eventually(func() bool { return !says() }, "status forgets it")
}

func TestAPolicyDecidesAboutTheActivityThatHasTheID(t *testing.T) {
	t.Parallel()
	s := newPolicyStack(t)
	for _, policy := range policies {
		s.defineActivity(policy, "Hang", "{}")
	}
	s.replica().ready()
	for _, policy := range policies {
		id := uuid.NewString()
		another, err := s.client.ExecuteActivity(t.Context(), client.StartActivityOptions{ID: id, TaskQueue: s.queue,
			StartToCloseTimeout: time.Minute}, "Hang")
		require.NoError(t, err)
		if first := s.enqueueAs(policy, "Hang", id); policy == "use_existing" {
			s.eventually(func() bool { return s.statusOf(first) == "DISPATCHED" }, "it follows")
			require.Equal(t, another.GetRunID(), s.runOf(first))
			require.NoError(t, another.Terminate(t.Context(), client.TerminateActivityOptions{Reason: "enough"}))
			require.Equal(t, "activity FAILED TERMINATED activity was terminated: enough", s.ended(first))
		} else {
			s.requireRefused(first, id, another.GetRunID())
			require.NoError(t, another.Terminate(t.Context(), client.TerminateActivityOptions{}))
		}
		second := s.enqueueAs(policy, "Hang", id)
		if policy == "reject" {
			s.requireRefused(second, id, another.GetRunID())
			continue
		}
		s.eventually(func() bool { return s.statusOf(second) == "DISPATCHED" }, "%s: it starts", policy)
		require.NotEqual(t, another.GetRunID(), s.runOf(second))
		s.exec("select pgdispatch.request_terminate($1)", second)
		require.Equal(t, "activity FAILED TERMINATED activity was terminated", s.ended(second))
	}
}
