package claim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func namesOf(rows []WorkspaceRow) (names []string) {
	for _, row := range rows {
		names = append(names, row.Name)
	}
	return names
}

func TestWorkspacesAreListedInAnyOrderPageByPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	busy, late, broken := b.workspace("busy", 5), b.workspace("late", 0), b.workspace("broken", 5)
	b.enqueue(busy, 3)
	b.enqueue(broken, 2)
	batch, err := b.Claim(t.Context(), 5)
	require.NoError(t, err)
	for _, item := range batch.Items {
		if item.WorkspaceID == broken {
			_, err := b.Settle(t.Context(), Fail, []Settlement{{ID: item.ID, Token: item.Token, Error: "no"}})
			require.NoError(t, err)
		}
	}
	b.execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() - interval '1 hour' from pgdispatch.workflow_definitions where workspace_id = $1::uuid`, late)
	_, err = b.Claim(t.Context(), 1)
	require.NoError(t, err)

	for by, want := range map[WorkspaceOrder]string{
		ByName: "broken busy late shop", ByRunning: "busy broken late shop", ByOldest: "late broken busy shop", ByFailures: "broken busy late shop",
	} {
		var names []string
		var after *WorkspaceKey
		for range 4 {
			page, err := b.ListWorkspaces(t.Context(), "", by, after, 1)
			require.NoError(t, err)
			require.Len(t, page, 1, by)
			names = append(names, page[0].Name)
			key := page[0].Key()
			after = &key
		}
		require.Equal(t, want, strings.Join(names, " "), by)
		last, err := b.ListWorkspaces(t.Context(), "", by, after, 1)
		require.NoError(t, err)
		require.Empty(t, last)
	}
	for _, by := range []WorkspaceOrder{ByName, ByRunning, ByOldest, ByFailures} {
		found, err := b.ListWorkspaces(t.Context(), "B", by, nil, 10)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"broken", "busy"}, namesOf(found), by)
		strange := WorkspaceKey{Rank: -1e300, Name: "a", ID: late}
		_, err = b.ListWorkspaces(t.Context(), "", by, &strange, 10)
		require.NoError(t, err, "a place that nobody has been shown")
	}
	found, err := b.ListWorkspaces(t.Context(), "BUS", ByName, nil, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"busy"}, namesOf(found))
	require.EqualValues(t, 3, found[0].Claimed)
	require.Nil(t, found[0].OldestWaiting)
	found, err = b.ListWorkspaces(t.Context(), late, ByName, nil, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"late"}, namesOf(found), "by its ID")
	require.EqualValues(t, 1, found[0].Waiting)
	require.InDelta(t, time.Hour, *found[0].OldestWaiting, float64(time.Minute))
}

// Some have room and some have not, all since the same moment but one; the pages have everyone once.
func TestThoseWhoWaitLongestAreListedPageByPageWhetherTheyHaveRoomOrNot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := []string{}
	for n := range 12 {
		ids = append(ids, b.workspace(fmt.Sprint("w", n), n%3))
	}
	b.execute("update pgdispatch.workspaces set paused = true where id = $1::uuid", ids[5])
	b.execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() - case when workspace_id = $1::uuid then interval '2 hours' else interval '1 hour' end
		from pgdispatch.workflow_definitions where workspace_id = any ($2::text[]::uuid[])`, ids[4], ids)
	_, err := b.Claim(t.Context(), 0)
	require.NoError(t, err)
	seen := []string{}
	var after *WorkspaceKey
	for {
		page, err := b.ListWorkspaces(t.Context(), "", ByOldest, after, 5)
		require.NoError(t, err)
		for _, row := range page {
			seen = append(seen, row.ID)
			key := row.Key()
			after = &key
		}
		if len(page) < 5 {
			break
		}
	}
	require.Equal(t, ids[4], seen[0], "it waits longest")
	require.ElementsMatch(t, ids, seen[:12])
	require.Len(t, seen, 13, "the shop, which has nothing, comes last")
}

func TestItemsAreListedByWhateverFiltersThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.workspace("other", 5)
	running := b.dispatched(b.Store, 2)
	claimed := b.claimed(b.Store, 1)
	dead := b.claimed(b.Store, 1)
	_, err := b.Settle(t.Context(), Fail, []Settlement{{ID: dead[0].ID, Token: dead[0].Token, Error: "card 42 refused"}})
	require.NoError(t, err)
	b.enqueue(b.shop, 3)
	b.enqueue(other, 1)

	count := func(f ItemFilter, status string, workspaces ...string) int {
		t.Helper()
		page, err := b.ListItems(t.Context(), f, status, workspaces, nil, 100)
		require.NoError(t, err)
		for _, item := range page.Items {
			require.True(t, status == "" || item.Status == status)
		}
		return len(page.Items)
	}
	require.Equal(t, 8, count(ItemFilter{}, ""))
	require.Equal(t, len(running), count(ItemFilter{}, "DISPATCHED"))
	require.Equal(t, len(running), count(ItemFilter{}, "DISPATCHED", b.shop))
	require.Zero(t, count(ItemFilter{}, "DISPATCHED", other))
	require.Equal(t, len(claimed), count(ItemFilter{}, "CLAIMED", b.shop))
	require.Equal(t, 4, count(ItemFilter{}, "PENDING"))
	require.Equal(t, 1, count(ItemFilter{}, "PENDING", other))
	require.Equal(t, 4, count(ItemFilter{}, "PENDING", other, b.shop))
	require.Equal(t, 1, count(ItemFilter{Error: "CARD"}, "FAILED"))
	require.Equal(t, 1, count(ItemFilter{Error: "CARD"}, ""))
	require.Zero(t, count(ItemFilter{Error: "%"}, "FAILED"), "it is text and no pattern")
	hour := time.Hour
	require.Equal(t, 8, count(ItemFilter{Since: Moment{Ago: &hour}}, ""))
	require.Zero(t, count(ItemFilter{Until: Moment{Ago: &hour}}, ""))
	page, err := b.ListItems(t.Context(), ItemFilter{}, "", nil, []string{"00000000-0000-0000-0000-000000000000"}, 10)
	require.NoError(t, err)
	require.Empty(t, page.Items)

	var seen []int64
	for next := int64(0); ; {
		page, err := b.ListItems(t.Context(), ItemFilter{Before: next}, "", nil, nil, 3)
		require.NoError(t, err)
		for _, item := range page.Items {
			seen = append(seen, item.ID)
		}
		if next = page.Next; next == 0 {
			break
		}
	}
	require.Len(t, seen, 8)
	require.IsDecreasing(t, seen)
}

func TestASearchThatFindsLittleLooksAtABoundedNumberAndGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(b.shop, 1)
	b.enqueue(b.workspace("loud", 1), itemsLooked)
	page, err := b.ListItems(t.Context(), ItemFilter{}, "", []string{b.shop}, nil, 10)
	require.NoError(t, err)
	require.Empty(t, page.Items)
	require.True(t, page.Bounded)
	require.NotZero(t, page.Next)
	page, err = b.ListItems(t.Context(), ItemFilter{Before: page.Next}, "", []string{b.shop}, nil, 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Zero(t, page.Next)
	page, err = b.ListItems(t.Context(), ItemFilter{}, "PENDING", []string{b.shop}, nil, 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 1, "by the index of what waits, at once")
}

func TestDeadLettersAreGroupedByWhatTheirErrorsHaveInCommon(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	items := b.claimed(b.Store, 5)
	for n, item := range items {
		text := fmt.Sprintf("order %d of %s: card refused", n, item.ExecutionID)
		if n == 4 {
			text = "no such customer"
		}
		_, err := b.Settle(t.Context(), Fail, []Settlement{{ID: item.ID, Token: item.Token, Error: text}})
		require.NoError(t, err)
	}
	_, err := b.Discard(t.Context(), []int64{items[0].ID}, "me")
	require.NoError(t, err)
	groups, err := b.DeadGroups(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, groups, 2)
	require.Equal(t, "order … of …: card refused", groups[0].Kind)
	require.EqualValues(t, 3, groups[0].Items, "of those that are open")
	require.Equal(t, items[3].ID, groups[0].Newest)
	require.Contains(t, groups[0].Example, items[3].ExecutionID)
	ids, err := b.DeadOfKind(t.Context(), groups[0].Kind, nil, 10)
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{items[1].ID, items[2].ID, items[3].ID}, ids)
}
