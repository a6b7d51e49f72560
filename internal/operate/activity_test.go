package operate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
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
	t.Parallel()
	b := storetest.New(t)
	other := b.NewWorkspace("other", 5)
	items := b.Dispatched(3)
	for n, outcome := range []string{"COMPLETED", "FAILED"} {
		must.Get(b.Finish(t.Context(), items[n].ExecutionID, outcome, "it broke", "")).In(t)
	}
	for _, longest := range []int64{200, 500} {
		b.Execute(sql.Text("workspace_activity_note"), []string{b.Shop.Shop}, []int{2}, []int64{longest + 100},
			[]int64{longest})
	}
	must.Get(b.Sweep(t.Context(), 10)).In(t)

	stretches := must.Get(b.WorkspaceActivity(t.Context(), b.Shop.Shop, 6*time.Hour)).In(t)
	require.Len(t, stretches, 72)
	for n, s := range stretches[1:] {
		require.Equal(t, 5*time.Minute, s.At.Sub(stretches[n].At))
	}
	require.False(t, stretches[0].Known, "nothing was recorded then")
	require.True(t, stretches[71].Known)
	sum := operate.JoinStretches(stretches, 72)[0]
	require.Equal(t, []int64{4, 1, 1, 0}, []int64{sum.Started, sum.Completed, sum.Failed, sum.Cancelled})
	require.Equal(t, []time.Duration{900 * time.Millisecond, 500 * time.Millisecond},
		[]time.Duration{sum.Waited, sum.Longest})
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
	t.Parallel()
	b := storetest.New(t)
	fail := func(errors ...string) {
		t.Helper()
		batch := b.Claimed(len(errors))
		settlements := []claim.Settlement{}
		for n, item := range batch {
			settlements = append(settlements, claim.Settlement{ID: item.ID, Token: item.Token, Error: errors[n]})
		}
		must.Get(b.Settle(t.Context(), claim.Fail, settlements)).In(t)
	}
	fail("card 1 was refused by provider 7", "card 22 was refused by provider 9", "no route to host")
	b.Execute(`update pgdispatch.workflow_execution_queue set last_error = E'no route\nto host'
		where last_error like 'no%'`)
	suggested := func(part string) []string {
		t.Helper()
		texts := must.Get(b.CompleteErrors(t.Context(), part, 2)).In(t)
		return texts
	}
	require.Equal(t, []string{"was refused by provider", "no route"}, suggested(""))
	require.Equal(t, []string{"no route"}, suggested("ROUTE"))
	require.Empty(t, suggested("%"))
	for _, text := range suggested("") { // each finds what it is of
		found := must.Get(b.FindDeadLetters(t.Context(), operate.DeadFilter{Filter: operate.Filter{Error: text}}, 0)).In(t)
		require.NotEmpty(t, found, fmt.Sprint(text))
	}
}
