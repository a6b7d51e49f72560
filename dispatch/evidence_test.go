package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
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

func TestEvidence_CountsOnlyFirstRefusalsForWantOfCapacity(t *testing.T) {
	t.Parallel()
	var e evidence
	now := time.Now()
	require.Equal(t, 1, e.throttles(now, 1, false))
	require.Zero(t, e.throttles(now, 1, false), "the same item again")
	require.Zero(t, e.throttles(now, 2, true), "it had failed before")
	require.Equal(t, 2, e.throttles(now.Add(time.Second), 3, false))
	require.Equal(t, 2, e.throttles(now.Add(1100*time.Millisecond), 4, false), "the first was more than a second ago")

	e.fails(5, false)
	e.accepts(6)
	require.Zero(t, e.throttles(now, 5, false), "it failed while another was accepted")
}

func TestLimiter_ExceedsOnlyIfManyItemsAndAFifthOfTheStartsAreRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	busy := &limiter{}
	for range 100 {
		busy.taken.add(now)
	}
	require.False(t, busy.exceeds(now, 20), "a fifth")
	require.True(t, busy.exceeds(now, 21))

	quiet := &limiter{}
	require.False(t, quiet.exceeds(now, many-1))
	require.True(t, quiet.exceeds(now, many))
}

func TestBackoffs_DoubleUpToHalfAMinuteWhileOthersAreAccepted(t *testing.T) {
	t.Parallel()
	var b backoffs
	now := time.Now()
	one, other := &claim.Item{ID: 1, Namespace: "n"}, &claim.Item{ID: 2, Namespace: "n"}
	b.accepts(now, "n")
	for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		delay, alone := b.next(now, one, engine.Unanswered)
		require.Equal(t, want, delay)
		require.True(t, alone)
	}
	delay, _ := b.next(now, other, engine.Blocked)
	require.Equal(t, aloneBase, delay, "another item")

	require.Equal(t, []int64{1, 2}, b.waiting(now))
	require.Empty(t, b.waiting(now), "they are due now")
	delay, _ = b.next(now, one, engine.Unanswered)
	require.Equal(t, aloneBase, delay, "their delays begin again")
	require.Empty(t, b.waiting(now.Add(aloneBase)))

	b.forget(1)
	one.Tries = 3
	delay, _ = b.next(now, one, engine.Unanswered)
	require.Equal(t, 4*time.Second, delay, "another replica tried it three times")
}

func TestBackoffs_StayShortWhileALaneAcceptsNothing(t *testing.T) {
	t.Parallel()
	var b backoffs
	now := time.Now()
	one := &claim.Item{ID: 1, Namespace: "n"}
	b.accepts(now, "another")
	b.accepts(now, "n")
	now = now.Add(besideFor)
	for _, want := range []time.Duration{aloneBase, time.Second, 2 * time.Second, probeCap, probeCap} {
		delay, alone := b.next(now, one, engine.Unanswered)
		require.Equal(t, want, delay)
		require.False(t, alone)
		now = now.Add(time.Second)
	}
	b.accepts(now, "n")
	_, alone := b.next(now.Add(time.Second), one, engine.Unanswered)
	require.True(t, alone, "another was accepted since its last try")

	b.pause(map[string]bool{"n": true}, false)
	delay, alone := b.next(now, one, engine.Unanswered)
	require.Equal(t, probeBase, delay, "the next probe is another item")
	require.False(t, alone)
	delay, _ = b.next(now, &claim.Item{ID: 2, Namespace: "n"}, engine.Blocked)
	require.Equal(t, aloneBase, delay)
	delay, alone = b.next(now, one, engine.Blocked)
	require.Equal(t, probeCap, delay)
	require.False(t, alone)
}

