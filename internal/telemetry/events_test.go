package telemetry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

func TestEveryHandOverIsCountedOnceHoweverItEnds(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	items := []claim.Item{
		{ID: 1, Token: 1, AttemptCount: 1, Waited: time.Minute}, {ID: 2, Token: 1, AttemptCount: 3},
		{ID: 3, Token: 1, Problem: "workspace not found"},
		{ID: 4, Token: 1}, {ID: 5, Token: 1}, {ID: 6, Token: 1},
	}
	about.Claimed(time.Now(), claim.Batch{Items: items, Asked: 1, AtCapacity: []claim.Full{{}, {}}}, nil, nil)
	require.Equal(t, 6, about.heldItems.held())

	settle := func(verb claim.Verb, ids ...int64) { about.Settled(time.Now(), verb, ids, nil) }
	start(about, items[0], engine.Started)
	settle(claim.Dispatched, 1)
	start(about, items[1], engine.Permanent)
	settle(claim.Fail, 2)
	settle(claim.Fail, 3)
	about.Fails(&items[5], engine.Abandoned) // without a start
	settle(claim.Fail, 6)
	start(about, items[3], engine.NotSent)
	settle(claim.Release, 4)
	require.InDelta(t, -1, value(t, about.Registry, "pgdispatch_claim_processing_seconds", ""), 0,
		"one start is in flight")
	about.Lost(5)
	about.Lost(5)

	for name, want := range map[string]float64{
		"pgdispatch_claims_total items": 1, "pgdispatch_claim_batch_size": 1, "pgdispatch_claim_processing_seconds": 1,
		"pgdispatch_workspaces_at_capacity_total": 2,
		"pgdispatch_items_dispatched_total":       1, "pgdispatch_settles_total fail": 3,
		"pgdispatch_settles_total release": 1, "pgdispatch_item_attempts": 4,
		"pgdispatch_items_failed_total refused": 1, "pgdispatch_items_failed_total workspace_not_found": 1,
		"pgdispatch_items_failed_total abandoned":          1,
		"pgdispatch_items_failed_total attempts_exhausted": 0,
		"pgdispatch_start_failures_total permanent":        1, "pgdispatch_start_failures_total not_sent": 1,
		"pgdispatch_wait_seconds":           1,
		"pgdispatch_start_duration_seconds": 3, "pgdispatch_lease_losses_total": 2, "pgdispatch_settle_batch_size": 5,
	} {
		requireValue(t, about, name, want)
	}
	require.Zero(t, about.heldItems.held())
	require.InDelta(t, 60, sum(t, about.Registry, "pgdispatch_wait_seconds"), 10,
		"it had been due for a minute when it was claimed")
}

// requireValue checks a metric given as its name and, after a space, its label's value.
func requireValue(t *testing.T, about *Telemetry, name string, want float64) {
	t.Helper()
	var metric, label string
	_, _ = fmt.Sscan(name, &metric, &label)
	require.InDelta(t, want, value(t, about.Registry, metric, label), 0, name)
}

func TestAnItemThatIsClaimedAgainIsNotTakenForItsFormerSelf(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	about.measureClaim(interval{}, claim.Batch{Items: []claim.Item{{ID: 1, Token: 1}}}, nil)
	about.measureClaim(interval{}, claim.Batch{Items: []claim.Item{{ID: 1, Token: 2}}}, nil)
	require.Nil(t, about.heldItems.of(claim.Item{ID: 1, Token: 1}))
	require.NotNil(t, about.heldItems.of(claim.Item{ID: 1, Token: 2}))
	require.Equal(t, 1, about.heldItems.held())
}

// A claim without anything to ask succeeds while Postgres is away.
func TestTelemetry_TakesOnlyStatementsForAnswers(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	answers := 0
	about.Answered = func() { answers++ }

	about.Claimed(time.Now(), claim.Batch{Unsent: true}, nil, nil)
	about.Claimed(time.Now(), claim.Batch{}, nil, errors.New("connection refused"))
	require.Zero(t, answers)

	about.Claimed(time.Now(), claim.Batch{}, nil, nil)
	require.Equal(t, 1, answers)
}

func TestClaimsWithoutALockAreToldFromOtherFailures(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	for _, err := range []error{
		&pgconn.PgError{Code: "55P03"}, &pgconn.PgError{Code: "57014"}, &pgconn.PgError{Code: "40P01"},
		fmt.Errorf("claim items: %w", context.DeadlineExceeded), errors.New("connection refused"),
		&pgconn.PgError{Code: "42P01"},
	} {
		about.Claimed(time.Now(), claim.Batch{}, nil, err)
	}
	about.Claimed(time.Now(), claim.Batch{}, nil, fmt.Errorf("claim items: %w: cut", claim.ErrUncertain))
	requireValue(t, about, "pgdispatch_claims_total uncertain", 1)
	requireValue(t, about, "pgdispatch_claim_lock_failures_total", 4)
	requireValue(t, about, "pgdispatch_claims_total error", 6)
	requireValue(t, about, "pgdispatch_store_errors_total claim", 7)
	requireValue(t, about, "pgdispatch_claim_duration_seconds", -1)
}

