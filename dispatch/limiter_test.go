package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

const (
	slowing   = "Temporal limits the rate of starts; slowing down. Items stay queued and no attempt is counted"
	fullSpeed = "Temporal no longer limits the rate of starts; back to full speed"
)

var tooMuch = serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT,
	"namespace rate limit exceeded")

// rationed is a frontend with a token bucket: it accepts rate starts per second in total, and at most burst at once.
type rationed struct {
	limit, burst float64

	mu           sync.Mutex
	saved        float64
	at           time.Time
	calls, taken int
}

func (f *rationed) start(_ context.Context, item claim.Item) (string, error) {
	time.Sleep(5 * time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.saved = min(f.burst, f.saved+f.limit*now.Sub(f.at).Seconds())
	f.at = now
	f.calls++
	if f.saved < 1 {
		return "", tooMuch
	}
	f.saved--
	f.taken++
	return "run-" + item.ExecutionID, nil
}

// seen returns the calls since the previous seen, and how many of them were accepted.
func (f *rationed) seen() (calls, taken float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls, taken = float64(f.calls), float64(f.taken)
	f.calls, f.taken = 0, 0
	return calls, taken
}

// endless keeps the desk's queue from running dry.
func (d *desk) endless() {
	next := int64(0)
	d.onClaim = func(atMost int) (claim.Batch, error) {
		batch := claim.Batch{More: true, LookAgainIn: -1}
		for range atMost {
			next++
			batch.Items = append(batch.Items, claim.Item{ID: next, Token: 1, MaxAttempts: 3, Deadline: time.Now().Add(d.Lease)})
		}
		return batch, nil
	}
	d.onSettle = func(_ claim.Verb, batch []claim.Settlement) ([]int64, error) { return idsOf(batch), nil }
}

func TestCallsSettleAtTheLimitOfANamespaceWhateverTheReplicas(t *testing.T) {
	type given struct {
		replicas     int
		limit, burst float64
	}
	must.Each(t, map[string]given{
		"one replica":                          {1, 100, 100},
		"three replicas":                       {3, 100, 100},
		"three replicas, small burst":          {3, 100, 5},
		"three replicas, burst of two seconds": {3, 300, 600},
		"three replicas, a small limit":        {3, 20, 20},
		"ten replicas":                         {10, 200, 200},
		"one replica, a high limit":            {1, 800, 1600},
	}, func(t *testing.T, c given) {
		synctest.Test(t, func(t *testing.T) {
			frontend := &rationed{limit: c.limit, burst: c.burst, at: time.Now()}
			var desks []*desk
			for range c.replicas {
				d := newDesk(t, 20)
				d.Dispatched = nil
				d.endless()
				d.onStart = frontend.start
				d.run()
				desks = append(desks, d)
			}
			looptest.Pass(30 * time.Second)
			frontend.seen()
			const steady = 2 * time.Minute
			looptest.Pass(steady)
			calls, taken := frontend.seen()
			limit := c.limit * steady.Seconds()
			t.Logf("calls %.2f and starts %.2f of the limit", calls/limit, taken/limit)
			require.LessOrEqual(t, calls, 1.2*limit)
			require.GreaterOrEqual(t, taken, 0.7*limit)
			for _, d := range desks {
				require.Equal(t, []string{slowing}, d.log.At(slog.LevelWarn), "logged once")
				require.Empty(t, d.log.At(slog.LevelError), "not an outage")
			}
		})
	})
}

func TestWhatMayNotStartIsNotClaimed(t *testing.T) {
	bubble(t, 20, func(t *testing.T, d *desk) {
		d.endless()
		frontend := &rationed{limit: 50, burst: 50, at: time.Now()}
		d.onStart = frontend.start
		d.run()
		looptest.Pass(30 * time.Second)
		before := len(d.settlements())
		looptest.Pass(10 * time.Second)
		require.Less(t, len(d.settlements())-before, 10*50*13/10, "no claimed item is left without a start")
		for _, s := range d.settlements() {
			require.Contains(t, []claim.Verb{claim.Dispatched, claim.Release}, s.Verb)
			require.Equal(t, s.Verb == claim.Release, s.Unanswered, "a rate-limited start keeps its slot: it is unanswered")
		}
	})
}

func TestLimitThatIsLiftedIsLeftBehind(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.endless()
		frontend := &rationed{limit: 20, burst: 20, at: time.Now()}
		d.onStart = frontend.start
		d.run()
		looptest.Pass(time.Minute)
		require.Equal(t, []string{slowing}, d.log.At(slog.LevelWarn))
		require.NotContains(t, d.log.At(slog.LevelInfo), fullSpeed)

		frontend.mu.Lock()
		frontend.limit, frontend.burst = 1e9, 1e9
		frontend.mu.Unlock()
		looptest.Pass(2 * time.Minute)
		frontend.seen()
		looptest.Pass(time.Second)
		_, taken := frontend.seen()
		require.Greater(t, taken, 350.0, "2 workers that take 5 ms each")
		require.Len(t, d.log.At(slog.LevelWarn), 1)
		require.Contains(t, d.log.At(slog.LevelInfo), fullSpeed)
	})
}

