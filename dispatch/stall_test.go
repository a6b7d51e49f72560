package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

// stalls notes what a dispatcher reports as stalls.
type stalls struct {
	noObserver
	seen []time.Duration
}

func (s *stalls) Stalled(took time.Duration) { s.seen = append(s.seen, took) }

// stallOf enqueues an item after a second whose notification the store does not see for 200 ms, and returns
// what was reported. The claim of an item says that it has been startable for so long.
func stallOf(t *testing.T, source string, startable time.Duration) (seen []time.Duration) {
	t.Helper()
	bubble(t, 1, func(t *testing.T, d *desk) {
		observer := &stalls{}
		d.Observer, d.PollInterval = observer, 0
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
		pass(time.Second)
		heeded = time.Now().Add(200 * ms)
		d.enqueue(1)
		d.wake <- source
		pass(time.Second)
		stop()
		seen = observer.seen
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
