package claim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

func TestStore_KnowsForWhichWorkspacesItemsAwaitASlot(t *testing.T) {
	b := newBench(t)
	told := 0
	b.Full = func() { told++ }
	b.Execute("update pgdispatch.workspaces set max_concurrent_workflows = 2")
	running := []Item{b.dispatched(), b.dispatched()}
	require.False(t, b.AwaitsSlot(b.Shop.Shop), "nothing waits")
	require.Zero(t, told)

	b.Insert(b.Shop.Shop, 2)
	require.Empty(t, b.claim(9).Items)
	require.True(t, b.AwaitsSlot(b.Shop.Shop))
	require.Equal(t, 1, told)
	for n, left := range []bool{true, false} {
		must.Get(b.Finish(t.Context(), running[n].ExecutionID, "COMPLETED", "", "")).In(t)
		require.Len(t, b.claim(9).Items, 1)
		require.Equal(t, left, b.AwaitsSlot(b.Shop.Shop), "one item has got the slot of the other")
	}

	b.Insert(b.Shop.Shop, 1)
	require.Empty(t, b.claim(9).Items)
	require.True(t, b.AwaitsSlot(b.Shop.Shop))
	b.Execute("select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue where status = 'PENDING'")
	b.aMinuteLater(Wanted{AtMost: 9})
	require.False(t, b.AwaitsSlot(b.Shop.Shop), "what waited was cancelled")
}
