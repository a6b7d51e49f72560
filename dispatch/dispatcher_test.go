package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// bubble runs a test in a synctest bubble with a desk.
func bubble(t *testing.T, workers int, test func(t *testing.T, d *desk)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newDesk(t, workers)) })
}

// bubbles runs a test in a bubble for each case.
func bubbles[C any](t *testing.T, workers int, cases map[string]C, test func(t *testing.T, d *desk, c C)) {
	t.Helper()
	must.Each(t, cases, func(t *testing.T, c C) { bubble(t, workers, func(t *testing.T, d *desk) { test(t, d, c) }) })
}

func TestClaimsAtOnceWhenRungWhenAPollFindsWorkAndWhenAnItemIsDue(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		observer := d.observed()
		d.PollInterval = 0
		d.waiting = []waitingItem{{claim.Item{ID: 9, ExecutionID: "e9"}, time.Now().Add(1200 * ms)}}
		d.run()
		looptest.Pass(1234 * ms)
		for _, source := range []string{WakeNotification, WakePoll} {
			d.enqueue(1)
			d.rings(source)
			looptest.Pass(time.Hour)
		}
		require.Equal(t, []time.Duration{0, 1201 * ms, 1234 * ms, time.Hour + 1234*ms}, d.claimTimes())
		require.Equal(t, []string{"e9=run-e9", "e1=run-e1", "e2=run-e2"}, d.seen().reported)
		require.Equal(t, []string{"start", "timer", WakeNotification, WakePoll}, observer.sources)
		require.Equal(t, "timer", d.log.Value("Processing queue items", "wake_source"))
	})
}

// A worker that finishes just as an item becomes due, or as a pause ends, must not consume the timer's wake-up.
func TestItemThatIsDueIsNotMissedBecauseTheLoopWasBusy(t *testing.T) {
	bubbles(t, 4, map[string]func(r *run){
		"due": func(r *run) { r.dueAt = time.Now() },
		"a namespace's pause ends": func(r *run) {
			r.namespaces.get("good")
			r.namespaces.get("bad").breaker.trip(time.Now().Add(-time.Minute))
			r.namespaces.took(time.Now(), claim.Wanted{Namespaces: map[string]int{"bad": 0}}, nil)
			r.namespaces.inUse = func() []string { return []string{"good", "bad"} }
		},
	}, func(t *testing.T, d *desk, prepare func(r *run)) {
		r := &run{observer: noObserver{}, Dispatcher: d.Dispatcher, idle: 4, outcomes: make(chan result, 4),
			items: make(chan claim.Item, 4)}
		prepare(r)
		ctx, cancel := context.WithCancel(t.Context())
		go r.claims(ctx)
		synctest.Wait()
		require.Equal(t, []time.Duration{0}, d.claimTimes())
		cancel()
	})
}

func TestFreedWorkerClaimsWhenMoreIsDue(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		// W leaves room for one item, and more are due.
		given, observer := 0, d.observed()
		d.onClaim = func(int) (claim.Batch, error) {
			given++
			return claim.Batch{
				Items:       []claim.Item{{ID: int64(given), Deadline: time.Now().Add(d.Lease)}},
				More:        given < 3,
				Capped:      true,
				LookAgainIn: -1,
			}, nil
		}
		d.onStart = starts(time.Second)
		d.run()
		looptest.Pass(4500 * time.Millisecond)
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, d.claimTimes(), "no claim when nothing is due")
		require.Equal(t, []string{"start", "worker", "worker"}, observer.sources)
	})
}

func TestMoreWithoutTheCapInTheWayIsClaimedAtOnce(t *testing.T) {
	bubble(t, 9, func(t *testing.T, d *desk) {
		// A claim that has not examined everything reports that there is more.
		d.onClaim = func(int) (claim.Batch, error) {
			return claim.Batch{More: len(d.claimTimes()) < 5, LookAgainIn: -1}, nil
		}
		d.run()
		synctest.Wait()
		require.Len(t, d.claimTimes(), 5)
		require.Zero(t, d.claimTimes()[4])
	})
}

func TestCapDoesNotMakeTheClaimLoopSpin(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.onClaim = func(int) (claim.Batch, error) {
			return claim.Batch{More: true, Capped: true, LookAgainIn: -1}, nil
		}
		d.run()
		looptest.Pass(time.Minute)
		require.InDelta(t, int(time.Minute/cappedAgain+time.Minute/d.PollInterval), len(d.claimTimes()), 2,
			"one per cappedAgain, and one per poll")
	})
}

