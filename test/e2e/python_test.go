//go:build clients

package e2e

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

// make clients installs Temporal's Python SDK.
func TestThePythonWorkerOfTheQuickStartRunsAStandaloneActivity(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec(`insert into pgdispatch.workflow_definitions
		(workspace_id, name, kind, workflow_type, task_queue, execution_timeout, input)
		values ($1, 'mail', 'activity', 'SendMail', 'mails', '1 minute', 'args')`, s.workspace["PRO"])
	execution := one[string](s, `insert into pgdispatch.workflow_execution_queue
		(workspace_id, workflow_definition_id, params)
		select workspace_id, id, '["ann@example.com"]' from pgdispatch.workflow_definitions where name = 'mail'
		returning execution_id::text`)
	s.replica().ready()
	worker := exec.CommandContext(t.Context(), checkout+"/.cache/clients/venv/bin/python",
		checkout+"/docs/clients/worker/worker.py")
	worker.Env = process.Environment("TEMPORAL_ADDRESS="+s.temporal, "TEMPORAL_NAMESPACE=default")
	require.NoError(t, worker.Start())
	t.Cleanup(func() { _ = worker.Wait() }) // the context of the test has killed it
	require.Equal(t, `activity COMPLETED COMPLETED "sent to ann@example.com"`, s.ended(execution))
}
