package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDepthCountsWhatHasNotEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	empty, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	require.Equal(t, Depth{MaxClaims: 100, DeadLettersExact: true}, empty)

	b.execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() + interval '1 day' from pgdispatch.workflow_definitions`)
	later, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	require.Equal(t, Depth{Pending: 1, MaxClaims: 100, DeadLettersExact: true}, later, "what is for later does not wait yet")

	b.dispatched(b.Store, 2)
	ended := b.dispatched(b.Store, 1)[0]
	_, err = b.Finish(t.Context(), ended.ExecutionID, "FAILED", "it broke", "")
	require.NoError(t, err)
	b.claimed(b.Store, 3)
	b.enqueue(b.shop, 5)
	b.execute(`update pgdispatch.workflow_execution_queue set outcome_unknown = true, lease_token = nextval('pgdispatch.lease_tokens')
		where id = (select max(id) from pgdispatch.workflow_execution_queue)`)
	b.execute(`update pgdispatch.workflow_execution_queue set run_at = run_at - interval '1 hour'
		where id = (select min(id) from pgdispatch.workflow_execution_queue where status = 'PENDING' and run_at < now())`)
	require.NoError(t, b.Alive(t.Context(), Presence{Version: "v1", Workers: 10}))
	b.execute("update pgdispatch.settings set paused = true, max_claims = 7")

	depth, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	require.InDelta(t, time.Hour, *depth.OldestWaiting, float64(time.Minute))
	depth.OldestWaiting = nil
	require.Equal(t, Depth{Pending: 6, Claimed: 3, Dispatched: 2, DeadLetters: 1, DeadLettersExact: true, Replicas: 1, MaxClaims: 7, Paused: true}, depth)
}

// longQueue has 500 items more than are counted, and returns the depth that the statistics say.
func (b *bench) longQueue() Depth {
	b.t.Helper()
	b.enqueue(b.shop, depthLimit+500)
	b.execute("analyze pgdispatch.workflow_execution_queue")
	depth, err := b.QueueDepth(b.t.Context())
	require.NoError(b.t, err)
	return depth
}

func TestDepthOfALongQueueIsWhatTheStatisticsSay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	depth := b.longQueue()
	require.InDelta(t, depthLimit+500, depth.Pending, 400)
	b.execute("update pg_class set reltuples = 0 where oid = 'pgdispatch.workflow_execution_queue_arrivals'::regclass")
	depth, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, depthLimit, depth.Pending, "never less than was counted")
}