func TestRefusalOfAProbeEndsThePauseAndSlowsDown(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(50)
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			switch {
			case d.now() < 10*time.Second:
				return "", serviceerror.NewUnavailable("connection refused")
			case d.now() < 20*time.Second:
				return "", tooMuch
			}
			return "run-" + item.ExecutionID, nil
		}
		d.run()
		looptest.Pass(20 * time.Second)
		require.Equal(t, []string{slowing}, d.log.At(slog.LevelWarn))
		require.Contains(t, d.log.At(slog.LevelInfo), "Temporal accepts workflows again; resuming starts",
			"a rate limit is still an answer")
		looptest.Pass(5 * time.Second)
		require.NotEmpty(t, d.seen().reported, "the lowest rate is one per second")
		looptest.Pass(time.Minute)
		require.Len(t, d.seen().reported, 50)
	})
}

func TestRateIsHalvedOnceForAllThatWasUnderWay(t *testing.T) {
	t.Parallel()
	var l limiter
	now := time.Now()
	for n := range 100 {
		l.learn(now.Add(time.Duration(n)*10*time.Millisecond), now, false)
	}
	now = now.Add(time.Second)
	require.Equal(t, 7, l.allows(now, 7, true), "not limited at first")
	sent := now.Add(-time.Millisecond)
	require.True(t, l.learn(now, sent, true), "the first rejection starts the limit")
	rate := l.rate
	require.InDelta(t, 50, rate, 1, "half the rate of the last second")
	for range 50 {
		require.False(t, l.learn(now.Add(2*time.Second), sent, true))
	}
	require.Equal(t, rate, l.rate, "rejections of earlier requests are ignored")
	l.learn(now.Add(cutInterval-1), now.Add(time.Millisecond), true)
	require.Equal(t, rate, l.rate, "no second cut within cutInterval")
	for n := range 100 {
		l.learn(now.Add(time.Duration(n)*10*time.Millisecond), now, false)
	}
	l.learn(now.Add(cutInterval), now.Add(time.Millisecond), true)
	require.InDelta(t, rate/2, l.rate, 0.1)
	for n := range 100 {
		at := now.Add(time.Duration(n+2) * time.Hour)
		l.learn(at, at, true)
	}
	require.EqualValues(t, slowest, l.rate)
}

func TestRateGrowsBackByEqualStepsAndThenFaster(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := limiter{rate: 50, growth: 10, at: now, cutAt: now, heldAt: now, steepenAt: now.Add(steepen)}
	for _, want := range []float64{60, 70, 80, 90, 100} {
		now = now.Add(time.Second)
		require.Zero(t, l.allows(now, 0, true))
		l.allows(now, 1, true)
		require.InDelta(t, want, l.rate, 0.01)
	}
	now = now.Add(5 * time.Second)
	l.allows(now, 1, true)
	rate := l.rate
	l.allows(now.Add(time.Second), 1, true)
	require.InDelta(t, rate+20, l.rate, 0.01, "it grows twice as fast after a time without rejections")
}

func TestLimiterThatHoldsNothingBackEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := limiter{rate: 100, growth: 1, at: now, cutAt: now, heldAt: now, steepenAt: now.Add(steepen)}
	require.False(t, l.frees(now.Add(freeAfter-1)))
	now = now.Add(freeAfter)
	require.Equal(t, 2, l.allows(now, 2, true))
	l.spend(now, 2, true)
	require.True(t, l.frees(now), "two were wanted, and two were allowed")
	require.Equal(t, 1000, l.allows(now, 1000, true))

	l = limiter{rate: 100, growth: 1, at: now, cutAt: now, heldAt: now, steepenAt: now.Add(steepen)}
	now = now.Add(freeAfter)
	require.Equal(t, 4, l.allows(now, 10, true))
	l.spend(now, 4, true)
	require.False(t, l.frees(now), "more were wanted than allowed")
	require.Zero(t, l.allows(now, 10, true))
	require.InDelta(t, float64(2*time.Second)/100, float64(l.until.Sub(now)), float64(time.Millisecond), "the next two")
}

func TestFlappingTemporalCostsFewCalls(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		const rows = 3000
		d.enqueue(rows)
		var calls atomic.Int64
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			time.Sleep(5 * time.Millisecond)
			d.mu.Lock()
			defer d.mu.Unlock()
			calls.Add(1)
			if int(d.now()/time.Second)%2 == 1 {
				return "", serviceerror.NewUnavailable("connection refused")
			}
			return "run-" + item.ExecutionID, nil
		}
		d.run()
		looptest.Pass(time.Minute)
		require.Len(t, d.seen().reported, rows)
		require.Greater(t, len(d.log.At(slog.LevelError)), 1, "there was more than one outage")
		require.Less(t, calls.Load(), int64(rows*11/10))
		require.NotContains(t, d.verbs(), claim.Retry)
		require.NotContains(t, d.verbs(), claim.Fail)
	})
}

func TestBreakerTripsProbesOneAtATimeAndCloses(t *testing.T) {
	t.Parallel()
	var b breaker
	now, never := time.Now(), time.Time{}
	require.False(t, b.open())
	require.Equal(t, 5, b.allows(now, never, 5, 3), "closed: all free workers")

	b.trip(now)
	require.True(t, b.open())
	require.Zero(t, b.allows(now, never, 5, 0), "open: it pauses first")
	require.Zero(t, b.allows(b.until.Add(-1), never, 5, 0))
	require.Equal(t, 1, b.allows(b.until, never, 5, 0), "then it allows one probe")
	require.Zero(t, b.allows(b.until, never, 5, 1), "no second probe while one is in flight")
	require.Zero(t, b.allows(b.until, never, 0, 0))

	b.probes(b.until)
	require.Zero(t, b.allows(b.until, b.until, 5, 1), "Temporal answered nothing that was sent later")
	require.Equal(t, 1, b.allows(b.until, b.until.Add(1), 5, 1), "Temporal answers again, so the probe hangs")
	require.Zero(t, b.allows(b.until, b.until.Add(1), 0, 1))

	b.close()
	require.False(t, b.open())
	require.Equal(t, 5, b.allows(now, never, 5, 0))

	b.trip(now)
	until := b.until
	b.trip(now.Add(time.Millisecond))
	require.Equal(t, until, b.until, "failures that were under way are ignored")
	b.close()
	for n := range 20 {
		b.trip(now)
		nominal := min(probeBase<<n, probeCap)
		require.GreaterOrEqual(t, b.until.Sub(now), nominal*8/10)
		require.LessOrEqual(t, b.until.Sub(now), nominal*12/10)
		now = b.until
	}
	b.close()
	b.trip(now)
	require.LessOrEqual(t, b.until.Sub(now), probeBase*12/10, "after an outage the first pause is short again")
}
