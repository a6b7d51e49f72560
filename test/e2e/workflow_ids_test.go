package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// policies are those of definitions for a workflow ID that exists.
var policies = []string{"reject", "reuse", "use_existing"}

// enqueueAs inserts an item that names its workflow ID, under a policy, and returns its execution ID.
func (s *stack) enqueueAs(policy, definition, workflowID string) string {
	s.t.Helper()
	s.exec("update pgdispatch.workflow_definitions set workflow_id_policy = $3 where workspace_id = $1 and name = $2",
		s.workspace[policy], definition, policy)
	return one[string](s, `insert into pgdispatch.workflow_execution_queue
		(workspace_id, workflow_definition_id, workflow_id)
		select d.workspace_id, d.id, $3 from pgdispatch.workflow_definitions d where d.workspace_id = $1 and d.name = $2
		returning execution_id::text`, s.workspace[policy], definition, workflowID)
}

// newPolicyStack returns a stack with a workspace for each policy.
func newPolicyStack(t *testing.T) *stack {
	s := newStack(t)
	for _, policy := range policies {
		s.workspace[policy] = s.addWorkspace("ENTERPRISE")
	}
	return s
}

// another starts a workflow as another client, and ends it if it is to close. It returns the run ID.
func (s *stack) another(workflowID string, memo map[string]any, closes bool) string {
	s.t.Helper()
	run, err := s.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: workflowID,
		TaskQueue: s.queue, Memo: memo}, "Hold", input{})
	require.NoError(s.t, err)
	if closes {
		s.release(workflowID)
		require.NoError(s.t, run.Get(context.Background(), nil))
	}
	return run.GetRunID()
}

func (s *stack) release(workflowID string) {
	s.t.Helper()
	require.NoError(s.t, s.client.SignalWorkflow(context.Background(), workflowID, "", "go", nil))
}

func (s *stack) runOf(execution string) string {
	s.t.Helper()
	return one[string](s, "select coalesce(run_id, '') from pgdispatch.workflow_executions where id = $1", execution)
}

// runsUnder returns how many runs the workflow ID has had.
func (s *stack) runsUnder(workflowID string) int {
	s.t.Helper()
	listed, err := s.client.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: "default", Query: fmt.Sprintf("WorkflowId = '%s'", workflowID)})
	require.NoError(s.t, err)
	return len(listed.GetExecutions())
}

func TestAPolicyDecidesAboutTheRunThatHasTheWorkflowID(t *testing.T) {
	t.Parallel()
	s := newPolicyStack(t)
	s.replica().ready()
	for _, policy := range policies {
		freeID := uuid.NewString()
		free := s.enqueueAs(policy, "Hold", freeID)
		s.eventually(func() bool { return s.statusOf(free) == "DISPATCHED" }, "%s: it starts", policy)
		s.release(freeID)
		s.eventually(func() bool { return s.statusOf(free) == "COMPLETED" }, "%s: it ends", policy)
		for _, closed := range []bool{false, true} {
			id := fmt.Sprint(policy, "-closed-", closed, uuid.NewString())
			run := s.another(id, nil, closed)
			execution := s.enqueueAs(policy, "Hold", id)
			switch {
			case policy == "reject" || policy == "reuse" && !closed:
				s.requireRefused(execution, id, run)
				continue
			case closed:
				s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "%s: it starts", id)
				require.NotEqual(t, run, s.runOf(execution))
			default:
				s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "%s: it follows", id)
				require.Equal(t, run, s.runOf(execution))
			}
			s.release(id)
			s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "%s: its end is seen", id)
		}
	}
}

// requireRefused requires that an item failed at once, with an error that names the workflow ID and its run.
func (s *stack) requireRefused(execution, workflowID, run string) {
	s.t.Helper()
	s.eventually(func() bool { return s.statusOf(execution) == "FAILED" }, "%s: it fails", workflowID)
	require.Contains(s.t, one[string](s, `select attempt_count || ' ' || failure_count || ' ' || last_error
		from pgdispatch.dead_letters where execution_id = $1`, execution),
		fmt.Sprintf("1 1 workflow ID exists: %q is that of run %s", workflowID, run))
}

// The replica died between the start and its settle. The workflow has continued as new and closed since, after which
// Temporal does not recognise the repeated request; and then another client has used the ID.
func TestAStartIsNotRepeatedAfterItsRunHasContinuedAndClosed(t *testing.T) {
	t.Parallel()
	s := newPolicyStack(t)
	executions := map[string]string{}
	for _, policy := range policies {
		for _, reused := range []bool{false, true} {
			id := fmt.Sprintf("it's \"%s\" \\ %s", policy, uuid.NewString())
			execution := s.enqueueAs(policy, "Relay", id)
			s.inDoubt(execution)
			run, err := s.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: s.queue,
				Memo: map[string]any{"pgdispatch_execution_id": execution}}, "Relay", input{})
			require.NoError(t, err)
			require.NoError(t, s.client.SignalWorkflow(context.Background(), id, "", "add", "1"))
			s.eventually(func() bool {
				d, err := s.client.DescribeWorkflowExecution(context.Background(), id, "")
				return err == nil && d.GetWorkflowExecutionInfo().GetExecution().GetRunId() != run.GetRunID()
			}, "it continues as new")
			require.NoError(t, s.client.SignalWorkflow(context.Background(), id, "", "add", "end"))
			require.NoError(t, s.client.GetWorkflow(context.Background(), id, "").Get(context.Background(), nil))
			if reused {
				s.another(id, nil, true)
			}
			executions[id] = execution
		}
	}
	s.replica().ready()
	for id, execution := range executions {
		require.Equal(t, []string{"1"}, s.collected(execution), id)
	}
}

