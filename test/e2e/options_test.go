package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStartOptionsReachTemporalAndAnUnknownSearchAttributeFailsTheItem(t *testing.T) {
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
	s.eventually(func() bool {
		return s.statusOf(good) == "DISPATCHED" && s.statusOf(bad) == "FAILED"
	}, "one item is started, one rejected")
	require.Contains(t,
		one[string](s, "select last_error from pgdispatch.workflow_execution_queue where execution_id = $1", bad), "Nobody")

	run, err := s.client.DescribeWorkflowExecution(t.Context(), "execution-"+good, "")
	require.NoError(t, err)
	require.Equal(t, `"red"`, string(run.GetWorkflowExecutionInfo().GetMemo().GetFields()["team"].GetData()))
	require.Equal(t, `"Order 17"`, string(run.GetExecutionConfig().GetUserMetadata().GetSummary().GetData()))
	require.Equal(t, "1h0m0s", run.GetExecutionConfig().GetWorkflowRunTimeout().AsDuration().String())
}
