package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

// gathering runs four workers on many items, with claims of 4 ms and starts that take as long as given, by item. It
// returns the first two claims.
func gathering(t *testing.T, shared bool, starts ...time.Duration) (calls []claimCall) {
	t.Helper()
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(100)
		d.onClaim = func(atMost int) (claim.Batch, error) {
			time.Sleep(4 * time.Millisecond)
			batch := fakeStore{d}.take(claim.Wanted{AtMost: atMost})
			batch.Shared = shared
			return batch, nil
		}
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			time.Sleep(starts[int(item.ID-1)%len(starts)])
			return "run", nil
		}
		stop := d.run()
		pass(time.Second)
		stop()
		calls = d.seen().claims[:2]
	})
	return calls
}

const ms = time.Millisecond

func TestAClaimWaitsUntilItServesHalfOfTheWorkers(t *testing.T) {
	require.Equal(t, []claimCall{{0, 4}, {6 * ms, 2}}, gathering(t, false, ms, 2*ms, 3*ms, 3*ms))
}

func TestAClaimBesideOtherReplicasWaitsUntilItServesAllWorkers(t *testing.T) {
	require.Equal(t, []claimCall{{0, 4}, {7 * ms, 4}}, gathering(t, true, ms, 2*ms, 3*ms, 3*ms))
}

func TestAClaimWaitsForWorkersNoLongerThanTheLastClaimTook(t *testing.T) {
	require.Equal(t, []claimCall{{0, 4}, {8 * ms, 1}}, gathering(t, false, ms, time.Minute, time.Minute, time.Minute))
}

func TestAClaimWaitsForNoWorkersIfStartsAreSlowerThanClaims(t *testing.T) {
	var g gather
	more := claim.Batch{More: true}
	now := time.Now()
	g.started(5 * ms)
	g.plan(more, now, 4*ms, 4)
	require.False(t, g.waits(now, 1))
	g.plan(more, now, 6*ms, 4)
	require.True(t, g.waits(now, 1))
	g.plan(more, now, time.Second, 4)
	require.False(t, g.waits(now.Add(gatherMost), 1), "a claim that waited for a lock must not idle the workers as long")
}

func TestAClaimWaitsForNoWorkersUnlessItFindsItemsForThem(t *testing.T) {
	for name, batch := range map[string]claim.Batch{"no more items": {}, "W is reached": {More: true, Capped: true}} {
		var g gather
		now := time.Now()
		g.plan(batch, now, 4*ms, 4)
		require.False(t, g.waits(now, 1), name)
	}
}
