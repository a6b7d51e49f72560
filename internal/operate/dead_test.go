package operate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
)

func TestDeadLettersAreFoundReadReplayedAndDiscarded(t *testing.T) {
	b := storetest.Open(t)
	items := b.Buried(3, "line\nbreak")
	found := func(f operate.Filter, atMost int) []int64 {
		return must.Get(b.FindDeadLetters(t.Context(), operate.DeadFilter{Filter: f}, atMost)).In(t)
	}
	hour := operate.Moment{Ago: new(time.Hour)}
	require.Len(t, found(operate.Filter{Workspace: "shop", Definition: "order", Error: "LINE", Since: hour}, 2), 2)
	require.Empty(t, found(operate.Filter{Until: hour}, 0))

	named := []int64{items[2].ID, items[0].ID, 999}
	letters := must.Get(b.Items(t.Context(), named, []string{items[1].ExecutionID}, false)).In(t)
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
	require.Equal(t, []int64{items[2].ID},
		must.Get(b.Discard(t.Context(), []int64{items[1].ID, items[2].ID}, "ann")).In(t))
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

func TestASearchOfDeadLettersExaminesABoundedNumberAndGoesOn(t *testing.T) {
	b := storetest.Open(t)
	for n, item := range b.Claimed(7) {
		text := "loud"
		if n%3 == 0 {
			text = "rare"
		}
		b.Bury(item, text)
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
	b := storetest.Open(t)
	mine, other := b.NewWorkspace("mine", 100), b.NewWorkspace("other", 100)
	for _, workspace := range []string{mine, other} {
		for _, item := range b.ClaimedIn(workspace, 3) {
			b.Bury(item, "no")
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
