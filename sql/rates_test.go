package sql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rate limits a workspace's starts per second; nil: no limit.
func (f fixture) rate(w tenant, perSecond any) {
	f.exec("update pgdispatch.workspaces set max_starts_per_second = $2 where id = $1", w.workspace, perSecond)
}

// pass ages the buckets, as if exactly this time had passed since the last claim from them.
func (f fixture) pass(d time.Duration) {
	f.forget() // otherwise replicas would wait for that time
	f.exec("update pgdispatch.rates set at = clock_timestamp() - $1::interval", d)
}

// requireSoon allows for the time that has passed since the test began, which is long on a loaded machine.
func requireSoon(t *testing.T, began time.Time, want, got time.Duration) {
	require.LessOrEqual(t, got, want+time.Millisecond)
	require.GreaterOrEqual(t, got, want-time.Since(began))
}

func TestARateLimitGivesOneSecondsWorthAtOnceAndThenByTime(t *testing.T) {
	f, w, free := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	f.rate(w, 4)
	f.items(w, 20)
	began := time.Now()
	first := f.claim(15)
	require.Len(t, first.items, 4)
	require.False(t, first.more, "the rest is not due yet")
	requireSoon(t, began, 250*time.Millisecond, *first.lookAgainIn)
	f.items(free, 2)
	require.Len(t, f.claim(2).items, 2, "other workspaces do not wait")
	f.pass(500 * time.Millisecond)
	require.Len(t, f.claim(15).items, 2)
	f.pass(time.Hour)
	require.Len(t, f.claim(15).items, 4, "the bucket holds at most one second's starts")
	f.pass(time.Second)
	require.Len(t, f.claim(1).items, 1, "a claim of one takes one token")
	require.Len(t, f.claim(1).items, 1)
	f.pass(time.Hour)
	require.Len(t, f.claim(15).items, 4, "nor when tokens were left")
}

// The timer never fires too early: a dispatcher that claims at the given time finds an item.
func TestTheTimeToLookAgainIsWhenTheRateAllowsOne(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{0.0001, 0.3, 3, 7, 13, 333, 9999} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			f, w := openFor(t, "ENTERPRISE")
			f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 100000")
			f.maxClaims(100000)
			f.rate(w, perSecond)
			f.items(w, int(perSecond)+3)
			began := time.Now()
			b := f.claim(100000)
			waited := time.Since(began)
			if b.lookAgainIn != nil {
				waited += *b.lookAgainIn
			} else {
				require.True(t, b.more, "a token is already available")
			}
			require.LessOrEqual(t, 1.0,
				one[float64](f, "select r.tokens + r.per_second * $1::float8 from pgdispatch.rates r", waited.Seconds()))
		})
	}
}

func TestARateChangesLive(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 1000")
	f.maxClaims(1000)
	f.items(w, 300)
	f.rate(w, 2)
	require.Len(t, f.claim(100).items, 2)
	f.rate(w, 50)
	require.Empty(t, f.claim(100).items, "the bucket was empty")
	f.pass(time.Second)
	require.Len(t, f.claim(100).items, 50)
	f.pass(time.Second)
	f.rate(w, 3)
	require.Len(t, f.claim(100).items, 3, "the bucket is cut to one second of the new rate")
	f.pass(100 * time.Second)
	f.rate(w, 30)
	require.Len(t, f.claim(100).items, 3, "tokens accumulated at the old rate")
	f.rate(w, nil)
	require.Len(t, f.claim(100).items, 100, "no limit")
	f.rate(w, 1)
	require.LessOrEqual(t, len(f.claim(100).items), 1)
	f.pass(time.Second)
	require.Len(t, f.claim(100).items, 1)
}

func TestWhatWasSavedUpWasSavedUpAtTheRateOfThen(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.items(w, 20)
	f.rate(w, 4)
	require.Len(t, f.claim(10).items, 4)
	f.pass(500 * time.Millisecond)
	f.rate(w, 400)
	require.Len(t, f.claim(10).items, 2)
}

func TestARateLosesNothingWhenTheClockIsSetBack(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.items(w, 20)
	f.rate(w, 4)
	require.Len(t, f.claim(1).items, 1)
	f.exec("update pgdispatch.rates set at = at + interval '1 hour'")
	require.Len(t, f.claim(10).items, 3)
}

func TestARepeatedStartNeedsNoRate(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.rate(w, 1)
	f.items(w, 3)
	first := f.claim(3)
	require.Len(t, first.items, 1)
	f.release(first, true)
	require.Equal(t, first.ids(), f.claim(3).ids())
}

// In real time: any window contains at most the bucket's size plus the rate's refill.
func TestARateIsExactOverManyClaimers(t *testing.T) {
	f, w, busy := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	const perSecond, items = 60, 120
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 100000")
	f.maxClaims(100000)
	f.rate(w, perSecond)
	f.items(w, items)
	f.claimers(6, func(owner string, calls int) (more bool, err error) {
		f.item(busy)
		_, err = f.tryClaimBy(owner, 1+calls%7)
		return one[bool](f, `select exists (select from pgdispatch.workflow_execution_queue
			where stage = 'WAITS' and workspace_id = $1)`, w.workspace), err
	})
	times := all[float64](f, `select extract(epoch from claimed_at)::float8 from pgdispatch.workflow_execution_queue
		where workspace_id = $1 order by claimed_at`, w.workspace)
	require.Len(t, times, items)
	// The bucket uses the claim's start; the row's time is later by the claim's own work.
	const slack = 0.1
	for i := range times {
		for j := i; j < len(times); j++ {
			require.LessOrEqual(t, float64(j-i+1), perSecond+perSecond*(times[j]-times[i]+slack), "from the %dth to the %dth", i,
				j)
		}
	}
	require.Less(t, times[items-1]-times[0], 20.0, "2 s by the rate, more on a slow machine")
}
