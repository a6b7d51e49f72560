package dispatch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
)

func TestEvidence_NeedsSeveralItemsThatFailInARow(t *testing.T) {
	t.Parallel()
	var e evidence
	require.False(t, e.fails(1, false))
	require.False(t, e.fails(1, false), "the same item again")
	require.False(t, e.fails(2, false))
	e.accepts(9)
	require.False(t, e.fails(3, false), "another was accepted in between")
	require.False(t, e.fails(4, false))
	require.False(t, e.fails(1, false), "it failed while others were accepted")
	require.False(t, e.fails(5, true), "it had failed before")
	require.True(t, e.fails(6, false))
	e.accepts(1)
	require.False(t, e.fails(1, false))
	require.False(t, e.fails(7, false))
	require.True(t, e.fails(8, false), "an item that was accepted is no suspect any more")
}

func TestEvidence_ForgetsSuspectsBeyondABound(t *testing.T) {
	t.Parallel()
	var e evidence
	for item := range int64(3 * mostSuspects) {
		e.fails(item, false)
		e.accepts(-1)
	}
	require.LessOrEqual(t, len(e.suspects), mostSuspects)
}

func TestBackoffs_DoubleUpToHalfAMinuteForEachItemByItself(t *testing.T) {
	t.Parallel()
	var b backoffs
	now := time.Now()
	for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		require.Equal(t, want, b.next(now, 1, 0))
	}
	require.Equal(t, aloneBase, b.next(now, 2, 0), "another item")
	b.forget(1)
	require.Equal(t, aloneBase, b.next(now, 1, 0))

	for range throttledOften {
		require.Zero(t, b.next(now, 3, throttledOften), "a namespace at its limit refuses any item now and then")
	}
	require.Equal(t, aloneBase, b.next(now, 3, throttledOften))
	require.Equal(t, []int64{1, 2, 3}, b.waiting(now))
	require.Empty(t, b.waiting(now), "they are due now")
	require.Equal(t, aloneBase, b.next(now, 1, 0), "their delays begin again")
	require.Empty(t, b.waiting(now.Add(aloneBase)))
}

// besideOneThat runs a dispatcher with one item whose starts fail with an error, and another item every 100 ms. It
// returns when the starts of the first were sent.
func besideOneThat(t *testing.T, d *desk, fails func(ctx context.Context) error) (tries []time.Duration) {
	t.Helper()
	const others = 600
	d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
		if item.ID > 1 {
			return "run", nil
		}
		d.mu.Lock()
		tries = append(tries, d.now())
		d.mu.Unlock()
		return "", fails(ctx)
	}
	d.enqueue(1)
	d.run()
	for n := range others {
		d.enqueue(1)
		d.rings(WakeNotification)
		looptest.Pass(100 * time.Millisecond)
		require.GreaterOrEqual(t, len(d.seen().reported), n, "others start at once")
	}
	require.Len(t, d.seen().reported, others)
	return tries
}

func TestDispatcher_StartsOthersAtOnceBesideAnItemThatAlwaysFails(t *testing.T) {
	bubbles(t, 4, map[string]func(ctx context.Context) error{
		"unavailable": func(context.Context) error { return serviceerror.NewUnavailable("no hosts are available") },
		"internal":    func(context.Context) error { return serviceerror.NewInternal("shard ownership lost") },
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"throttled": func(context.Context) error {
			return serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "too many requests")
		},
	}, func(t *testing.T, d *desk, fails func(ctx context.Context) error) {
		tries := besideOneThat(t, d, fails)
		require.Greater(t, len(tries), 3, "it is tried again")
		require.Less(t, len(tries), 16, "with growing pauses")
		require.Greater(t, tries[len(tries)-1]-tries[len(tries)-2], 7*time.Second)
		require.Empty(t, d.log.At(slog.LevelError), "this is no outage")
	})
}

func TestDispatcher_ResumesAllItemsSoonAfterAnOutage(t *testing.T) {
	bubbles(t, 4, map[string]int{"many": 40, "few": several}, func(t *testing.T, d *desk, items int) {
		const outage = 5 * time.Minute
		d.enqueue(items)
		d.onStart = d.failsWith(serviceerror.NewUnavailable("connection refused"), outage)
		d.run()
		looptest.Pass(outage)
		require.Empty(t, d.seen().reported)
		require.Len(t, d.log.At(slog.LevelError), 1)
		looptest.Pass(probeCap*12/10 + 100*time.Millisecond)
		require.Len(t, d.seen().reported, items, "those that failed as probes, too")
	})
}

// Too few items to tell that it is an outage back off by themselves, until others show it.
func TestDispatcher_ResumesItemsThatBackedOffBeforeItPaused(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		const outage = 100 * time.Second // they are next tried after 121.5 s
		d.enqueue(several - 1)
		d.onStart = d.failsWith(serviceerror.NewUnavailable("connection refused"), outage)
		d.run()
		looptest.Pass(outage - 5*time.Second)
		require.Empty(t, d.log.At(slog.LevelError), "it may be the fault of these items")
		d.enqueue(several)
		d.rings(WakeNotification)
		looptest.Pass(5 * time.Second)
		require.Len(t, d.log.At(slog.LevelError), 1)
		looptest.Pass(probeCap*12/10 + 100*time.Millisecond)
		require.Len(t, d.seen().reported, 2*several-1)
	})
}

// While starts are paused, an item that always fails must not be the only one that is tried.
func TestDispatcher_TriesOtherItemsThanOneThatAlwaysFails(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		const outage = 20 * time.Second
		d.enqueue(several)
		d.onStart = d.failsWith(serviceerror.NewUnavailable("connection refused"), outage)
		d.run()
		looptest.Pass(outage - time.Second)
		require.Len(t, d.log.At(slog.LevelError), 1)
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			if item.ID <= several {
				return "", serviceerror.NewUnavailable("a shard of the history")
			}
			return "run", nil
		}
		d.enqueue(10)
		looptest.Pass(2*probeCap*12/10 + 200*time.Millisecond)
		require.Len(t, d.seen().reported, 10)
	})
}
