package operate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql"
)

func TestTheActivityOfAWorkspaceIsItsOwn(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	other := b.NewWorkspace("other", 5)
	items := b.Dispatched(3)
	for n, outcome := range []string{"COMPLETED", "FAILED"} {
		_, err := b.Finish(t.Context(), items[n].ExecutionID, outcome, "it broke", "")
		require.NoError(t, err)
	}
	for _, longest := range []int64{200, 500} {
		b.Execute(sql.Text("workspace_activity_note"), []string{b.Shop.Shop}, []int{2}, []int64{longest + 100},
			[]int64{longest})
	}
	_, err := b.Sweep(t.Context(), 10)
	require.NoError(t, err)

	stretches, err := b.WorkspaceActivity(t.Context(), b.Shop.Shop, 6*time.Hour)
	require.NoError(t, err)
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
	stretches, err = b.WorkspaceActivity(t.Context(), other, time.Hour)
	require.NoError(t, err)
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
		_, err := b.Settle(t.Context(), claim.Fail, settlements)
		require.NoError(t, err)
	}
	fail("card 1 was refused by provider 7", "card 22 was refused by provider 9", "no route to host")
	b.Execute(`update pgdispatch.workflow_execution_queue set last_error = E'no route\nto host'
		where last_error like 'no%'`)
	suggested := func(part string) []string {
		t.Helper()
		texts, err := b.CompleteErrors(t.Context(), part, 2)
		require.NoError(t, err)
		return texts
	}
	require.Equal(t, []string{"was refused by provider", "no route"}, suggested(""))
	require.Equal(t, []string{"no route"}, suggested("ROUTE"))
	require.Empty(t, suggested("%"))
	for _, text := range suggested("") { // each finds what it is of
		found, err := b.FindDeadLetters(t.Context(), operate.DeadFilter{Error: text}, 0)
		require.NoError(t, err)
		require.NotEmpty(t, found, fmt.Sprint(text))
	}
}
