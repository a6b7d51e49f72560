package operate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

func TestDeadLettersAreFoundReadReplayedAndDiscarded(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	items := b.Buried(3, "line\nbreak")
	hour := time.Hour
	ids := must.Get(b.FindDeadLetters(t.Context(),
		operate.DeadFilter{Filter: operate.Filter{Workspace: "shop", Definition: "order", Error: "LINE",
			Since: operate.Moment{Ago: &hour}}}, 2)).In(t)
	require.Len(t, ids, 2)
	ids = must.Get(b.FindDeadLetters(t.Context(),
		operate.DeadFilter{Filter: operate.Filter{Until: operate.Moment{Ago: &hour}}}, 0)).In(t)
	require.Empty(t, ids)

	letters, err := b.Items(t.Context(), []int64{items[2].ID, items[0].ID, 999}, []string{items[1].ExecutionID}, false)
	require.NoError(t, err)
	require.Len(t, letters, 3)
	require.Equal(t, "line break", letters[0].LastError)
	failures := must.Get(b.Failures(t.Context(), items[0].ID)).In(t)
	require.Len(t, failures, 1)
	require.Equal(t, "a", failures[0].Replica)

	replay := must.Get(b.Replay(t.Context(), items[0].ExecutionID, "ann")).In(t)
	require.True(t, replay.Replayed)
	replayed := must.Get(b.ReplayAll(t.Context(), []int64{items[0].ID, items[1].ID}, "ann")).In(t)
	require.Len(t, replayed, 1)
	require.Equal(t, items[1].ID, replayed[0].ID)
	discarded := must.Get(b.Discard(t.Context(), []int64{items[1].ID, items[2].ID}, "ann")).In(t)
	require.Equal(t, []int64{items[2].ID}, discarded)
	states := func() (states []string) {
		letters := must.Get(b.Items(t.Context(), []int64{items[2].ID, items[0].ID, items[1].ID}, nil, false)).In(t)
		for _, l := range letters {
			states = append(states, strings.TrimSpace(l.State+" "+l.ReplayStatus))
		}
		return states
	}
	require.Equal(t, []string{"DISCARDED", "REPLAYED PENDING", "REPLAYED PENDING"}, states(), "in the order of the IDs")
	must.Get(b.CancelItems(t.Context(), []int64{replay.ID}, "ann")).In(t)
	require.Equal(t, []string{"DISCARDED", "OPEN CANCELLED", "REPLAYED PENDING"}, states(),
		"a dead letter whose replay was withdrawn is open again")
}

func TestRetentionIsChangedAndLeavesTheOtherSettingsAlone(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	keep, keepDead := 36*time.Hour, 24*time.Hour
	must.Get(b.ChangeSettings(t.Context(), operate.Patch{"retention": keep.String()}, "me")).In(t)
	must.Get(b.ChangeSettings(t.Context(), operate.Patch{"dead_letter_retention": keepDead.String()}, "me")).In(t)
	settings := must.Get(b.ChangeSettings(t.Context(), operate.Patch{}, "me")).In(t)
	require.Equal(t, operate.Settings{MaxClaims: 100, Retention: &keep, DeadLetterRetention: &keepDead, ResultBytes: 4096},
		settings.Is)
	change := must.Get(b.ChangeSettings(t.Context(), operate.Patch{"retention": nil}, "me")).In(t)
	require.Equal(t, operate.SettingsChange{
		Is:  operate.Settings{MaxClaims: 100, DeadLetterRetention: &keepDead, ResultBytes: 4096},
		Was: operate.Settings{MaxClaims: 100, Retention: &keep, DeadLetterRetention: &keepDead, ResultBytes: 4096},
	}, change)

	b.Buried(2, "it broke")
	deleted := must.Get(b.DeleteFinished(t.Context(), 100)).In(t)
	require.Equal(t, sweeper.Deleted{}, deleted)
}

func TestASearchOfDeadLettersExaminesABoundedNumberAndGoesOn(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	items := b.Claimed(7)
	for n, item := range items {
		text := "loud"
		if n%3 == 0 {
			text = "rare"
		}
		must.Get(b.Settle(t.Context(), claim.Fail, []claim.Settlement{{ID: item.ID, Token: item.Token, Error: text}})).In(t)
	}
	// That all failed at once must not keep the search from going on.
	b.Execute("update pgdispatch.workflow_execution_queue set finished_at = date_trunc('hour', finished_at)")
	filter, pages, seen := operate.DeadFilter{Filter: operate.Filter{Error: "rare"}}, 0, []int64{}
	for ; pages < 10; pages++ {
		ids, next, err := b.SearchDeadLetters(t.Context(), filter, 2, 5)
		require.NoError(t, err)
		require.LessOrEqual(t, len(ids), 2)
		seen = append(seen, ids...)
		if filter.After = next; next == nil {
			break
		}
	}
	require.Equal(t, 3, pages, "two at a time")
	require.Len(t, seen, 3)
	require.IsDecreasing(t, seen)
	ids, next, err := b.SearchDeadLetters(t.Context(), operate.DeadFilter{}, 5, 2)
	require.NoError(t, err)
	require.Len(t, ids, 2)
	require.Nil(t, next, "a full page goes on after its last letter")
}

func TestWhereASearchOfAWorkspaceGoesOnTellsNothingOfOthers(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	mine, other := b.NewWorkspace("mine", 100), b.NewWorkspace("other", 100)
	for _, workspace := range []string{mine, other} {
		b.Insert(workspace, 3)
		batch := must.Get(b.Claim(t.Context(), 3)).In(t)
		for _, item := range batch.Items {
			b.Ends(claim.Fail, claim.Settlement{ID: item.ID, Token: item.Token, Error: "no"})
		}
		b.Execute("update pgdispatch.workflow_execution_queue set finished_at = finished_at - interval '1 hour'")
	}
	within, found := b.Within([]string{mine}), []int64{}
	for next := (*operate.DeadKey)(nil); ; {
		ids, after, err := within.SearchDeadLetters(t.Context(), operate.DeadFilter{After: next}, 2, 10)
		require.NoError(t, err)
		if found = append(found, ids...); after == nil {
			break
		}
		require.Zero(t, after.ID)
		require.Zero(t, after.FailedAt.Second()+after.FailedAt.Nanosecond(), "no time of an item of another workspace")
		next = after
	}
	require.Len(t, found, 3, "each is found once")
}