func TestNeverMoreAtOnceThanThereAreWorkers(t *testing.T) {
	bubble(t, 7, func(t *testing.T, d *desk) {
		d.enqueue(500)
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			return starts(rand.N(50*time.Millisecond))(ctx, item)
		}
		d.run()
		looptest.Pass(time.Minute)
		require.Len(t, d.seen().reported, 500)
		require.Equal(t, 7, d.seen().busiest)
		for _, c := range d.seen().claims {
			require.LessOrEqual(t, c.atMost, 7)
			require.Positive(t, c.atMost)
		}
	})
}

func TestClaimErrorsBackOffRecoverAndAreLoggedOnce(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(3)
		d.onClaim = func(atMost int) (claim.Batch, error) {
			switch at := d.now(); {
			case at < time.Minute:
				return claim.Batch{LookAgainIn: -1}, errors.New("connection refused")
			case at > 2*time.Minute:
				panic("boom")
			}
			return fakeStore{d}.take(claim.Wanted{AtMost: atMost}), nil
		}
		d.run()
		for range 6000 { // wake-ups do not hurry it
			looptest.Pass(10*ms - 1)
			d.rings(WakeNotification)
		}
		times := d.claimTimes()
		require.Less(t, len(times), 50, "retries back off while the database does not answer")
		for n := 1; n < len(times); n++ {
			require.LessOrEqual(t, times[n]-times[n-1], claimErrorCap*12/10)
		}
		const message = "Cannot claim items; they stay queued and no attempt is counted"
		require.Equal(t, []string{message}, d.log.At(slog.LevelError))
		require.Empty(t, d.seen().reported)
		require.EqualError(t, d.Failing(), "connection refused")

		looptest.Pass(claimErrorCap * 12 / 10)
		require.NoError(t, d.Failing())
		require.Len(t, d.seen().reported, 3)
		require.Contains(t, d.log.At(slog.LevelInfo), "Claims succeed again")

		looptest.Pass(2 * time.Minute)
		errs := d.log.At(slog.LevelError)
		require.Equal(t, []string{message, "Panic in the dispatcher", message}, errs[:3], "a new outage is logged again")
		require.Equal(t, "boom", d.log.Value("Panic in the dispatcher", "panic"))
	})
}

func TestDispatcher_SaysThatTheAnswerToAClaimWasLost(t *testing.T) {
	const lost = "The answer to a claim was lost; items that it took are uncertain, and are given back once a claim is " +
		"answered"
	type row struct {
		err  error
		said []string
	}
	bubbles(t, 1, map[string]row{
		"lost":    {fmt.Errorf("claim items: %w: EOF", claim.ErrUncertain), []string{lost}},
		"refused": {errors.New("connection refused"), nil},
	}, func(t *testing.T, d *desk, c row) {
		d.onClaim = func(int) (claim.Batch, error) {
			if len(d.claimTimes()) > 1 {
				return claim.Batch{LookAgainIn: -1}, nil
			}
			return claim.Batch{LookAgainIn: -1}, c.err
		}
		d.run()
		looptest.Pass(time.Minute)
		require.ElementsMatch(t, c.said, d.log.At(slog.LevelWarn))
	})
}

func TestClaimUnderWayIsNotTornByTheEnd(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(2)
		d.claimsIn(time.Second)
		stop := d.run()
		synctest.Wait()
		stop() // in the middle of the claim
		require.Equal(t, time.Second, d.now())
		require.Len(t, d.seen().reported, 2, "claimed items are dispatched, not left to their leases")
		require.Len(t, d.claimTimes(), 1)
	})
}

func TestWhatAClaimSaysBesideItsItemsIsLogged(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.onClaim = func(int) (claim.Batch, error) {
			batch := claim.Batch{Paused: d.now() > time.Minute && d.now() < 2*time.Minute, LookAgainIn: -1}
			if d.now() > 4*time.Minute {
				batch.AtCapacity = []claim.Full{{WorkspaceID: "shop", Active: 5, Limit: 6}}
			}
			return batch, nil
		}
		d.run()
		looptest.Pass(4*time.Minute + 6*time.Second)
		require.Equal(t, []string{"INFO Paused by the settings; claiming no items",
			"INFO Resumed by the settings; claiming items",
			"INFO Workspace at capacity workspace_id=shop active_count=5 limit=6"}, d.log.Lines())
	})
}
