package operate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql"
)

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
	for _, longest := range []int64{200, 500} {
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
	require.Equal(t, operate.Stretch{Known: true, Started: 4, Waited: 900 * time.Millisecond,
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
