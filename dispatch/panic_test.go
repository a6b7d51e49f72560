package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func TestPanicInAHeartbeatIsNotTheLastHeartbeat(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onStart = stubborn(35 * time.Second)
		d.onHeartbeat = func(held []claim.Held) ([]int64, error) {
			if len(d.seen().beats) == 1 {
				panic("boom")
			}
			return []int64{held[0].ID}, nil
		}
		d.run()
		pass(36 * time.Second)
		require.Equal(t, 12500*time.Millisecond, d.seen().beats[1].at, "the heartbeat is retried as after any failure")
		require.Equal(t, []claim.Verb{claim.Dispatched}, d.verbs(), "the lease was renewed in time")
		require.Equal(t, "heartbeat", d.log.Value("Panic in the dispatcher", "part"))
		require.Contains(t, d.log.Value("Panic in the dispatcher", "stack"), "panic_test.go")
	})
}

func TestPanicInAClaimIsLikeNoAnswer(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(3)
		d.onClaim = func(atMost int) (claim.Batch, error) {
			if len(d.claimTimes()) < 3 {
				panic("boom")
			}
			return fakeStore{d}.take(claim.Wanted{AtMost: atMost}), nil
		}
		d.run()
		pass(time.Second)
		require.Len(t, d.seen().reported, 3)
		require.Contains(t, d.log.At(slog.LevelInfo), "Claims succeed again")
		require.Equal(t, "boom", d.log.Value("Panic in the dispatcher", "panic"))
	})
}

func TestPanicInASettleIsLikeNoAnswer(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			if len(d.seen().settles) < 4 {
				panic("boom")
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		d.run()
		pass(time.Second)
		require.Equal(t, []string{"e1=run-e1"}, d.seen().reported)
	})
}

func TestPanicOfWhoeverIsToldOfADispatchHarmsNobody(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(20)
		d.Dispatched = func(*claim.Item, string) { panic("boom") }
		d.run()
		pass(time.Second)
		require.Len(t, d.verbs(), 20)
		require.Empty(t, d.leased)
	})
}

// panicky panics on one message.
type panicky struct {
	slog.Handler
	over string
}

func (p panicky) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p panicky) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == p.over {
		panic("cannot log")
	}
	return p.Handler.Handle(ctx, record)
}

func TestItemWhoseWorkerPanickedIsNotHeldForEver(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.Log = slog.New(panicky{&d.log, "Released queue item"})
		d.enqueue(2)
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			if item.ID == 1 {
				return "", temporal.As(engine.NotSent, errors.New("no time"))
			}
			return starts(25*time.Second)(t.Context(), item)
		}
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			if verb == claim.Release {
				return []int64{1}, nil // it is not claimed again
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		d.StartTimeout = time.Minute
		d.run()
		pass(26 * time.Second)
		require.Equal(t, []string{"e2=run-e2"}, d.seen().reported, "the worker continues")
		require.Equal(t, []int64{2}, d.seen().beats[0].ids, "the lease of the panicked item is not renewed")
	})
}

func TestPanicBeforeTheStartLeavesTheLeaseToRunOut(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.Log = slog.New(panicky{&d.log, "Dispatching queue item"})
		d.enqueue(1)
		d.run()
		pass(25 * time.Second)
		require.Empty(t, d.seen().beats, "its lease is not renewed: it expires and counts")
		require.Empty(t, d.seen().settles)
		require.Equal(t, "worker", d.log.Value("Panic in the dispatcher", "part"))
	})
}

// brokenGate panics on its first call of Busy.
type brokenGate struct {
	Gate
	broken bool
}

func (g *brokenGate) Sleep()         {}
func (g *brokenGate) OnDuty() bool   { return true }
func (g *brokenGate) IsAsleep() bool { return true }
func (g *brokenGate) Busy() {
	if !g.broken {
		g.broken = true
		panic("boom")
	}
}

func TestPanicInTheClaimLoopEndsTheDispatcherInOrder(t *testing.T) {
	bubble(t, 3, func(t *testing.T, d *desk) {
		d.Gate = &brokenGate{}
		d.enqueue(3)
		d.onStart = starts(12 * time.Second)
		d.StartTimeout = time.Minute
		err := d.Run(t.Context()) // all workers are busy, and ctx is not cancelled
		require.EqualError(t, err, "panic in the claim loop: boom")
		require.Equal(t, 12*time.Second, d.now(), "starts in flight are finished")
		require.Len(t, d.seen().reported, 3)
		require.Len(t, d.seen().beats, 1, "their leases are renewed meanwhile")
		require.Equal(t, "claim loop", d.log.Value("Panic in the dispatcher", "part"))
		synctest.Wait()
	})
}
