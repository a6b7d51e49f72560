package operate_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestWaitsKnowTheirQuantilesToAFifth(t *testing.T) {
	t.Parallel()
	var w operate.Waits
	require.Zero(t, w.Quantile(.5))
	for n := 1; n <= 1000; n++ {
		w.Add(time.Duration(n) * time.Millisecond)
	}
	for share, want := range map[float64]time.Duration{.5: 500 * time.Millisecond, .99: 990 * time.Millisecond,
		1: time.Second} {
		require.GreaterOrEqual(t, w.Quantile(share), want-time.Microsecond)
		require.LessOrEqual(t, w.Quantile(share), want*119/100+time.Microsecond, "%v", share)
	}
	var odd operate.Waits
	odd.Add(-time.Hour)
	odd.Add(0)
	odd.Add(1e6 * time.Hour)
	require.EqualValues(t, 3, odd.Total())
	require.Less(t, odd.Quantile(.5), time.Millisecond)
	other := operate.Waits{0, 1}
	other.Merge(odd)
	require.EqualValues(t, 4, other.Total())
}

// noteStarts records starts, as a replica does.
func noteStarts(b *storetest.Bench, waits operate.Waits) {
	b.Execute(sql.Text("activity_note"), waits.Total(), []int64(waits), []int64{waits.Total()})
}

func TestTheOverviewCountsStartsAndEndsByTheMinute(t *testing.T) {
	b := storetest.Open(t)
	empty := must.Get(b.Overview(t.Context())).In(t)
	require.Empty(t, empty.Minutes)
	require.Zero(t, empty.DueToStarted())

	items := b.Dispatched(3)
	for n, outcome := range []string{"COMPLETED", "FAILED"} {
		must.Get(b.Finish(t.Context(), items[n].ExecutionID, outcome, "it broke", "")).In(t)
	}
	b.Insert(b.Shop.Shop, 2)
	b.Execute(
		`select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue where status = 'PENDING' limit 1`)
	for range 2 { // a claim deletes a hint that it has read
		must.Get(b.Claim(t.Context(), 0)).In(t)
		must.Get(b.Sweep(t.Context(), 10)).In(t)
		must.Get(b.Housekeep(t.Context())).In(t)
	}
	var slow, fast operate.Waits
	slow.Add(time.Minute)
	fast.Add(time.Millisecond)
	fast.Add(time.Millisecond)
	noteStarts(b, slow)
	noteStarts(b, fast)

	o := must.Get(b.Overview(t.Context())).In(t)
	require.Len(t, o.Minutes, 60, "minutes without events are included")
	completed, failed, cancelled := o.Ended()
	require.Equal(t, []int64{1, 1, 1}, []int64{completed, failed, cancelled}, "each end counts once")
	require.EqualValues(t, 3, o.Minutes[59].Started+o.Minutes[58].Started)
	pickup := o.DueToStarted()
	require.EqualValues(t, 3, pickup.Starts)
	require.InEpsilon(t, time.Millisecond, pickup.P50, .19)
	require.InEpsilon(t, time.Minute, pickup.P99, .19)
	require.EqualValues(t, 3, o.StartableToStarted().Starts)
	require.Less(t, o.StartableToStarted().P99, time.Millisecond, "the two times have different names")

	b.Execute("update pgdispatch.activity set minute = minute - interval '30 minutes'")
	o = must.Get(b.Overview(t.Context())).In(t)
	require.EqualValues(t, 3, o.DueToStarted().Starts, "where nothing was started of late, the hour counts")
	b.Execute("update pgdispatch.activity set minute = minute - interval '31 minutes'")
	o = must.Get(b.Overview(t.Context())).In(t)
	require.Empty(t, o.Minutes)
	b.Execute("update pgdispatch.activity set minute = minute - interval '1 day'")
	must.Get(b.Sweep(t.Context(), 10)).In(t)
	must.Get(b.Housekeep(t.Context())).In(t)
	require.Equal(t, 1, sqltest.Scalar[int](b.Shop, "select count(*) from pgdispatch.activity"),
		"rows older than a day are deleted")
}

