package operate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
)

func TestTheUseOfLimitsNamesTheMostUsedAndSumsUpTheOthers(t *testing.T) {
	b := storetest.Open(t)
	b.InsertWith(b.Shop.Shop, 5, "limit_key", "$3", "smtp")
	b.InsertWith(b.Shop.Shop, 3, "limit_key", "$3", "gpu")
	b.InsertWith(b.Shop.Shop, 2, "limit_key", "$3", "rate")
	b.InsertWith(b.Shop.Shop, 9, "limit_key", "$3", "unlimited")
	require.Equal(t, operate.LimitUse{BehindExact: true}, must.Get(b.LimitUse(t.Context(), 10)).In(t),
		"keys without a limit are not shown")

	b.Limit(true, "smtp", 2, nil, nil)
	b.Limit(false, "smtp", 100, nil, nil)
	b.Limit(false, "gpu", 0, nil, nil)
	b.Limit(true, "never used", 1, nil, nil)
	b.Limit(false, "rate", nil, "{1}", "{1 hour}")
	must.Get(b.Claim(t.Context(), 100)).In(t)
	use := must.Get(b.LimitUse(t.Context(), 10)).In(t)
	type line struct {
		key, workspace  string
		active, waiting int64
		full            bool
	}
	lines := []line{}
	for _, l := range use.Limits {
		lines = append(lines, line{l.Key, l.Workspace, l.Active, l.Waiting, l.Full()})
	}
	require.Equal(t, []line{{"smtp", "shop", 2, 3, true}, {"smtp", "", 2, 3, false}, {"gpu", "", 0, 3, true},
		{"rate", "", 1, 1, true}}, lines)
	require.Equal(t, "1/1h", use.Limits[3].Rates.String())
	require.EqualValues(t, 7, use.Behind, "each item counts once")
	require.Zero(t, use.OthersActive+use.OthersWaiting)
	require.Len(t, use.Full(), 3)

	use = must.Get(b.LimitUse(t.Context(), 2)).In(t)
	require.Len(t, use.Limits, 2)
	require.Equal(t, []int64{1, 4, 3}, []int64{use.OthersActive, use.OthersWaiting, use.Behind})
	use = must.Get(b.LimitUse(t.Context(), 0)).In(t)
	require.Equal(t, operate.LimitUse{OthersActive: 5, OthersWaiting: 10}, use)
}

func TestTheUseOfLimitsLeavesOutWhatIsNotDue(t *testing.T) {
	b := storetest.Open(t)
	b.Limit(false, "smtp", 0, nil, nil)
	b.InsertWith(b.Shop.Shop, 2, "limit_key", "$3", "smtp")
	b.Execute("update pgdispatch.workflow_execution_queue set run_at = now() + interval '1 day' where id = 1")
	use := must.Get(b.LimitUse(t.Context(), 1)).In(t)
	require.Equal(t, []int64{1, 1}, []int64{use.Behind, use.Limits[0].Waiting})
}

func TestALimitIsJudgedByWhatItsWorkspaceRunsInABurst(t *testing.T) {
	b := storetest.Open(t)
	b.Limit(true, "smtp", 7, nil, nil)
	b.Limit(false, "smtp", 7, nil, nil)
	b.Execute("update pgdispatch.workspaces set max_concurrent_workflows = 5, max_burst_workflows = 9 where id = $1",
		b.Shop.Shop)
	facts := must.Get(b.LimitFacts(t.Context())).In(t)
	require.Equal(t, new(9), facts[0].WorkspaceMax)
	require.Nil(t, facts[1].WorkspaceMax)
}

// A sweep looks once a minute at what is used.
func TestALimitSaysSinceWhenItIsFullAndHowItWasUsed(t *testing.T) {
	b := storetest.Open(t)
	b.Limit(false, "smtp", 1, nil, nil)
	b.Limit(false, "never used", 1, nil, nil)
	b.InsertWith(b.Shop.Shop, 3, "limit_key", "$3", "smtp")
	must.Get(b.Claim(t.Context(), 100)).In(t)
	look := func() []operate.KeyLimit {
		t.Helper()
		must.Get(b.Sweep(t.Context(), 10)).In(t)
		must.Get(b.Housekeep(t.Context())).In(t)
		limits, _, err := b.Limits(t.Context(), operate.KeyLimitFilter{}, 10)
		require.NoError(t, err)
		return limits
	}
	later := func() {
		b.Execute("update pgdispatch.activity set waiting = null")
		b.Execute(`update pgdispatch.limit_activity
			set minute = minute - interval '1 minute', full_since = full_since - interval '10 minutes'`)
	}
	require.Less(t, *look()[0].FullFor, time.Minute)
	later()
	limits := look()
	require.InDelta(t, 10*time.Minute, *limits[0].FullFor, float64(time.Minute))
	require.Len(t, limits[0].History, 2)
	require.Equal(t, []int64{1, 2}, []int64{limits[0].History[0].Active, limits[0].History[0].Waiting})
	require.Nil(t, limits[1].FullFor)
	require.Empty(t, limits[1].History)
	b.Execute("update pgdispatch.limits set max_concurrent = 9")
	require.Nil(t, look()[0].FullFor, "at once")
	later()
	look()
	b.Execute("update pgdispatch.limits set max_starts = '{1}', per = '{1 hour}'")
	require.Len(t, must.Get(b.Claim(t.Context(), 100)).In(t).Items, 1)
	require.Nil(t, look()[0].FullFor, "it is full again, not still")
	later()
	require.Less(t, *look()[0].FullFor, time.Minute)
	b.Execute("update pgdispatch.limit_activity set minute = minute - interval '1 hour'")
	later()
	require.Len(t, look()[0].History, 1, "of an hour")
}
