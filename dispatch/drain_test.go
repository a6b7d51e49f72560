package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
)

// The bubbles prove that no goroutine is left when Run returns: otherwise they would not end.

func TestADispatcherWithoutWorkEndsAtOnce(t *testing.T) {
	bubbles(t, 4, map[string]error{"idle": nil, "without a database": errors.New("connection refused")},
		func(t *testing.T, d *desk, answer error) {
			d.onClaim = func(int) (claim.Batch, error) { return claim.Batch{LookAgainIn: -1}, answer }
			stop := d.run()
			looptest.Pass(time.Minute)
			stop()
			require.Equal(t, time.Minute, d.now())
		})
}

func TestDispatcherThatIsCancelledBeforeItsStartClaimsNothing(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, d.Run(ctx))
		require.Empty(t, d.seen().claims)
	})
}

func TestEndLetsHandOversUnderWayFinishAndRenewsTheirLeases(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.StartTimeout, d.DrainTimeout = time.Minute, time.Minute
		d.enqueue(20)
		d.onStart = starts(25 * time.Second)
		stop := d.run()
		looptest.Pass(time.Second)
		stop()
		require.Equal(t, 25*time.Second, d.now())
		require.Len(t, d.seen().reported, 4)
		require.Len(t, d.seen().claims, 1, "no claim after the shutdown has begun")
		require.Equal(t, []claim.Verb{claim.Dispatched, claim.Dispatched, claim.Dispatched, claim.Dispatched}, d.verbs())
		all := []int64{1, 2, 3, 4}
		require.Equal(t, []beatCall{{10 * time.Second, all}, {20 * time.Second, all}}, d.seen().beats,
			"one heartbeat for all leases, every third of a lease")
	})
}

func TestEndReleasesWhatItBreaksOff(t *testing.T) {
	for _, timeout := range []time.Duration{0, 2 * time.Second} {
		t.Run(timeout.String(), func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, d *desk) {
				d.StartTimeout, d.DrainTimeout = time.Minute, timeout
				d.enqueue(2)
				d.onStart = starts(time.Hour)
				stop := d.run()
				looptest.Pass(time.Second)
				stop()
				require.Equal(t, time.Second+timeout, d.now())
				require.Len(t, d.settlements(), 2)
				for _, s := range d.settlements() {
					require.Contains(t, said(s), "release unanswered: ", "the request was sent")
					require.Contains(t, s.Error, fmt.Sprintf("drain timeout of %s has expired", timeout))
				}
			})
		})
	}
}

func TestEndDoesNotWaitForADatabaseForEver(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onSettle = func(claim.Verb, []claim.Settlement) ([]int64, error) { return nil, errors.New("connection refused") }
		d.DrainTimeout = 2 * time.Second
		stop := d.run()
		synctest.Wait()
		stop()
		require.LessOrEqual(t, d.now(), d.DrainTimeout+settleGrace)
		require.Empty(t, d.seen().reported)
		require.Contains(t, d.log.Value("Lease lost", "error"), "settle timeout of 3s has expired")
		require.Contains(t, d.log.Value("Lease lost", "error"), "connection refused")
	})
}

func TestEndDuringAnOutageIsNotHeldUpByIt(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(50)
		d.onStart = d.failsWith(errors.New("no idea"), time.Hour)
		stop := d.run()
		looptest.Pass(time.Minute)
		began := d.now()
		stop()
		require.LessOrEqual(t, d.now()-began, time.Millisecond)
		require.Empty(t, d.leased, "no item stays leased")
	})
}