func TestTheFirstSweepOfAMinuteNotesWhatWaitsIsClaimedAndRuns(t *testing.T) {
	b := storetest.Open(t)
	b.Dispatched(2)
	b.Claimed(1)
	b.Insert(b.Shop.Shop, 3)
	var waits operate.Waits
	waits.Add(time.Second)
	noteStarts(b, waits)
	must.Get(b.Sweep(t.Context(), 10)).In(t)
	must.Get(b.Housekeep(t.Context())).In(t)
	o := must.Get(b.Overview(t.Context())).In(t)
	seen := slices.IndexFunc(o.Minutes, func(m operate.Minute) bool { return m.Waiting != nil })
	require.NotEqual(t, -1, seen)
	m := o.Minutes[seen]
	require.Equal(t, []int64{3, 1, 2}, []int64{*m.Waiting, *m.Claimed, *m.Running})
	require.Nil(t, o.Minutes[0].Waiting, "no sweep in that minute")
	require.Equal(t, time.Minute, o.Minutes[0].Passed)
	require.Less(t, o.Minutes[59].Passed, time.Minute, "the current minute is incomplete")

	b.Execute("update pgdispatch.activity set waiting = 77")
	must.Get(b.Sweep(t.Context(), 10)).In(t)
	must.Get(b.Housekeep(t.Context())).In(t)
	require.NotZero(t, sqltest.Scalar[int](b.Shop, "select count(*) from pgdispatch.activity where waiting = 77"),
		"one sample per minute")
	b.Execute("update pgdispatch.activity set waiting = null")
	must.Get(b.Sweep(t.Context(), 10)).In(t)
	must.Get(b.Housekeep(t.Context())).In(t)
	require.Equal(t, 3, sqltest.Scalar[int](b.Shop,
		"select waiting from pgdispatch.activity order by minute desc limit 1"), "starts before the sample do not change it")
	require.Equal(t, 1, sqltest.Scalar[int](b.Shop, "select sum(started)::integer from pgdispatch.activity"))
}

func TestTheRateOfThePresentMinuteIsThatOfWhatHasPassedOfIt(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2, operate.Minute{Started: 120, Passed: time.Minute}.StartsPerSecond(), 1e-9)
	require.InDelta(t, 12, operate.Minute{Started: 120, Passed: 10 * time.Second}.StartsPerSecond(), 1e-9)
	require.Zero(t, operate.Minute{Started: 120}.StartsPerSecond())
}

func TestAReplicaSaysHowItIsUntilItMissesHeartbeats(t *testing.T) {
	b := storetest.Open(t)
	state := operate.ReplicaState{Busy: 2, BreakerOpen: true, BreakerCause: "probe timed out", Listening: new(true),
		OnDuty: true, StartsPerSecond: 1.5, WakeUps: map[string]int64{"poll": 3}}
	for _, owner := range []string{"a", "a", "b"} {
		report := must.Get(json.Marshal(state)).In(t)
		b.Execute(sql.Text("replica_alive"), owner, "v1", 10, b.Lease, nil, string(report))
	}
	o := must.Get(b.Overview(t.Context())).In(t)
	require.Equal(t, state, o.Replicas[0].State)
	require.Less(t, o.Replicas[0].Heard, time.Minute)
	require.InDelta(t, 3, o.StartsPerSecond(), 1e-9)
	require.Equal(t, map[string]int64{"poll": 6}, o.WakeUps())
	b.Execute("update pgdispatch.replicas set renewed_at = renewed_at - interval '13 seconds'")
	o = must.Get(b.Overview(t.Context())).In(t)
	require.Zero(t, o.StartsPerSecond())
	state.Stale, state.BreakerOpen, state.BreakerCause, state.StartsPerSecond = true, false, "", 0
	require.Equal(t, state, o.Replicas[0].State)
}

