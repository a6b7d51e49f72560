package claim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitsKnowTheirQuantilesToAFifth(t *testing.T) {
	t.Parallel()
	var w Waits
	require.Zero(t, w.Quantile(.5))
	for n := 1; n <= 1000; n++ {
		w.Add(time.Duration(n) * time.Millisecond)
	}
	for share, want := range map[float64]time.Duration{.5: 500 * time.Millisecond, .99: 990 * time.Millisecond, 1: time.Second} {
		require.GreaterOrEqual(t, w.Quantile(share), want-time.Microsecond)
		require.LessOrEqual(t, w.Quantile(share), want*119/100+time.Microsecond, "%v", share)
	}
	var odd Waits
	odd.Add(-time.Hour)
	odd.Add(0)
	odd.Add(1e6 * time.Hour)
	require.EqualValues(t, 3, odd.Total())
	require.Less(t, odd.Quantile(.5), time.Millisecond)
	other := Waits{0, 1}
	other.Merge(odd)
	require.EqualValues(t, 4, other.Total())
}

func TestTheOverviewCountsStartsAndEndsByTheMinute(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	empty, err := b.Overview(t.Context())
	require.NoError(t, err)
	require.Empty(t, empty.Minutes)
	require.Zero(t, empty.Pickup())

	items := b.dispatched(b.Store, 3)
	for n, outcome := range []string{"COMPLETED", "FAILED"} {
		_, err := b.Finish(t.Context(), items[n].ExecutionID, outcome, "it broke", "")
		require.NoError(t, err)
	}
	b.enqueue(b.shop, 2)
	b.execute(`select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue where status = 'PENDING' limit 1`)
	for range 2 { // a hint goes once a claim has read it
		_, err = b.Claim(t.Context(), 0)
		require.NoError(t, err)
		_, err = b.Sweep(t.Context(), 10)
		require.NoError(t, err)
	}
	var slow, fast Waits
	slow.Add(time.Minute)
	fast.Add(time.Millisecond)
	fast.Add(time.Millisecond)
	require.NoError(t, b.NoteStarts(t.Context(), slow))
	require.NoError(t, b.NoteStarts(t.Context(), fast))

	o, err := b.Overview(t.Context())
	require.NoError(t, err)
	require.Len(t, o.Minutes, 60, "those in which nothing happened too")
	completed, failed, cancelled := o.Ended()
	require.Equal(t, []int64{1, 1, 1}, []int64{completed, failed, cancelled}, "each end counts once")
	require.EqualValues(t, 3, o.Minutes[59].Started+o.Minutes[58].Started)
	pickup := o.Pickup()
	require.EqualValues(t, 3, pickup.Starts)
	require.InEpsilon(t, time.Millisecond, pickup.P50, .19)
	require.InEpsilon(t, time.Minute, pickup.P99, .19)

	b.execute("update pgdispatch.activity set minute = minute - interval '30 minutes'")
	o, err = b.Overview(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, o.Pickup().Starts, "where nothing was started of late, the hour counts")
	b.execute("update pgdispatch.activity set minute = minute - interval '31 minutes'")
	o, err = b.Overview(t.Context())
	require.NoError(t, err)
	require.Empty(t, o.Minutes)
	b.execute("update pgdispatch.activity set minute = minute - interval '1 day'")
	_, err = b.Sweep(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, scalar[int](b, "select count(*) from pgdispatch.activity"), "what is older than a day goes")
}

func TestTheFirstSweepOfAMinuteNotesWhatWaitsIsClaimedAndRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sweep := func() {
		t.Helper()
		_, err := b.Sweep(t.Context(), 10)
		require.NoError(t, err)
	}
	b.dispatched(b.Store, 2)
	b.claimed(b.Store, 1)
	b.enqueue(b.shop, 3)
	var waits Waits
	waits.Add(time.Second)
	require.NoError(t, b.NoteStarts(t.Context(), waits))
	sweep()
	o, err := b.Overview(t.Context())
	require.NoError(t, err)
	seen := slices.IndexFunc(o.Minutes, func(m Minute) bool { return m.Waiting != nil })
	require.NotEqual(t, -1, seen)
	m := o.Minutes[seen]
	require.Equal(t, []int64{3, 1, 2}, []int64{*m.Waiting, *m.Claimed, *m.Running})
	require.Nil(t, o.Minutes[0].Waiting, "nobody swept then")

	b.execute("update pgdispatch.activity set waiting = 77")
	sweep()
	require.NotZero(t, scalar[int](b, "select count(*) from pgdispatch.activity where waiting = 77"), "once a minute is enough")
	b.execute("update pgdispatch.activity set waiting = null")
	sweep()
	require.Equal(t, 3, scalar[int](b, "select waiting from pgdispatch.activity order by minute desc limit 1"), "what was started before it was swept changes nothing")
	require.Equal(t, 1, scalar[int](b, "select sum(started)::integer from pgdispatch.activity"))
}

func TestTheNotesOfALongQueueAreTheEstimatesOfItsDepth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	depth := b.longQueue()
	_, err := b.Sweep(t.Context(), 10)
	require.NoError(t, err)
	noted := scalar[int64](b, "select waiting from pgdispatch.activity")
	require.Equal(t, depth.Pending, noted)
	require.True(t, IsEstimate(noted))
}

func TestTheRateOfThePresentMinuteIsThatOfWhatHasPassedOfIt(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2, Minute{Started: 120, Passed: time.Minute}.StartsPerSecond(), 1e-9)
	require.InDelta(t, 12, Minute{Started: 120, Passed: 10 * time.Second}.StartsPerSecond(), 1e-9)
	require.Zero(t, Minute{Started: 120}.StartsPerSecond())
	b := newBench(t)
	_, err := b.Sweep(t.Context(), 10)
	require.NoError(t, err)
	o, err := b.Overview(t.Context())
	require.NoError(t, err)
	require.Equal(t, time.Minute, o.Minutes[0].Passed)
	require.Less(t, o.Minutes[59].Passed, time.Minute, "it is not over")
}

func TestAReplicaSaysHowItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	on := true
	state := ReplicaState{Busy: 2, BreakerOpen: true, Listening: &on, OnDuty: true, StartsPerSecond: 1.5, WakeUps: map[string]int64{"poll": 3}}
	require.NoError(t, b.Alive(t.Context(), Presence{Version: "v1", Workers: 10}))
	require.NoError(t, b.Alive(t.Context(), Presence{Version: "v1", Workers: 10, State: state}))
	require.NoError(t, b.replica("b").Alive(t.Context(), Presence{State: state}))
	o, err := b.Overview(t.Context())
	require.NoError(t, err)
	require.Equal(t, state, o.Replicas[0].State)
	require.Less(t, o.Replicas[0].Heard, time.Minute)
	require.InDelta(t, 3, o.StartsPerSecond(), 1e-9)
	require.Equal(t, map[string]int64{"poll": 6}, o.WakeUps())
}
