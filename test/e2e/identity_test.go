package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

func TestAnItemThatTemporalMayHaveForgottenIsParkedForAPerson(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	executions := s.enqueue("PRO", "Echo", 3)
	s.exec("update pgdispatch.workflow_execution_queue " +
		"set outcome_unknown = true, lease_token = nextval('pgdispatch.lease_tokens')")
	ran, forgotten, young := executions[0], executions[1], executions[2]
	s.exec(`insert into pgdispatch.workflow_executions (id, queue_item_id, workspace_id, workflow_definition_id,
		workflow_definition_version_id)
		select q.execution_id, q.id, q.workspace_id, q.workflow_definition_id, v.id
		from pgdispatch.workflow_execution_queue q
		join pgdispatch.workflow_definition_versions v using (workflow_definition_id)`)
	s.exec(`update pgdispatch.workflow_executions set first_sent_at = clock_timestamp() - interval '1 hour'`)
	// The namespace's retention is a day.
	s.exec(`update pgdispatch.workflow_executions set first_sent_at = clock_timestamp() - interval '25 hours'
		where id = any ($1)`, []string{ran, forgotten})
	_, err := s.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{
		ID: "execution-" + ran, TaskQueue: s.queue, Memo: map[string]any{"pgdispatch_execution_id": ran},
	}, "Echo", input{})
	require.NoError(t, err)

	s.replica().ready()
	s.eventually(func() bool { return s.statusOf(forgotten) == "FAILED" }, "the outcome is unknown and beyond retention")
	require.Contains(t,
		one[string](s, "select last_error from pgdispatch.dead_letters where execution_id = $1", forgotten),
		"the namespace's retention is 24h0m0s): replay the item if its workflow did not run")
	s.eventually(func() bool { return s.statusOf(ran) == "COMPLETED" }, "Temporal still has the workflow")
	s.eventually(func() bool { return s.statusOf(young) == "COMPLETED" }, "the workflow is started again")
	s.requireOneRunEach([]string{ran, young})
}

func TestANamespaceThatIsNotThereFailsNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.enqueue("PRO", "Echo", 3)
	p := s.replica("TEMPORAL_NAMESPACE=nowhere").ready()
	s.eventually(func() bool { return strings.Count(p.Log(), "Released queue item") > 2 }, "the replica probes")
	s.eventually(func() bool {
		return strings.Contains(p.Log(),
			`"outcome":"blocked","error":"start workflow: Namespace nowhere is not found."`)
	}, "the log gives the reason")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
	require.Equal(t, 3, s.count("status = 'PENDING' and not outcome_unknown and attempt_count = 0 and failure_count = 0"))
}

func TestAReplicasLogEndsWithStopped(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica().ready()
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
	lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
	require.Contains(t, lines[0], `"msg":"Starting"`)
	require.Contains(t, lines[len(lines)-1], `"msg":"Stopped"`)
}
