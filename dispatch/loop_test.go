package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
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
		looptest.Pass(time.Second)
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

// stallOf enqueues an item after a second whose notification the store does not see for 200 ms, and returns
// what was reported. The claim of an item says that it has been startable for so long.
func stallOf(t *testing.T, source string, startable time.Duration) (seen []time.Duration) {
	t.Helper()
	bubble(t, 1, func(t *testing.T, d *desk) {
		observer := d.observed()
		d.PollInterval = 0
		var heeded time.Time
		d.onClaim = func(atMost int) (claim.Batch, error) {
			if time.Now().Before(heeded) {
				return claim.Batch{LookAgainIn: time.Until(heeded)}, nil // as if its row were locked
			}
			batch := fakeStore{d}.take(claim.Wanted{AtMost: atMost})
			for n := range batch.Items {
				batch.Items[n].Startable = startable
			}
			return batch, nil
		}
		stop := d.run()
		looptest.Pass(time.Second)
		heeded = time.Now().Add(200 * ms)
		d.enqueue(1)
		d.rings(source)
		looptest.Pass(time.Second)
		stop()
		seen = observer.stalled
	})
	return seen
}

func TestAClaimThatIgnoresWhatItWasToldIsAStall(t *testing.T) {
	require.Equal(t, []time.Duration{201 * ms}, stallOf(t, WakeNotification, time.Minute))
}

func TestWhatWasHeldBackIsNoStall(t *testing.T) {
	require.Empty(t, stallOf(t, WakeNotification, 20*ms))
}

// A poll says nothing of how long an item has waited.
func TestWhatAPollFindsIsNoStall(t *testing.T) {
	require.Empty(t, stallOf(t, WakePoll, time.Minute))
}

func TestAnItemThatWaitsForAWorkerIsNoStall(t *testing.T) {
	var s stall
	now, old := time.Now(), claim.Batch{Items: []claim.Item{{Startable: time.Minute}}, Asked: 1}
	s.knows(now)
	require.Zero(t, s.stopped(now.Add(time.Second), old), "no worker has been free")
	s.knows(now)
	s.workers(now, true)
	require.Equal(t, time.Second, s.stopped(now.Add(time.Second), old))
	require.Zero(t, s.stopped(now.Add(2*time.Second), old), "nothing is known to wait since")
	s.knows(now)
	s.workers(now, false)
	s.workers(now.Add(time.Second), true)
	require.Equal(t, time.Millisecond, s.stopped(now.Add(time.Second+time.Millisecond), old))
}

func TestWhatAClaimLeavesIsKnown(t *testing.T) {
	for name, left := range map[string]claim.Batch{
		"more is due":               {Asked: 1, More: true},
		"a look found what arrived": {Arrived: 1},
	} {
		var s stall
		now := time.Now()
		s.workers(now, true)
		s.stopped(now, left)
		require.Equal(t, time.Second, s.stopped(now.Add(time.Second),
			claim.Batch{Items: []claim.Item{{Startable: time.Minute}}}), name)
	}
}
