package operate_test

import (
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/stretchr/testify/require"
)

func TestDepthCountsWhatHasNotEnded(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	empty, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	require.Equal(t, operate.Depth{MaxClaims: 100, DeadLettersExact: true}, empty)

	b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() + interval '1 day' from pgdispatch.workflow_definitions`)
	later, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	require.Equal(t, operate.Depth{Pending: 1, MaxClaims: 100, DeadLettersExact: true}, later,
		"items scheduled for later are not counted")

	b.Dispatched(2)
	ended := b.Dispatched(1)[0]
	_, err = b.Finish(t.Context(), ended.ExecutionID, "FAILED", "it broke", "")
	require.NoError(t, err)
	b.Claimed(3)
	b.Insert(b.Shop.Shop, 5)
	b.Execute(`update pgdispatch.workflow_execution_queue
		set outcome_unknown = true, lease_token = nextval('pgdispatch.lease_tokens')
		where id = (select max(id) from pgdispatch.workflow_execution_queue)`)
	b.Execute(`update pgdispatch.workflow_execution_queue set run_at = run_at - interval '1 hour'
		where id = (select min(id) from pgdispatch.workflow_execution_queue where status = 'PENDING' and run_at < now())`)
	b.Alive()
	b.Execute("update pgdispatch.settings set paused = true, max_claims = 7")

	depth, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	require.InDelta(t, time.Hour, *depth.OldestWaiting, float64(time.Minute))
	require.NotNil(t, depth.OldestUnanswered)
	depth.OldestWaiting, depth.OldestUnanswered = nil, nil
	require.Equal(t, operate.Depth{Pending: 5, Unanswered: 1, Claimed: 3, Dispatched: 2, DeadLetters: 1,
		DeadLettersExact: true, Replicas: 1, MaxClaims: 7, Paused: true}, depth)
}

// longQueue creates 500 items more than are counted, and returns the estimate from the statistics.
func longQueue(t *testing.T, b *storetest.Bench) operate.Depth {
	t.Helper()
	b.Insert(b.Shop.Shop, operate.DepthLimit+500)
	b.Execute("analyze pgdispatch.workflow_execution_queue")
	depth, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	return depth
}

func TestDepthOfALongQueueIsWhatTheStatisticsSay(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	depth := longQueue(t, b)
	require.InDelta(t, operate.DepthLimit+500, depth.Pending, 400)
	b.Execute("update pg_class set reltuples = 0 where oid = 'pgdispatch.workflow_execution_queue_arrivals'::regclass")
	depth, err := b.QueueDepth(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, operate.DepthLimit, depth.Pending, "never below the counted number")
}
