package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
)

func TestLostLeaseStopsItsWorkerAndSettlesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, d *desk) {
		observer := d.observed()
		d.StartTimeout = time.Minute
		d.enqueue(3)
		var cause error
		var at time.Duration
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			runID, err := starts(12*time.Second)(ctx, item)
			if item.ID == 2 {
				cause, at = context.Cause(ctx), d.now()
			}
			return runID, err
		}
		d.onHeartbeat = func([]claim.Held) ([]int64, error) { return []int64{1, 3}, nil }
		d.onSettle = func(claim.Verb, []claim.Settlement) ([]int64, error) { return []int64{1}, nil } // 3 is lost before
		stop := d.run()
		looptest.Pass(15 * time.Second)
		stop()
		require.ErrorIs(t, cause, claim.ErrLost)
		require.Equal(t, 10*time.Second, at)
		require.Equal(t, []string{"e1=run-e1"}, d.seen().reported)
		for _, s := range d.settlements() {
			require.NotEqualValues(t, 2, s.ID)
		}
		require.Equal(t, []int64{2, 3}, slices.Sorted(slices.Values(observer.lost)), "each is told of once")
		require.Contains(t, d.log.At(slog.LevelWarn), "Leases lost")
		require.Empty(t, d.log.At(slog.LevelError), "a lost lease is not an error")
	})
}

func TestStartThatSucceedsAfterItsLeaseIsLostSettlesNothing(t *testing.T) {
	type row struct {
		takes   time.Duration
		err     error // of heartbeats
		warning string
	}
	bubbles(t, 1, map[string]row{
		"a heartbeat says so": {15 * time.Second, nil, "Leases lost"},
		"by its own clock":    {31 * time.Second, errors.New("connection refused"), "Lease lost"},
	}, func(t *testing.T, d *desk, c row) {
		d.enqueue(1)
		d.onStart = stubborn(c.takes) // as if the process was suspended
		d.onHeartbeat = func([]claim.Held) ([]int64, error) { return nil, c.err }
		d.run()
		looptest.Pass(35 * time.Second)
		require.Empty(t, d.seen().settles)
		require.Empty(t, d.seen().reported)
		require.Contains(t, d.log.At(slog.LevelWarn), c.warning)
	})
}

func TestAStartIsStoppedWhileItsLeaseStillHoldsThoughTheHeartbeatHangs(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.StartTimeout = time.Hour
		d.enqueue(1)
		d.onStart = starts(time.Hour)
		d.onHeartbeat = func([]claim.Held) ([]int64, error) {
			time.Sleep(40 * time.Second)
			return nil, errors.New("no answer")
		}
		d.run()
		looptest.Pass(29 * time.Second)
		require.Equal(t, []claim.Verb{claim.Release}, d.verbs())
		require.Equal(t, 27*time.Second, d.seen().settles[0].at)
	})
}

func TestHeartbeatThatFailsIsRepeatedSooner(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onStart = stubborn(31 * time.Second)
		d.onHeartbeat = func(held []claim.Held) ([]int64, error) {
			switch at := d.now(); {
			case at < 11*time.Second:
				panic("boom")
			case at < 13*time.Second:
				return nil, errors.New("connection refused")
			}
			return []int64{held[0].ID}, nil
		}
		d.run()
		looptest.Pass(35 * time.Second)
		var at []time.Duration
		for _, beat := range d.seen().beats {
			at = append(at, beat.at)
		}
		require.Equal(t, []time.Duration{10 * time.Second, 12500 * time.Millisecond, 15 * time.Second, 25 * time.Second}, at)
		require.Equal(t, []claim.Verb{claim.Dispatched}, d.verbs(), "the lease was renewed in time and still holds at 31 s")
		require.Equal(t, "heartbeat", d.log.Value("Panic in the dispatcher", "part"))
		require.Contains(t, d.log.Value("Panic in the dispatcher", "stack"), "lease_test.go")
	})
}

