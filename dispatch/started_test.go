package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

func TestABusyReplicaSettlesInItsClaims(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(40)
		d.onStart = starts(10 * time.Millisecond)
		stop := d.run()
		pass(time.Second)
		seen := d.seen()
		require.Len(t, seen.reported, 40)
		taken := 0
		for _, s := range seen.settles {
			if s.inClaim {
				taken += len(s.batch)
			}
		}
		require.GreaterOrEqual(t, taken, 32, "all but the last, after which there is nothing to claim")
		stop()
	})
}

func TestAnIdleReplicaSettlesAtOnce(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(1)
		stop := d.run()
		pass(time.Millisecond)
		require.Len(t, d.seen().settles, 1)
		require.False(t, d.seen().settles[0].inClaim)
		require.Equal(t, []string{"e1=run-e1"}, d.seen().reported)
		stop()
	})
}

func TestWhatAFailedClaimDidNotSettleIsSettledWithoutIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueue(2)
		d.onStart = starts(10 * time.Millisecond)
		settles := 0
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			settles++
			if settles == 1 {
				return nil, errors.New("connection reset")
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		stop := d.run()
		pass(time.Second)
		seen := d.seen()
		require.True(t, seen.settles[0].inClaim)
		require.False(t, seen.settles[1].inClaim)
		require.Equal(t, []string{"e1=run-e1", "e2=run-e2"}, seen.reported)
		stop()
	})
}

// A row that somebody keeps locked is no outage, and nobody else waits for it.
func TestAClaimThatMetALockedItemIsFollowedByOneWithoutIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, d *desk) {
		const unit = 10 * time.Millisecond
		d.enqueue(4)
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			return starts(time.Duration(item.ID)*unit)(ctx, item)
		}
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			switch len(d.seen().settles) {
			case 1: // in the claim that the first item's worker made
				return nil, fmt.Errorf("claim items: %w", claim.ErrLocked)
			case 2:
				time.Sleep(time.Second)
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		stop := d.run()
		pass(500 * time.Millisecond)
		seen := d.seen()
		require.True(t, seen.settles[0].inClaim)
		require.False(t, seen.settles[1].inClaim)
		require.Equal(t, []string{"e2=run-e2", "e3=run-e3", "e4=run-e4"}, seen.reported)
		require.Equal(t, 2*unit, seen.claims[1].at, "as soon as there was a worker")
		require.Empty(t, d.log.at(slog.LevelError))
		pass(time.Second)
		require.Len(t, d.seen().reported, 4)
		stop()
	})
}

func TestALeaseThatAClaimFoundLostIsReported(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueue(2)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			fakeStore{d}.putBack(verb, batch)
			return []int64{2}, nil
		}
		stop := d.run()
		pass(time.Second)
		require.Equal(t, []string{"e2=run-e2"}, d.seen().reported)
		require.Equal(t, claim.ErrLost.Error(), d.log.value("Lease lost", "error"))
		stop()
	})
}

func TestALeaseIsRenewedUntilItsStartIsSettled(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			time.Sleep(15 * time.Second)
			return fakeStore{d}.putBack(verb, batch), nil
		}
		stop := d.run()
		pass(20 * time.Second)
		require.NotEmpty(t, d.seen().beats)
		require.Equal(t, []int64{1}, d.seen().beats[0].ids)
		require.Equal(t, []string{"e1=run-e1"}, d.seen().reported)
		stop()
	})
}

func TestWorkersThatComeFreeOneAfterAnotherShareAClaim(t *testing.T) {
	bubble(t, 100, func(t *testing.T, d *desk) {
		const claimTakes = 4 * time.Millisecond
		d.enqueue(2000)
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			// Ten come free each millisecond.
			return starts(10*time.Millisecond+time.Duration(item.ID%100/10)*time.Millisecond)(ctx, item)
		}
		d.onClaim = func(atMost int) (claim.Batch, error) {
			time.Sleep(claimTakes)
			return fakeStore{d}.take(claim.Wanted{AtMost: atMost}), nil
		}
		stop := d.run()
		pass(time.Second)
		require.Len(t, d.seen().reported, 2000)
		for n, c := range d.seen().claims[1:] {
			if c.atMost > 0 && c.atMost < 50 && d.seen().claims[n].atMost >= 50 {
				require.GreaterOrEqual(t, c.at-d.seen().claims[n].at, claimTakes*5/4, "it waited for others, a quarter of what a claim takes")
			}
		}
		require.Less(t, len(d.seen().claims), 160, "not one claim for each that came free")
		stop()
	})
}

func TestPaceWaitsNoLongerThanAClaimTakes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var p pace
	require.False(t, p.gathers(now, 1, 100), "nothing is known yet")
	p.claimed(now.Add(-8*time.Millisecond), now, true)
	require.True(t, p.gathers(now.Add(time.Millisecond), 1, 100))
	require.Equal(t, now.Add(2*time.Millisecond), p.until)
	require.False(t, p.gathers(now.Add(2*time.Millisecond), 1, 100), "long enough")
	require.Zero(t, p.until)
	require.False(t, p.gathers(now, 50, 100), "half of the workers are enough")
	require.False(t, p.gathers(now, 1, 1), "a single worker waits for nobody")
	p.claimed(now.Add(-3*time.Millisecond), now, false)
	require.False(t, p.gathers(now, 1, 100), "there was less than was asked for: whoever comes now is not made to wait")
}
