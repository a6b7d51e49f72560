package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

func TestDispatcher_GivesBackWhatAClaimWithoutAnAnswerHasTaken(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.StartTimeout, d.onStart = time.Minute, starts(25*time.Second)
		claims := 0
		d.onClaim = func(atMost int) (claim.Batch, error) {
			if claims++; claims == 2 {
				return claim.Batch{}, errors.New("connection reset")
			}
			return fakeStore{d}.take(claim.Wanted{AtMost: atMost}), nil
		}
		d.onGiveBack = func([]claim.Held) ([]int64, error) { return []int64{7}, nil }
		d.run()
		looptest.Pass(time.Second)
		require.Empty(t, d.seen().givenBack, "all claims were answered")

		d.rings(WakePoll)
		looptest.Pass(50 * time.Second)
		calls := d.seen().givenBack
		require.Len(t, calls, 4, "at once, and while the claim may still be executed")
		for n, call := range calls[:3] {
			require.Equal(t, []claim.Held{{ID: 1, Token: 1}}, call.held)
			require.InDelta(t, time.Second+time.Duration(n)*d.Lease/3, call.at, float64(time.Second))
		}
		require.Contains(t, d.log.At(slog.LevelWarn),
			"Gave back items whose claims, or the ends of them, were lost; their starts are repeated")
	})
}

func TestDispatcher_GivesBackWhatAFailoverHasBroughtBack(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onStart = starts(time.Minute)
		forgot := false
		d.onClaim = func(atMost int) (claim.Batch, error) {
			batch := fakeStore{d}.take(claim.Wanted{AtMost: atMost})
			batch.Forgot, forgot = forgot, false
			return batch, nil
		}
		d.onGiveBack = func([]claim.Held) ([]int64, error) {
			if len(d.seen().givenBack) == 1 {
				return nil, errors.New("connection refused")
			}
			return nil, nil
		}
		d.run()
		looptest.Pass(time.Second)
		forgot = true
		d.enqueue(1)
		d.rings(WakePoll)
		looptest.Pass(time.Second)
		require.Len(t, d.seen().givenBack, 1)
		require.Equal(t, []claim.Held{{ID: 1, Token: 1}, {ID: 2, Token: 1}}, d.seen().givenBack[0].held,
			"one that was claimed just now, too")

		looptest.Pass(claimErrorCap)
		require.Len(t, d.seen().givenBack, 2, "it is repeated after an error")
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

// Whatever is claimed, renewed, settled and released, each lease is lost when a naive list of them says so.
func TestLeasesAreLostWhenANaiveListSaysSo(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { beside(t, rand.New(rand.NewPCG(seed, 6)), fmt.Sprint("seed ", seed)) })
	}
}

// beside does the same with leases and with a list of them, by item. A heartbeat may be answered late.
func beside(t *testing.T, r *rand.Rand, seed string) {
	t.Helper()
	type listed struct {
		*lease
		ends     time.Time
		settling bool
	}
	h, list, asked, sent := newHeld(10*time.Second), map[int64]*listed{}, []claim.Held(nil), time.Time{}
	lost, told := map[int64]time.Time{}, map[int64]time.Time{} // by token
	loses := func(l *listed, at time.Time) {
		if !l.settling && !time.Now().Before(at) {
			lost[l.token] = cmp.Or(lost[l.token], at)
		}
	}
	for token := range int64(60) {
		looptest.Pass(time.Duration(1+r.IntN(4000)) * time.Millisecond)
		for _, l := range list {
			loses(l, l.ends)
		}
		id, now := r.Int64N(5), time.Now()
		switch l, n := list[id], r.IntN(8); {
		case n < 3 || l == nil:
			next := &listed{ends: now.Add(time.Duration(r.IntN(11)) * time.Second)}
			next.lease = h.add(&claim.Item{ID: id, Token: token, Deadline: next.ends}, func(err error) {
				require.ErrorIs(t, err, claim.ErrLost)
				told[token] = cmp.Or(told[token], time.Now())
			})
			if list[id] = next; l != nil {
				loses(l, now)
				h.release(l.lease)
				h.drop(&claim.Item{ID: id, Token: l.token})
			}
		case n == 3:
			h.release(l.lease)
			delete(list, id)
		case n == 4:
			h.drop(&claim.Item{ID: id, Token: l.token})
			loses(l, now)
			delete(list, id)
		case n == 5:
			h.settling(l.lease)
			l.settling = true
		case n == 6:
			asked, sent = h.all(), now
		default:
			losses, renewed := 0, []int64(nil)
			for _, a := range asked {
				l, is := list[a.ID], r.IntN(3) > 0
				if is {
					renewed = append(renewed, a.ID)
				}
				switch holds := l != nil && l.token == a.Token; {
				case holds && is:
					l.ends = sent.Add(h.lease)
				case holds && !l.settling:
					loses(l, now)
					losses++
				}
			}
			require.Equal(t, losses, h.renewed(sent, asked, renewed), seed)
		}
		require.Len(t, h.all(), len(list), seed)
	}
	looptest.Pass(time.Minute)
	for _, l := range list {
		loses(l, l.ends)
	}
	require.Equal(t, lost, told, seed)
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
		d.onHeartbeat = func([]claim.Held) ([]int64, error) { return []int64{2, 3}, nil }
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