func TestHeldLeaseLastsFromTheSendingOfItsHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(10 * time.Second)
		ctx, lose := context.WithCancelCause(t.Context())
		defer h.release(h.add(&claim.Item{ID: 1, Token: 1, Deadline: time.Now().Add(10 * time.Second)}, lose))
		sent := time.Now()
		looptest.Pass(4 * time.Second) // the answer is slow
		require.Zero(t, h.renewed(sent, h.all(), []int64{1}))
		looptest.Pass(6*time.Second - 1)
		require.NoError(t, ctx.Err())
		looptest.Pass(1)
		require.ErrorIs(t, context.Cause(ctx), claim.ErrLost)
	})
}

func TestALaterClaimOfAnItemEndsItsEarlierLease(t *testing.T) {
	t.Parallel()
	h := newHeld(time.Minute)
	earlier, lose := context.WithCancelCause(t.Context())
	h.add(&claim.Item{ID: 1, Token: 1, Deadline: time.Now().Add(time.Minute)}, lose)
	h.add(&claim.Item{ID: 1, Token: 2, Deadline: time.Now().Add(time.Minute)}, func(error) {})
	require.ErrorIs(t, context.Cause(earlier), claim.ErrLost)
}

func TestHeartbeatsAnswerIsNotHeldAgainstALaterClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(10 * time.Second)
		deadline := time.Now().Add(10 * time.Second)
		first := h.add(&claim.Item{ID: 1, Token: 1, Deadline: deadline}, func(error) {})
		asked := h.all()
		h.release(first)
		again, lose := context.WithCancelCause(t.Context())
		defer h.release(h.add(&claim.Item{ID: 1, Token: 2, Deadline: deadline}, lose))
		require.Zero(t, h.renewed(time.Now(), asked, nil))
		require.NoError(t, again.Err())
	})
}

func TestEachLeaseEndsAtItsOwnDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, began, ended := newHeld(10*time.Second), time.Now(), map[int64]time.Duration{}
		hold := func(id int64, lasts time.Duration) *lease {
			return h.add(&claim.Item{ID: id, Token: 1, Deadline: time.Now().Add(lasts)}, func(err error) {
				require.ErrorIs(t, err, claim.ErrLost)
				if _, told := ended[id]; !told {
					ended[id] = time.Since(began)
				}
			})
		}
		hold(1, 5*time.Second)
		hold(2, 9*time.Second)
		hold(3, 3*time.Second) // earlier than the leases already held
		h.release(hold(4, 2*time.Second))
		h.settling(hold(5, 4*time.Second))
		looptest.Pass(time.Minute)
		hold(6, 0) // long after the last expiry
		looptest.Pass(time.Second)
		require.Equal(t, map[int64]time.Duration{1: 5 * time.Second, 2: 9 * time.Second, 3: 3 * time.Second, 6: time.Minute},
			ended)
		require.Len(t, h.all(), 5, "all but the one that was released")
	})
}

func TestALeaseThatIsLostWhileItsStartIsSettledDoesNotStopTheWorkersNextItem(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.StartTimeout = 20 * time.Second
		takes := []time.Duration{1: time.Millisecond, 2: 5 * time.Millisecond, 3: 12 * time.Second}
		begun := map[int64]int{}
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			d.mu.Lock()
			begun[item.ID]++
			d.mu.Unlock()
			return starts(takes[item.ID])(ctx, item)
		}
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			if batch[0].ID == 1 {
				time.Sleep(15 * time.Second)
				return nil, nil
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		d.onHeartbeat = func(held []claim.Held) (ids []int64, err error) {
			for _, h := range held {
				if h.ID != 1 {
					ids = append(ids, h.ID)
				}
			}
			return ids, nil
		}
		d.enqueue(2)
		d.run()
		looptest.Pass(time.Second)
		d.enqueue(1) // for the first item's worker, which has waited for longer
		d.rings(WakeNotification)
		looptest.Pass(20 * time.Second)
		require.Equal(t, map[int64]int{1: 1, 2: 1, 3: 1}, begun)
		require.Equal(t, []string{"e2=run-e2", "e3=run-e3"}, d.seen().reported)
	})
}