// tellAll reports every event except claims, starts and settles.
func tellAll(about *Telemetry, err error) {
	about.Renewed(err)
	about.Swept(sweeper.Swept{Requeued: 3}, err)
	for _, outcome := range []string{"COMPLETED", "TIMED_OUT", "CANCELED"} {
		about.Finished(outcome, err)
	}
	about.Adopted(1, err)
	about.Deleted(sweeper.Deleted{Items: 5, DeadLetters: 6, Executions: 7}, err)
}

func TestWhatTheOthersDoIsCounted(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	tellAll(about, nil)
	for name, want := range map[string]float64{
		"pgdispatch_items_recovered_total":           3,
		"pgdispatch_executions_ended_total canceled": 1, "pgdispatch_items_failed_total workflow_canceled": 1,
		"pgdispatch_executions_ended_total failed":    0,
		"pgdispatch_executions_ended_total completed": 1, "pgdispatch_executions_ended_total timed_out": 1,
		"pgdispatch_items_failed_total workflow_timed_out": 1,
		"pgdispatch_executions_adopted_total":              1, "pgdispatch_deleted_total items": 5,
		"pgdispatch_deleted_total dead_letters": 6,
		"pgdispatch_deleted_total executions":   7, "pgdispatch_store_errors_total sweep": 0,
	} {
		requireValue(t, about, name, want)
	}
}

func TestTheirErrorsAreCountedByOperation(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	tellAll(about, errors.New("gone"))
	about.Settled(time.Now(), claim.Fail, nil, errors.New("gone"))
	for _, operation := range []string{"heartbeat", "sweep", "adopt", "delete", "settle"} {
		requireValue(t, about, "pgdispatch_store_errors_total "+operation, 1)
	}
	requireValue(t, about, "pgdispatch_store_errors_total finish", 3)
	requireValue(t, about, "pgdispatch_executions_ended_total completed", 0)
	requireValue(t, about, "pgdispatch_settle_duration_seconds", -1)
}

func TestWithoutMetricsOnlyThePulseIsMeasured(t *testing.T) {
	t.Parallel()
	about := must.Get(New(t.Context(), Options{LookupEnv: environment(nil), Log: quiet()})).In(t)
	require.Nil(t, about.Registry)
	about.Claimed(time.Now(), claim.Batch{Items: []claim.Item{{ID: 1}}}, []int64{2}, nil)
	require.Equal(t, "as it is", start(about, claim.Item{Traceparent: "as it is"}, engine.Started).Traceparent)
	about.Settled(time.Now(), claim.Dispatched, []int64{1}, nil)
	tellAll(about, nil)
	about.Ended("watch")
	about.Callback("ended")
	require.EqualValues(t, 1, about.Take().Due.Total())
	require.False(t, about.BreakerOpen())
	require.NoError(t, about.Observe(&Gauges{}))
	require.NoError(t, about.Shutdown(t.Context()))
}

func TestSignalsAreCountedByOutcomeAndTimedToTheirAcceptance(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	about.Signalled("delivered", 1, time.Second)
	about.Signalled("given_up", 3, 0)
	requireValue(t, about, "pgdispatch_signals_total delivered", 1)
	requireValue(t, about, "pgdispatch_signals_total failed", 0)
	requireValue(t, about, "pgdispatch_signals_total given_up", 3)
	requireValue(t, about, "pgdispatch_signal_seconds", 1)
}

func TestTheRateIsOfTheLastSecondsOrIfLittleWasStartedOfTheLastMinute(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	r := rate{began: began}
	require.Zero(t, r.perSecond(at(0)))
	r.add(at(0.2))
	require.InDelta(t, 1, r.perSecond(at(0.2)), 1e-9, "a start right after the beginning is not a burst")
	r.add(at(30))
	require.InDelta(t, 2./40, r.perSecond(at(40)), 1e-9)
	require.InDelta(t, 1./60, r.perSecond(at(80)), 1e-9, "the first is more than a minute ago")
	for n := range 100 {
		r.add(at(200 + float64(n)/10))
	}
	require.InDelta(t, 10, r.perSecond(at(209.95)), 1e-9)
	require.Zero(t, r.perSecond(at(225)), "they have stopped")
	require.Zero(t, r.perSecond(at(100_000)))
}

const aWorkspace = "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01"

// limited is a queue with limits, of which one has a key named as the sum of the others is.
func limited() *fakeQueue {
	most := 4
	return &fakeQueue{depth: operate.Depth{Replicas: 1}, limits: operate.LimitUse{OthersActive: 5, OthersWaiting: 6,
		Limits: []operate.KeyLimit{
			{Key: "smtp", MaxConcurrent: &most, Active: 4, Waiting: 2},
			{Key: "smtp", WorkspaceID: aWorkspace, MaxConcurrent: &most, Active: 1, Waiting: 1},
			{Key: otherLimits, Active: 9},
		}}}
}