func TestDepthCountsWhatHasNotEnded(t *testing.T) {
	b := storetest.Open(t)
	require.Equal(t, operate.Depth{MaxClaims: 100, ScheduledExact: true, DeadLettersExact: true,
		Vanished: []string{}},
		must.Get(b.QueueDepth(t.Context())).In(t))

	b.InsertWith(b.Shop.Shop, 1, "run_at", "now() + interval '1 day'")
	b.Dispatched(2)
	ended := b.Dispatched(1)[0]
	must.Get(b.Finish(t.Context(), ended.ExecutionID, "FAILED", "it broke", "")).In(t)
	b.Claimed(3)
	b.Insert(b.Shop.Shop, 5)
	b.Execute(`update pgdispatch.workflow_execution_queue
		set outcome_unknown = true, lease_token = nextval('pgdispatch.lease_tokens')
		where id = (select max(id) from pgdispatch.workflow_execution_queue)`)
	b.Execute(`update pgdispatch.workflow_execution_queue set run_at = run_at - interval '1 hour'
		where id = (select min(id) from pgdispatch.workflow_execution_queue where status = 'PENDING' and run_at < now())`)
	b.Alive()
	b.Execute("update pgdispatch.settings set paused = true, max_claims = 7")

	depth := must.Get(b.QueueDepth(t.Context())).In(t)
	require.InDelta(t, time.Hour, *depth.OldestWaiting, float64(time.Minute))
	require.NotNil(t, depth.OldestUnanswered)
	depth.OldestWaiting, depth.OldestUnanswered = nil, nil
	require.Equal(t, operate.Depth{Pending: 4, Scheduled: 1, Unanswered: 1, Claimed: 3, Dispatched: 2, DeadLetters: 1,
		DeadLettersExact: true, ScheduledExact: true, Replicas: 1, MaxClaims: 7, Paused: true, Vanished: []string{}}, depth)
}

func TestDepthOfALongQueueIsWhatTheStatisticsSayAndIsNotedSo(t *testing.T) {
	b := storetest.Open(t)
	b.Insert(b.Shop.Shop, operate.DepthLimit+500)
	b.Execute("analyze pgdispatch.workflow_execution_queue")
	depth := must.Get(b.QueueDepth(t.Context())).In(t)
	require.InDelta(t, operate.DepthLimit+500, depth.Pending, 400)
	must.Get(b.Sweep(t.Context(), 10)).In(t)
	must.Get(b.Housekeep(t.Context())).In(t)
	noted := sqltest.Scalar[int64](b.Shop, "select waiting from pgdispatch.activity")
	require.Equal(t, depth.Pending, noted)
	require.True(t, operate.IsEstimate(noted))
	b.Execute("update pg_class set reltuples = 0 where oid = 'pgdispatch.workflow_execution_queue_arrivals'::regclass")
	depth = must.Get(b.QueueDepth(t.Context())).In(t)
	require.EqualValues(t, operate.DepthLimit, depth.Pending, "never below the counted number")
}

func TestAnEndCountsAtOnceAndOnlyOnce(t *testing.T) {
	b := storetest.Open(t)
	ends := func() (all []int64) {
		t.Helper()
		o := must.Get(b.Overview(t.Context())).In(t)
		completed, failed, cancelled := o.Ended()
		of := must.Get(b.WorkspaceActivity(t.Context(), b.Shop.Shop, time.Hour)).In(t)
		last := operate.JoinStretches(of, len(of))[0]
		require.Equal(t, []int64{completed, failed, cancelled}, []int64{last.Completed, last.Failed, last.Cancelled})
		return []int64{completed, failed, cancelled}
	}
	require.Equal(t, []int64{0, 0, 0}, ends())
	items := b.Dispatched(3)
	for n, outcome := range []string{"COMPLETED", "FAILED", "COMPLETED"} {
		must.Get(b.Finish(t.Context(), items[n].ExecutionID, outcome, "", "")).In(t)
		require.Equal(t, [][]int64{{1, 0, 0}, {1, 1, 0}, {2, 1, 0}}[n], ends())
		if n == 1 { // one sweep counts two of them
			must.Get(b.Sweep(t.Context(), 10)).In(t)
			must.Get(b.Housekeep(t.Context())).In(t)
			require.Equal(t, []int64{1, 1, 0}, ends())
		}
	}
}

