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
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func TestPanicOfWhoeverIsToldOfADispatchHarmsNobody(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(20)
		d.Dispatched = func(*claim.Item, string) { panic("boom") }
		d.run()
		looptest.Pass(time.Second)
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
		looptest.Pass(26 * time.Second)
		require.Equal(t, []string{"e2=run-e2"}, d.seen().reported, "the worker continues")
		require.Equal(t, []int64{2}, d.seen().beats[0].ids, "the lease of the panicked item is not renewed")
	})
}

func TestPanicBeforeTheStartLeavesTheLeaseToRunOut(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.Log = slog.New(panicky{&d.log, "Dispatching queue item"})
		d.enqueue(1)
		d.run()
		looptest.Pass(25 * time.Second)
		require.Empty(t, d.seen().beats, "its lease is not renewed: it expires and counts")
		require.Empty(t, d.seen().settles)
		require.Equal(t, "worker", d.log.Value("Panic in the dispatcher", "part"))
	})
}

func TestPanicInTheClaimLoopEndsTheDispatcherInOrder(t *testing.T) {
	gatedBubble(t, 3, func(t *testing.T, d *desk, g *fakeGate) {
		g.breaks = true
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