// inDoubt makes an item one whose start was sent and not answered.
func (s *stack) inDoubt(execution string) {
	s.t.Helper()
	s.exec(`insert into pgdispatch.workflow_executions (id, queue_item_id, workspace_id, workflow_definition_id,
		workflow_definition_version_id, namespace, workflow_id, first_sent_at)
		select q.execution_id, q.id, q.workspace_id, q.workflow_definition_id, v.id, 'default', q.workflow_id,
			clock_timestamp()
		from pgdispatch.workflow_execution_queue q
		join pgdispatch.workflow_definition_versions v using (workflow_definition_id) where q.execution_id = $1`, execution)
	s.exec(`update pgdispatch.workflow_execution_queue set outcome_unknown = true,
		lease_token = nextval('pgdispatch.lease_tokens') where execution_id = $1`, execution)
}

func TestItemsOfOneWorkflowIDAreStartedInOrder(t *testing.T) {
	t.Parallel()
	s := newPolicyStack(t)
	s.replica().ready()
	s.replica().ready()
	const items = 10
	id := uuid.NewString()
	for range items {
		s.enqueueAs("use_existing", "Hold", id)
	}
	s.eventually(func() bool {
		return one[int](s, "select count(*) from pgdispatch.workflow_execution_queue where status = 'DISPATCHED'") == items
	}, "all are started")
	require.True(t, one[bool](s, `select array_agg(id order by dispatched_at) = array_agg(id order by lease_token)
		from pgdispatch.workflow_execution_queue`))
	require.Equal(t, 1, one[int](s, "select count(distinct run_id) from pgdispatch.workflow_executions"))
	require.Equal(t, items,
		one[int](s, "select count(*) from pgdispatch.workflow_execution_queue where attempt_count = 1 and failure_count = 0"))
	s.release(id)
	s.eventually(func() bool {
		return one[int](s, "select count(*) from pgdispatch.workflow_execution_queue where status = 'COMPLETED'") == items
	}, "all follow the run to its end")
	require.Equal(t, 1, s.runsUnder(id))
}

func TestSignalsGoByWorkflowIDAndStopsByItem(t *testing.T) {
	t.Parallel()
	s := newPolicyStack(t)
	s.replica().ready()
	followed, ownID := uuid.NewString(), uuid.NewString()
	s.another(followed, nil, false)
	follower := s.enqueueAs("use_existing", "Hold", followed)
	s.exec("select pgdispatch.signal_workflow($1, $2, 'go')", s.workspace["use_existing"], followed)
	s.eventually(func() bool { return s.statusOf(follower) == "COMPLETED" }, "the run that it follows gets the signal")

	own, other := s.enqueueAs("reject", "Relay", ownID), s.enqueueAs("use_existing", "Hold", uuid.NewString())
	s.exec("select pgdispatch.signal_workflow($1, $2, 'add', '\"1\"')", s.workspace["reject"], ownID)
	s.eventually(func() bool { return s.statusOf(own) == "DISPATCHED" && s.statusOf(other) == "DISPATCHED" }, "they run")
	s.exec("select pgdispatch.request_terminate($1)", other)
	s.eventually(func() bool { return s.statusOf(other) == "FAILED" }, "it is terminated")
	s.eventually(func() bool {
		d, err := s.client.DescribeWorkflowExecution(context.Background(), ownID, "")
		return err == nil && d.GetWorkflowExecutionInfo().GetExecution().GetRunId() != s.runOf(own)
	}, "it continues as new")
	s.exec("select pgdispatch.signal_workflow($1, $2, 'add', '\"end\"')", s.workspace["reject"], ownID)
	require.Equal(t, []string{"1"}, s.collected(own))
	_, err := s.db.Exec(context.Background(), "select pgdispatch.signal_workflow($1, $2, 'add')", s.workspace["reject"],
		ownID)
	require.ErrorContains(t, err, "with workflow_id '"+ownID+"' waits or runs (SQLSTATE PGD44)")
}

// Nobody watches: the end is found by the list of closed workflows, or by Temporal's callback.
func TestTheEndOfANamedWorkflowIsFoundByListsAndCallbacks(t *testing.T) {
	t.Parallel()
	for name, variables := range map[string][]string{
		"lists": {"PGDISPATCH_MAX_WATCHES=0"}, "callbacks": callbackTo(freeAddress(t)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPolicyStack(t)
			s.replica(variables...).ready()
			owned, followed := uuid.NewString(), uuid.NewString()
			s.another(followed, nil, false)
			own, follower := s.enqueueAs("reject", "Hold", owned), s.enqueueAs("use_existing", "Hold", followed)
			s.eventually(func() bool { return s.statusOf(own) == "DISPATCHED" && s.statusOf(follower) == "DISPATCHED" }, "run")
			if name == "callbacks" {
				s.onlyCallbacks()
			}
			s.release(owned)
			s.release(followed)
			s.eventually(func() bool { return s.statusOf(own) == "COMPLETED" && s.statusOf(follower) == "COMPLETED" }, "end")
		})
	}
}

// A reset terminates the run that an item follows, and continues in another one.
func TestAnItemFollowsARunBeyondItsReset(t *testing.T) {
	t.Parallel()
	s := newPolicyStack(t)
	s.replica().ready()
	id := uuid.NewString()
	s.another(id, nil, false)
	follower := s.enqueueAs("use_existing", "Hold", id)
	s.eventually(func() bool { return s.statusOf(follower) == "DISPATCHED" }, "it follows")
	tried := &trial{stack: s, id: id, known: map[string]string{}}
	tried.resets()
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, tried.newest(""))
	s.release(id)
	s.eventually(func() bool { return s.statusOf(follower) == "COMPLETED" }, "it follows the new run")
}
