package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

// leavesRoom makes every claim report so much room below W.
func (d *desk) leavesRoom(room int) {
	d.onClaim = func(atMost int) (claim.Batch, error) {
		batch := fakeStore{d}.take(claim.Wanted{AtMost: atMost})
		batch.Asked, batch.Room = 1, room
		return batch, nil
	}
}

// gathered runs ten workers on items that arrive one after another, 3 ms apart, with so much room below W. It returns
// the settles.
func gathered(t *testing.T, items, room int) (settles []settleCall) {
	t.Helper()
	bubble(t, 10, func(t *testing.T, d *desk) {
		d.PollInterval = 0
		d.leavesRoom(room)
		stop := d.run()
		pass(time.Second)
		for range items {
			d.enqueue(1)
			d.wake <- WakeNotification
			pass(3 * ms)
		}
		pass(time.Second)
		stop()
		require.Len(t, d.seen().reported, items)
		settles = d.seen().settles
	})
	return settles
}

func TestStartedItemsWaitForOthersToBeSettledWithThem(t *testing.T) {
	settles := gathered(t, 5, 100)
	require.Len(t, settles, 2)
	require.Len(t, settles[0].batch, 4)
	require.Equal(t, time.Second+settleGather, settles[0].at)
	require.False(t, settles[0].inClaim, "the claims do not wait for it")
	require.False(t, settles[1].inClaim)
}

func TestStartedItemsDoNotWaitWhileWIsNearlyUsedUp(t *testing.T) {
	settles := gathered(t, 5, 9)
	require.Len(t, settles, 5)
	require.Equal(t, time.Second, settles[0].at)
}

func TestStartedItemsAreSettledByTheClaimOfABusyReplica(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(40)
		d.leavesRoom(100)
		d.onStart = starts(10 * time.Millisecond)
		stop := d.run()
		pass(time.Second)
		taken := 0
		for _, s := range d.seen().settles {
			if s.inClaim {
				taken += len(s.batch)
			}
		}
		require.GreaterOrEqual(t, taken, 30)
		require.Len(t, d.seen().reported, 40)
		stop()
	})
}

func TestAShutdownSettlesWhatWaitsForOthers(t *testing.T) {
	bubble(t, 10, func(t *testing.T, d *desk) {
		d.PollInterval = 0
		d.leavesRoom(100)
		d.enqueue(1)
		stop := d.run()
		pass(ms)
		require.Empty(t, d.seen().settles)
		stop()
		require.Equal(t, []string{"e1=run-e1"}, d.seen().reported)
		require.Less(t, d.now(), settleGather)
	})
}

func TestAStartedItemWhoseSlotOthersAwaitIsSettledAtOnce(t *testing.T) {
	bubble(t, 10, func(t *testing.T, d *desk) {
		d.PollInterval = 0
		d.leavesRoom(100)
		d.enqueueItem(claim.Item{MaxAttempts: 3, Awaited: true})
		stop := d.run()
		pass(ms)
		require.Len(t, d.seen().settles, 1)
		stop()
	})
}
