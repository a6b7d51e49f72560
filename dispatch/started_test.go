package dispatch

import (
	"context"
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
		require.GreaterOrEqual(t, taken, 32, "all but the last, which no claim follows")
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

// A locked row is not an outage, and other items do not wait for it.
func TestAClaimThatMetALockedItemIsFollowedByOneWithoutIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, d *desk) {
		const unit = 10 * time.Millisecond
		d.enqueue(4)
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			return starts(time.Duration(item.ID)*unit)(ctx, item)
		}
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			switch len(d.seen().settles) {
			case 1: // in the claim by the first item's worker
				return nil, fmt.Errorf("claim items: %w", claim.ErrApart)
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
		require.Equal(t, 2*unit, seen.claims[1].at, "as soon as a worker was free")
		require.Empty(t, d.log.At(slog.LevelError))
		pass(time.Second)
		require.Len(t, d.seen().reported, 4)
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