func TestMinutesAreJoinedForALongerPeriod(t *testing.T) {
	t.Parallel()
	minutes := make([]operate.Minute, 7)
	for n := range minutes {
		minutes[n] = operate.Minute{At: time.Unix(int64(60*n), 0), Started: 60, Completed: 2, Failed: int64(n % 2),
			Passed: time.Minute}
		minutes[n].Waits.Add(time.Second)
	}
	minutes[3].Waiting, minutes[4].Waiting = new(int64(9)), new(int64(4))
	joined := operate.Condense(minutes, 3)
	require.Len(t, joined, 3)
	require.Equal(t, []time.Time{time.Unix(0, 0), time.Unix(60, 0), time.Unix(240, 0)},
		[]time.Time{joined[0].At, joined[1].At, joined[2].At}, "the last groups are complete")
	require.EqualValues(t, 180, joined[1].Started)
	require.InDelta(t, 1, joined[1].StartsPerSecond(), 1e-9)
	require.EqualValues(t, []int64{2, 1}, []int64{joined[1].Completed, joined[1].Failed}, "per minute, rounded up")
	require.EqualValues(t, 9, *joined[1].Waiting)
	require.EqualValues(t, 4, *joined[2].Waiting)
	require.Nil(t, joined[0].Waiting)
	require.EqualValues(t, 3, joined[2].Waits.Total())
	require.Empty(t, operate.Condense(nil, 5))
}

func TestTheActivityOfAWorkspaceIsItsOwn(t *testing.T) {
	b := storetest.Open(t)
	other := b.NewWorkspace("other", 5)
	b.Dispatched(3)
	for _, longest := range []int64{300, 500, 200} {
		b.Execute(sql.Text("workspace_activity_note"), []string{b.Shop.Shop}, []int{2}, []int64{longest + 100},
			[]int64{longest})
	}
	stretches := must.Get(b.WorkspaceActivity(t.Context(), b.Shop.Shop, 6*time.Hour)).In(t)
	require.Len(t, stretches, 72)
	for n, s := range stretches[1:] {
		require.Equal(t, 5*time.Minute, s.At.Sub(stretches[n].At))
	}
	require.False(t, stretches[0].Known, "nothing was recorded then")
	require.True(t, stretches[71].Known)
	sum := operate.JoinStretches(stretches, 72)[0]
	sum.At = time.Time{}
	require.Equal(t, operate.Stretch{Known: true, Started: 6, Waited: 1300 * time.Millisecond,
		Longest: 500 * time.Millisecond}, sum)
	stretches = must.Get(b.WorkspaceActivity(t.Context(), other, time.Hour)).In(t)
	require.False(t, operate.JoinStretches(stretches, 12)[0].Active())
}

func TestStretchesAreJoinedFromTheLastOn(t *testing.T) {
	t.Parallel()
	stretches := make([]operate.Stretch, 7)
	for n := range stretches {
		stretches[n] = operate.Stretch{At: time.Unix(int64(n), 0), Known: n == 1, Started: 1, Longest: time.Duration(n)}
	}
	require.Equal(t, []operate.Stretch{
		{At: time.Unix(0, 0), Started: 1},
		{At: time.Unix(1, 0), Known: true, Started: 3, Longest: 3},
		{At: time.Unix(4, 0), Started: 3, Longest: 6},
	}, operate.JoinStretches(stretches, 3))
	require.Empty(t, operate.JoinStretches(nil, 3))
}

func TestErrorsAreSuggestedByWhatTheyHaveInCommon(t *testing.T) {
	b := storetest.Open(t)
	errors := []string{"card 1 was refused by provider 7", "card 22 was refused by provider 9", "no route to host"}
	for n, item := range b.Claimed(len(errors)) {
		b.Bury(item, errors[n])
	}
	b.Execute(`update pgdispatch.workflow_execution_queue set last_error = E'no route\nto host'
		where last_error like 'no%'`)
	suggested := func(part string) []string {
		t.Helper()
		return must.Get(b.CompleteErrors(t.Context(), part, 2)).In(t)
	}
	require.Equal(t, []string{"was refused by provider", "no route"}, suggested(""))
	require.Equal(t, []string{"no route"}, suggested("ROUTE"))
	require.Empty(t, suggested("%"))
	for _, text := range suggested("") { // each finds what it is of
		filter := operate.DeadFilter{Filter: operate.Filter{Error: text}}
		require.NotEmpty(t, must.Get(b.FindDeadLetters(t.Context(), filter, 0)).In(t), text)
	}
}
