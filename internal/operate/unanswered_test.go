package operate_test

import (
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/stretchr/testify/require"
)

func TestUnansweredStartsAreCountedWithTheirAgeWhereverAWorkspaceIsShown(t *testing.T) {
	b := storetest.Open(t)
	b.NewWorkspace("calm", 5)
	hit := b.NewWorkspace("hit", 5)
	for _, item := range b.ClaimedIn(hit, 3) {
		b.Ends(claim.Retry, claim.Settlement{ID: item.ID, Token: item.Token, Delay: time.Minute, Unanswered: true})
	}
	b.Execute(`update pgdispatch.workflow_executions set first_sent_at = now() - interval '1 hour'
		where queue_item_id = (select min(id) from pgdispatch.workflow_execution_queue where stage = 'DOUBT')`)
	b.Insert(b.Shop.Shop, 2)

	depth := must.Get(b.QueueDepth(t.Context())).In(t)
	require.EqualValues(t, []int64{2, 3}, []int64{depth.Pending, depth.Unanswered})
	require.InDelta(t, time.Hour, *depth.OldestUnanswered, float64(time.Minute))

	rows := must.Get(b.ListWorkspaces(t.Context(), "", operate.ByOldest, nil, 10)).In(t)
	require.Equal(t, "hit", rows[0].Name, "it has waited longest")
	require.EqualValues(t, []int64{0, 3, 3}, []int64{rows[0].Waiting, rows[0].Unanswered, rows[0].Active()})
	require.InDelta(t, time.Hour, *rows[0].OldestUnanswered, float64(time.Minute))
	require.Zero(t, rows[1].Unanswered)
	require.Nil(t, rows[1].OldestUnanswered)

	detail, found, err := b.WorkspaceDetail(t.Context(), hit)
	require.NoError(t, err)
	require.True(t, found)
	whole, found, err := b.Workspace(t.Context(), hit)
	require.NoError(t, err)
	require.True(t, found)
	for _, w := range []operate.Workspace{detail.Workspace, whole} {
		require.EqualValues(t, []int64{0, 3, 3}, []int64{w.Waiting, w.Unanswered, w.Active()})
		require.InDelta(t, time.Hour, *w.OldestUnanswered, float64(time.Minute))
		require.False(t, w.Full())
	}
	statistics := must.Get(b.WorkspaceStatistics(t.Context(), 1)).In(t)
	require.EqualValues(t, []int64{0, 3}, []int64{statistics[0].Waiting, statistics[0].Unanswered})

	for workspace, n := range map[string]int{hit: 3, b.Shop.Shop: 0} {
		page := must.Get(b.ListItems(t.Context(), operate.ItemFilter{}, "UNANSWERED", []string{workspace}, "", 10)).In(t)
		require.Len(t, page.Items, n)
	}
}

func TestScheduledItemsHaveACountAndAListOfTheirOwn(t *testing.T) {
	b := storetest.Open(t)
	b.Insert(b.Shop.Shop, 2)
	b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() + n * interval '1 hour' from pgdispatch.workflow_definitions, generate_series(1, 3) n`)
	for of, workspaces := range map[string][]string{"all": nil, "one": {b.Shop.Shop}} {
		depth := must.Get(b.Within(workspaces).Overview(t.Context())).In(t)
		require.EqualValues(t, []int64{2, 3}, []int64{depth.Depth.Pending, depth.Depth.Scheduled}, of)
		require.True(t, depth.Depth.ScheduledExact, of)
		for status, n := range map[string]int{"PENDING": 2, "SCHEDULED": 3} {
			page := must.Get(b.ListItems(t.Context(), operate.ItemFilter{}, status, workspaces, "", 10)).In(t)
			require.Len(t, page.Items, n, "%s of %s", status, of)
		}
	}
	row := must.Get(b.WorkspacesOf(t.Context(), []string{b.Shop.Shop})).In(t)
	detail, _, err := b.WorkspaceDetail(t.Context(), b.Shop.Shop)
	require.NoError(t, err)
	listed, _, err := b.Workspace(t.Context(), b.Shop.Shop)
	require.NoError(t, err)
	for _, w := range []operate.Workspace{detail.Workspace, listed,
		{Waiting: row[0].Waiting, Scheduled: row[0].Scheduled, OldestWaiting: row[0].OldestWaiting}} {
		require.EqualValues(t, []int64{2, 3}, []int64{w.Waiting, w.Scheduled})
		require.Less(t, *w.OldestWaiting, time.Minute)
	}
}
