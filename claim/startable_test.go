package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnItemThatWaitedForASlotWasStartableOnlySinceThen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Execute("update pgdispatch.workspaces set max_concurrent_workflows = 1")
	first := b.dispatched(b.Store, 1)[0]
	b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() - interval '1 hour' from pgdispatch.workflow_definitions`)
	b.Execute(`with without_triggers as materialized (select set_config('session_replication_role', 'replica', true))
		update pgdispatch.workflow_execution_queue set created_at = created_at - interval '1 hour'
		from without_triggers where status = 'PENDING'`)
	batch, err := b.Claim(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, batch.Items, "the workspace is full")

	_, err = b.Finish(t.Context(), first.ExecutionID, "COMPLETED", "", "")
	require.NoError(t, err)
	batch, err = b.Claim(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, batch.Items, 1)
	require.Greater(t, batch.Items[0].Waited, 59*time.Minute)
	require.Less(t, batch.Items[0].Startable, time.Minute)
}
