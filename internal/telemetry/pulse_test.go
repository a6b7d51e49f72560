package telemetry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/internal/operate"
)

var _ dispatch.Observer = (*Telemetry)(nil)

func TestThePulseMeasuresFromWhenAnItemWasDueUntilItIsStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := New(t.Context(), Options{LookupEnv: environment(nil), Log: quiet()})
		require.NoError(t, err)
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