func TestBackoffs_LetTemporalThrottleAnyItemNowAndThen(t *testing.T) {
	t.Parallel()
	var b backoffs
	now := time.Now()
	one := &claim.Item{ID: 1, Namespace: "n"}
	b.accepts(now, "n")
	for range throttledOften {
		delay, alone := b.next(now, one, engine.Throttled)
		require.Zero(t, delay)
		require.False(t, alone)
	}
	for _, want := range []time.Duration{aloneBase, time.Second} {
		delay, alone := b.next(now, one, engine.Throttled)
		require.Equal(t, want, delay)
		require.True(t, alone)
	}
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

func TestDispatcher_EndsAnItemThatFailsForLongWhileOthersStart(t *testing.T) {
	type given struct {
		fails error
		find  func() (string, bool, error)
		want  string // how the item ends
		after int    // minutes
	}
	shard := serviceerror.NewInternal("shard ownership lost")
	forbidden := serviceerror.NewPermissionDenied("no", "")
	none := func() (string, bool, error) { return "", false, nil }
	text := "failed 14 times in %s while others of its namespace started, and Temporal does not have its workflow: %s"
	bubbles(t, 4, map[string]given{
		"unknown to Temporal": {shard, none, "fail: " + text, 7},
		"started by a try":    {shard, func() (string, bool, error) { return "run", true, nil }, "dispatched: ", 6},
		"cannot be looked up": {shard, func() (string, bool, error) { return "", false, shard }, "", 20},
		"never sent":          {forbidden, func() (string, bool, error) { panic("nothing was sent") }, "fail: " + text, 6},
	}, func(t *testing.T, d *desk, c given) {
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			if item.ID > 1 {
				return "run", nil
			}
			return "", c.fails
		}
		d.onFind = func(context.Context, claim.Item) (string, bool, error) { return c.find() }
		d.enqueue(1)
		d.run()
		for range 60 * c.after {
			d.enqueue(1)
			d.rings(WakeNotification)
			looptest.Pass(time.Second)
		}

		ended := ""
		for _, s := range d.settlements() {
			if s.ID == 1 && s.Verb != claim.Release {
				ended = said(s)
			}
		}
		want := c.want
		if strings.Contains(want, "%s") {
			require.Regexp(t, "^"+fmt.Sprintf(regexp.QuoteMeta(want), `[56]m\d+s`, regexp.QuoteMeta(c.fails.Error()))+"$", ended)
		} else {
			require.Equal(t, want, ended)
		}
		named := d.log.At(slog.LevelWarn)
		require.NotEmpty(t, named)
		require.Contains(t, named[0], "An item fails to start while others of its namespace start")
	})
}

func TestDispatcher_EndsAnItemThatAPersonGaveUp(t *testing.T) {
	t.Parallel()
	r := &run{Dispatcher: &Dispatcher{}}
	require.NoError(t, r.endOf(&claim.Item{Tries: mostTries, FailingFor: time.Hour}), "nothing of its lane was accepted")
	require.EqualError(t, r.endOf(&claim.Item{GivenUpBy: "ann", LastError: "boom"}),
		"given up by ann: Temporal does not have its workflow; its last error: boom")
	r.backoffs.accepts(time.Now(), "")
	require.NoError(t, r.endOf(&claim.Item{Tries: mostTries - 1, FailingFor: time.Hour}))
	require.NoError(t, r.endOf(&claim.Item{Tries: mostTries, FailingFor: leastFailing - 1}))
	require.Error(t, r.endOf(&claim.Item{Tries: mostTries, FailingFor: leastFailing}))
}

func TestDispatcher_RepeatsStartsWithAQuarterOfItsWorkers(t *testing.T) {
	bubble(t, 8, func(t *testing.T, d *desk) {
		hanging := 0
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			if item.ID > 20 {
				return "run", nil
			}
			d.mu.Lock()
			hanging++
			d.mu.Unlock()
			<-ctx.Done()
			return "", ctx.Err()
		}
		for id := range int64(20) {
			d.enqueueItem(claim.Item{ID: id + 1, Unanswered: true, UnansweredFor: time.Second})
		}
		d.run()
		looptest.Pass(time.Second)
		require.Equal(t, 2, hanging)
		d.enqueue(10)
		d.rings(WakeNotification)
		looptest.Pass(time.Second)
		require.Len(t, d.seen().reported, 10)
	})
}
