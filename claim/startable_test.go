package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnItemThatWaitedForASlotWasStartableOnlySinceThen(t *testing.T) {
	b := newBench(t)
	b.Execute("update pgdispatch.workspaces set max_concurrent_workflows = 1")
	first := b.dispatched()
	b.enqueue("run_at", "now() - interval '1 hour'")
	b.Execute(`with without_triggers as materialized (select set_config('session_replication_role', 'replica', true))
		update pgdispatch.workflow_execution_queue set created_at = created_at - interval '1 hour'
		from without_triggers where status = 'PENDING'`)
	require.Empty(t, b.claim(1).Items, "the workspace is full")

	_, err := b.Finish(t.Context(), first.ExecutionID, "COMPLETED", "", "")
	require.NoError(t, err)
	item := b.claim(1).Items[0]
	require.Greater(t, item.Waited, 59*time.Minute)
	require.Less(t, item.Startable, time.Minute)
}