// series returns the values of a gauge by the values of its labels.
func series(t *testing.T, about *Telemetry, name string) map[string]float64 {
	t.Helper()
	families := must.Get(about.Registry.Gather()).In(t)
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, label := range m.GetLabel() {
				labels += label.GetName() + "=" + label.GetValue() + " "
			}
			if family.GetName() == name {
				all[labels] = m.GetGauge().GetValue()
			}
		}
	}
	return all
}

func TestTheMostUsedLimitsHaveGaugesAndTheOthersASum(t *testing.T) {
	t.Parallel()
	about := observed(t, &Gauges{Queue: limited(), Limits: 3})
	inWorkspace := "key=smtp workspace_id=" + aWorkspace + " "
	require.Equal(t, map[string]float64{"key=smtp ": 4, inWorkspace: 1, "key=other ": 9,
		"key=other workspace_id=other ": 5}, series(t, about, "pgdispatch_limit_active"))
	require.Equal(t, map[string]float64{"key=smtp ": 4, inWorkspace: 4}, series(t, about, "pgdispatch_limit_max"))
	require.Equal(t, map[string]float64{"key=smtp ": 2, inWorkspace: 1, "key=other ": 0,
		"key=other workspace_id=other ": 6}, series(t, about, "pgdispatch_limit_waiting"))
	require.Equal(t, map[string]float64{"key=smtp ": 1, inWorkspace: 0, "key=other ": 0},
		series(t, about, "pgdispatch_limit_full"))

	one := observed(t, &Gauges{Queue: limited(), Limits: 1})
	require.Len(t, series(t, one, "pgdispatch_limit_active"), 2, "no more than are allowed")
}

func TestTheOtherGaugesDoNotNeedTheLimits(t *testing.T) {
	t.Parallel()
	queue := limited()
	queue.limitsErr = errors.New("function does not exist")
	about := observed(t, &Gauges{Queue: queue, Limits: 3})
	require.Empty(t, series(t, about, "pgdispatch_limit_active"))
	requireValue(t, about, "pgdispatch_replicas", 1)
	requireValue(t, about, "pgdispatch_database_up", 1)
	requireValue(t, about, "pgdispatch_store_errors_total depth", 1)
}

var _ dispatch.Observer = (*Telemetry)(nil)

func TestThePulseMeasuresFromWhenAnItemWasDueUntilItIsStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := must.Get(New(t.Context(), Options{LookupEnv: environment(nil), Log: quiet()})).In(t)
		p.Claimed(time.Now(), claim.Batch{Items: []claim.Item{
			{ID: 1, WorkspaceID: "acme", Waited: time.Second, Startable: time.Millisecond}, {ID: 2},
			{ID: 3, WorkspaceID: "acme"}, {ID: 4}}}, nil, nil)
		require.Equal(t, 4, p.State().Busy)
		require.Empty(t, p.Started())
		time.Sleep(time.Second)
		p.Settled(time.Now(), claim.Retry, []int64{2}, nil)
		p.Claimed(time.Now(), claim.Batch{}, []int64{1, 3}, nil)
		p.Lost(4)

		state := p.State()
		require.Zero(t, state.Busy)
		require.InDelta(t, 2, state.StartsPerSecond, 1e-9, "two in the first second")
		require.Len(t, p.Started(), 1, "there are starts to report")
		took := p.Take()
		require.Empty(t, p.Started())
		require.InEpsilon(t, time.Second, took.Startable.Quantile(.99), .19, "from when nothing held it back")
		waits := took.Due
		require.EqualValues(t, 2, waits.Total())
		require.InEpsilon(t, time.Second, waits.Quantile(.5), .19)
		require.InEpsilon(t, 2*time.Second, waits.Quantile(.99), .19)
		require.Equal(t, map[string]operate.WorkspaceStarts{"acme": {Started: 2, Waited: 3 * time.Second,
			Longest: 2 * time.Second}}, took.Workspaces)
		require.Empty(t, p.Take())
		p.GiveBack(took)
		require.Equal(t, took, p.Take(), "starts that could not be recorded are reported next time")
		time.Sleep(2 * time.Minute)
		require.Zero(t, p.State().StartsPerSecond)
	})
}

func TestThePulseHearsAndPassesOn(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	p := about
	p.Woken("poll")
	p.Woken("poll")
	p.Paused(1, true, errors.New("why"))
	state := p.State()
	require.True(t, state.BreakerOpen)
	require.Equal(t, "why", state.BreakerCause)
	require.WithinDuration(t, time.Now(), *state.BreakerSince, time.Minute)
	require.Equal(t, state.BreakerSince, p.State().BreakerSince, "the outage is the same")
	p.Paused(0, false, errors.New("why"))
	require.Nil(t, p.State().BreakerSince)
	p.Paused(1, true, errors.New("why"))
	require.Equal(t, map[string]int64{"poll": 2}, state.WakeUps)
	require.True(t, about.BreakerOpen())
	requireValue(t, about, "pgdispatch_wakeups_total poll", 2)
}
