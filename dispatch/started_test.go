package dispatch

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
)

// A locked row is not an outage, and other items do not wait for it.
func TestAClaimThatMetALockedItemIsFollowedByOneWithoutIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, d *desk) {
		const unit = 10 * time.Millisecond
		d.enqueue(4)
		d.onStart = startsByID(unit)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			switch len(d.seen().settles) {
			case 1: // in the claim by the first item's worker
				return nil, fmt.Errorf("claim items: %w", claim.ErrApart)
			case 2:
				time.Sleep(time.Second)
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		d.run()
		looptest.Pass(500 * time.Millisecond)
		seen := d.seen()
		require.True(t, seen.settles[0].inClaim)
		require.False(t, seen.settles[1].inClaim)
		require.Equal(t, []string{"e2=run-e2", "e3=run-e3", "e4=run-e4"}, seen.reported)
		require.Equal(t, 2*unit, seen.claims[1].at, "as soon as a worker was free")
		require.Empty(t, d.log.At(slog.LevelError))
		looptest.Pass(time.Second)
		require.Len(t, d.seen().reported, 4)
	})
}

func TestALeaseIsRenewedUntilItsStartIsSettled(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.settlesIn(15 * time.Second)
		d.run()
		looptest.Pass(20 * time.Second)
		require.NotEmpty(t, d.seen().beats)
		require.Equal(t, []int64{1}, d.seen().beats[0].ids)
		require.Equal(t, []string{"e1=run-e1"}, d.seen().reported)
	})
}

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
		looptest.Pass(time.Second)
		for range items {
			d.enqueue(1)
			d.rings(WakeNotification)
			looptest.Pass(3 * ms)
		}
		looptest.Pass(time.Second)
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
	settles := gathered(t, 5, 4)
	require.Len(t, settles, 5)
	require.False(t, settles[0].inClaim)
	require.Equal(t, time.Second, settles[0].at)
}

func TestStartedItemsAreSettledByTheClaimOfABusyReplica(t *testing.T) {
	bubbles(t, 4, map[string]func(d *desk){
		"W nearly used up": func(*desk) {},
		"room below W":     func(d *desk) { d.leavesRoom(100) },
	}, func(t *testing.T, d *desk, prepare func(d *desk)) {
		d.enqueue(40)
		prepare(d)
		d.onStart = starts(10 * time.Millisecond)
		d.run()
		looptest.Pass(time.Second)
		taken := 0
		for _, s := range d.seen().settles {
			if s.inClaim {
				taken += len(s.batch)
			}
		}
		require.GreaterOrEqual(t, taken, 30, "all but the last, which no claim follows")
		require.Len(t, d.seen().reported, 40)
	})
}

func TestAShutdownSettlesWhatWaitsForOthers(t *testing.T) {
	bubble(t, 10, func(t *testing.T, d *desk) {
		d.PollInterval = 0
		d.leavesRoom(100)
		d.enqueue(1)
		stop := d.run()
		looptest.Pass(ms)
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
		d.run()
		looptest.Pass(ms)
		require.Len(t, d.seen().settles, 1)
	})
}
