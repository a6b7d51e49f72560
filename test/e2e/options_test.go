package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStartOptions_ReachTemporalAndAnUnknownSearchAttributeFailsTheItemInTheEnd(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	s.exec(`update pgdispatch.workflow_definitions
		set start_options = '{"memo": {"team": "red"}, "workflow_run_timeout": "1h"}'`)
	insert := `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, start_options)
		select workspace_id, id, $2::jsonb from pgdispatch.workflow_definitions where workspace_id = $1 and name = 'Hold'
		returning execution_id::text`
	good := one[string](s, insert, s.workspace["PRO"],
		`{"static_summary": "Order 17", "retry_policy": {"maximum_attempts": 2}}`)
	bad := one[string](s, insert, s.workspace["PRO"], `{"search_attributes": {"Nobody": "x"}}`)
	const failures = "select failure_count from pgdispatch.workflow_execution_queue where execution_id = $1"
	s.eventually(func() bool {
		return s.statusOf(good) == "DISPATCHED" && one[int](s, failures, bad) > 0
	}, "one item is started, one waits, in case its search attribute is being registered")
	const problem = "select last_error from pgdispatch.workflow_execution_queue where execution_id = $1"
	require.Regexp(t, "retried for some minutes, in case it is being registered: .*Nobody", one[string](s, problem, bad))
	s.exec("update pgdispatch.workflow_execution_queue set failure_count = 8, run_at = now() where execution_id = $1", bad)
	s.eventually(func() bool { return s.statusOf(bad) == "FAILED" }, "it fails in the end")
	require.Contains(t, one[string](s, problem, bad), "Nobody")

	run, err := s.client.DescribeWorkflowExecution(t.Context(), "execution-"+good, "")
	require.NoError(t, err)
	require.Equal(t, `"red"`, string(run.GetWorkflowExecutionInfo().GetMemo().GetFields()["team"].GetData()))
	require.Equal(t, `"Order 17"`, string(run.GetExecutionConfig().GetUserMetadata().GetSummary().GetData()))
	require.Equal(t, "1h0m0s", run.GetExecutionConfig().GetWorkflowRunTimeout().AsDuration().String())
}
