package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
)

// fakeGate grants every request immediately by default.
type fakeGate struct {
	mu       sync.Mutex
	wish     string // sleep, awake or busy
	wishes   []string
	calls    int
	distrust time.Duration
	offDuty  bool
	stuck    bool // a transaction that read the gate as open stays open
	breaks   bool // the next Busy panics
}

func (g *fakeGate) want(wish string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wish != wish {
		g.wish = wish
		g.wishes = append(g.wishes, wish)
	}
}
func (g *fakeGate) Sleep() { g.want("sleep") }
func (g *fakeGate) Awake() { g.want("awake") }
func (g *fakeGate) Busy() {
	if g.breaks {
		g.breaks = false
		panic("boom")
	}
	g.want("busy")
}
func (g *fakeGate) Call()                    { g.mu.Lock(); g.calls++; g.mu.Unlock() }
func (g *fakeGate) Distrust(d time.Duration) { g.mu.Lock(); g.distrust = d; g.mu.Unlock() }
func (g *fakeGate) OnDuty() bool             { g.mu.Lock(); defer g.mu.Unlock(); return !g.offDuty }
func (g *fakeGate) IsAsleep() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wish == "sleep" && !g.stuck
}

func (g *fakeGate) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.wishes...)
}

func gatedBubble(t *testing.T, workers int, test func(t *testing.T, d *desk, g *fakeGate)) {
	t.Helper()
	bubble(t, workers, func(t *testing.T, d *desk) {
		g := &fakeGate{}
		d.Gate = g
		test(t, d, g)
	})
}

// crowd enqueues items in quick succession, so that their notifications would queue, until the gate is opened. It
// returns their number.
func (d *desk) crowd(g *fakeGate) (rung int) {
	for len(g.seen()) < 2 && rung < 1000 {
		d.enqueue(1)
		d.rings(WakeNotification)
		looptest.Pass(leastFlush)
		rung++
	}
	return rung
}

func TestSparseWorkIsClaimedOnceAndTheGateStaysShut(t *testing.T) {
	gatedBubble(t, 4, func(t *testing.T, d *desk, g *fakeGate) {
		d.run()
		looptest.Pass(100 * time.Millisecond)
		for range 5 {
			d.enqueue(1)
			d.rings(WakeNotification)
			looptest.Pass(50 * time.Millisecond)
		}
		require.Len(t, d.seen().claims, 1+5, "one claim at the start, one per item")
		require.Equal(t, []string{"sleep"}, g.seen())
	})
}

func TestWakeUpsThatComeCloseTogetherKeepItAwakeUntilTheyEnd(t *testing.T) {
	gatedBubble(t, 4, func(t *testing.T, d *desk, g *fakeGate) {
		d.run()
		looptest.Pass(100 * time.Millisecond)
		rung := d.crowd(g)
		require.Equal(t, []string{"sleep", "awake"}, g.seen())

		d.enqueue(1) // without a notification: the check finds it
		looptest.Pass(2 * lookInterval)
		require.Len(t, d.seen().reported, rung+1)

		looptest.Pass(2 * linger)
		require.Equal(t, []string{"sleep", "awake", "sleep"}, g.seen())
		before := len(d.seen().claims)
		looptest.Pass(time.Second)
		require.Len(t, d.seen().claims, before, "while asleep it claims only when notified")
	})
}

func TestAwakeItLooksAgainAsSoonAsAllIsStarted(t *testing.T) {
	gatedBubble(t, 4, func(t *testing.T, d *desk, g *fakeGate) {
		const startTakes = lookInterval / 4
		d.run()
		looptest.Pass(100 * time.Millisecond)
		d.crowd(g)
		require.Equal(t, []string{"sleep", "awake"}, g.seen())
		d.onStart = starts(startTakes)
		more := 5
		d.onClaim = func(atMost int) (claim.Batch, error) {
			batch := fakeStore{d}.take(claim.Wanted{AtMost: atMost})
			if len(batch.Items) > 0 && more > 0 { // another item arrives meanwhile without a notification
				d.enqueue(1)
				more--
			}
			return batch, nil
		}
		d.enqueue(1)
		looptest.Pass(2 * lookInterval)
		require.Zero(t, more, "all six checks found items, and two more intervals have passed")
	})
}

func TestBehindALongTransactionItLooksEverMoreRarely(t *testing.T) {
	gatedBubble(t, 4, func(t *testing.T, d *desk, g *fakeGate) {
		d.PollInterval = time.Hour
		g.stuck = true
		d.run()
		looptest.Pass(10 * time.Second)
		claims := d.seen().claims
		require.Less(t, len(claims), 60, "not a thousand per second")
		require.Greater(t, len(claims), 10, "but again and again")
		for n := 5; n < len(claims)-1; n++ {
			gap, since := claims[n+1].at-claims[n].at, claims[n].at
			require.LessOrEqual(t, gap, since+2*lookInterval, "the pause after %s is no longer than the time open", since)
		}
	})
}

func TestAReplicaWhoseWorkersAreAllBusyLeavesDutyUntilOneIsFree(t *testing.T) {
	gatedBubble(t, 1, func(t *testing.T, d *desk, g *fakeGate) {
		d.PollInterval = time.Hour
		free := make(chan struct{})
		d.onStart = func(context.Context, claim.Item) (string, error) { <-free; return "run", nil }
		d.enqueue(1)
		stop := d.run()
		looptest.Pass(busyBefore / 2)
		require.Equal(t, []string{"sleep"}, g.seen(), "the gate stays shut after short work")
		looptest.Pass(busyBefore)
		require.Equal(t, []string{"sleep", "busy"}, g.seen())

		close(free)
		synctest.Wait()
		require.Equal(t, []string{"sleep", "busy", "sleep"}, g.seen())
		stop()
		require.Equal(t, []string{"sleep", "busy", "sleep", "busy"}, g.seen(), "or that stops")
	})
}

func TestAClaimThatTookLongDoesNotPutTheNextLookOff(t *testing.T) {
	gatedBubble(t, 4, func(t *testing.T, d *desk, g *fakeGate) {
		const locked = 4 * time.Second
		d.run()
		looptest.Pass(100 * time.Millisecond)
		d.crowd(g)
		require.Equal(t, []string{"sleep", "awake"}, g.seen())
		var begun atomic.Int32
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) { // one item stays in flight
			begun.Add(1)
			return starts(time.Second)(ctx, item)
		}
		slow := true
		d.onClaim = func(atMost int) (claim.Batch, error) {
			if slow {
				slow = false
				time.Sleep(locked)
			}
			return fakeStore{d}.take(claim.Wanted{AtMost: atMost}), nil
		}
		d.enqueue(1)
		looptest.Pass(2*lookInterval + locked)
		d.enqueue(1) // without a notification: the gate was open
		looptest.Pass(2 * linger)
		require.EqualValues(t, 2, begun.Load())
	})
}

func TestMoreWorkThanWorkersCallsTheOthers(t *testing.T) {
	gatedBubble(t, 2, func(t *testing.T, d *desk, g *fakeGate) {
		d.enqueue(1000)
		d.onStart = stubborn(time.Millisecond)
		d.run()
		looptest.Pass(callInterval + 20*time.Millisecond)
		require.Equal(t, 2, g.calls, "one call at once, the next after callInterval")
	})
}

func TestAPollThatFindsOldWorkDistrustsWhoeverIsOnDuty(t *testing.T) {
	gatedBubble(t, 2, func(t *testing.T, d *desk, g *fakeGate) {
		g.offDuty = true
		d.run()
		looptest.Pass(d.PollInterval)
		d.enqueueItem(claim.Item{MaxAttempts: 3, Waited: overdue})
		looptest.Pass(d.PollInterval)
		require.Zero(t, g.distrust, "nothing was found, then nothing that is old")
		d.enqueueItem(claim.Item{MaxAttempts: 3, Waited: 2 * overdue})
		looptest.Pass(d.PollInterval)
		require.Equal(t, distrust, g.distrust)
	})
}

// Most samples of a busy machine are scheduling delays. Only a slow flush lengthens all of them.
func TestSleeper_JudgesFlushesByTheShortestOfTheLastSeconds(t *testing.T) {
	type row struct {
		samples []time.Duration // repeated
		awake   bool
	}
	bubbles(t, 1, map[string]row{
		"a fast disk":                 {[]time.Duration{leastFlush}, false},
		"a fast disk, a busy machine": {append(slices.Repeat([]time.Duration{9 * time.Millisecond}, 500), leastFlush), false},
		"a slow disk":                 {[]time.Duration{4 * time.Millisecond, 9 * time.Millisecond}, true},
	}, func(t *testing.T, d *desk, c row) {
		d.Gate = &fakeGate{}
		r := &run{Dispatcher: d.Dispatcher}
		r.sleeper.flush.add(time.Now(), leastFlush) // long ago
		for n := range int(3 * flushSpan / (4 * time.Millisecond)) {
			time.Sleep(4 * time.Millisecond)
			r.looked(claim.Batch{Flush: c.samples[n%len(c.samples)], Arrived: 1}, 1, WakeNotification)
			r.looked(claim.Batch{}, 1, WakeNotification) // has flushed nothing
		}
		require.Equal(t, c.awake, r.sleeper.awake)
		r.sleeper.awake = false
		r.Wake.Ring(WakePoll)
		r.woken(time.Now())
		r.looked(claim.Batch{}, 1, WakePoll)
		require.False(t, r.sleeper.awake, "a poll is no commit")
	})
}

func TestMergedWakeUpsLoseNothing(t *testing.T) {
	var w Wakeups
	w.Ring(WakePoll)
	w.Notified("1:0:0")
	w.Notified("2")
	require.Equal(t, wakeup{WakeNotification, true, []string{"1:0:0", "2"}, 2}, w.take())
	w.Notified("3")
	w.Ring("gate")
	require.Equal(t, wakeup{WakeNotification, true, []string{"3"}, 1}, w.take())
	for _, payload := range []string{"", strings.Repeat("1", longestPayload+1)} {
		w.Notified(payload)
		require.Equal(t, wakeup{WakeNotification, true, nil, 1}, w.take())
	}
	for range mostNamed + 1 {
		w.Notified("4")
	}
	many := w.take()
	require.Len(t, many.named, mostNamed)
	require.True(t, many.look)
	require.Zero(t, w.take())
	w.Ring("gate")
	<-w.wait()
	w.Ring("call") // before the first is taken
	require.Equal(t, "gate", w.take().source)
	require.Empty(t, w.wait(), "nothing is left to take")
}
