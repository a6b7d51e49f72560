package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
)

func namesOf(rows []operate.WorkspaceRow) (names []string) {
	for _, row := range rows {
		names = append(names, row.Name)
	}
	return names
}

// listed returns all workspaces of a list that is read in pages.
func listed(t *testing.T, s *operate.Store, search string, by operate.WorkspaceOrder, page int) []operate.WorkspaceRow {
	t.Helper()
	var all []operate.WorkspaceRow
	var after *operate.WorkspaceKey
	for {
		rows := must.Get(s.ListWorkspaces(t.Context(), search, by, after, page)).In(t)
		require.LessOrEqual(t, len(rows), page)
		if all = append(all, rows...); len(rows) < page {
			return all
		}
		after = new(rows[len(rows)-1].Key())
	}
}

func TestWorkspacesAreListedInAnyOrderPageByPage(t *testing.T) {
	b := storetest.Open(t)
	busy, late, broken := b.NewWorkspace("busy", 5), b.NewWorkspace("late", 0), b.NewWorkspace("broken", 5)
	for _, item := range b.ClaimedIn(broken, 2) {
		b.Bury(item, "no")
	}
	b.ClaimedIn(busy, 3)
	b.InsertWith(late, 1, "run_at", "now() - interval '1 hour'")
	must.Get(b.Claim(t.Context(), 1)).In(t)

	for by, want := range map[operate.WorkspaceOrder]string{
		operate.ByName: "broken busy late shop", operate.ByRunning: "busy broken late shop",
		operate.ByOldest: "late broken busy shop", operate.ByFailures: "broken busy late shop",
	} {
		require.Equal(t, want, strings.Join(namesOf(listed(t, b.Within(nil), "", by, 1)), " "), by)
		found := must.Get(b.ListWorkspaces(t.Context(), "B", by, nil, 10)).In(t)
		require.ElementsMatch(t, []string{"broken", "busy"}, namesOf(found), by)
		strange := operate.WorkspaceKey{Rank: -1e300, Name: "a", ID: late} // which no page returned
		must.Get(b.ListWorkspaces(t.Context(), "", by, &strange, 10)).In(t)
	}
	found := must.Get(b.ListWorkspaces(t.Context(), "BUS", operate.ByName, nil, 10)).In(t)
	require.Equal(t, []string{"busy"}, namesOf(found))
	require.EqualValues(t, 3, found[0].Claimed)
	require.Nil(t, found[0].OldestWaiting)
	found = must.Get(b.ListWorkspaces(t.Context(), late, operate.ByName, nil, 10)).In(t)
	require.Equal(t, []string{"late"}, namesOf(found), "by its ID")
	require.EqualValues(t, 1, found[0].Waiting)
	require.InDelta(t, time.Hour, *found[0].OldestWaiting, float64(time.Minute))
}

// Some workspaces have room and some do not; all but one wait since the same moment. The pages contain each once.
func TestThoseWhoWaitLongestAreListedPageByPageWhetherTheyHaveRoomOrNot(t *testing.T) {
	b := storetest.Open(t)
	ids := []string{}
	for n := range 12 {
		ids = append(ids, b.NewWorkspace(fmt.Sprint("w", n), n%3))
	}
	b.Execute("update pgdispatch.workspaces set paused = true where id = $1::uuid", ids[5])
	b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() - case when workspace_id = $1::uuid then interval '2 hours' else interval '1 hour' end
		from pgdispatch.workflow_definitions where workspace_id = any ($2::text[]::uuid[])`, ids[4], ids)
	must.Get(b.Claim(t.Context(), 0)).In(t)
	seen := []string{}
	for _, row := range listed(t, b.Within(nil), "", operate.ByOldest, 5) {
		seen = append(seen, row.ID)
	}
	require.Equal(t, ids[4], seen[0], "the longest wait comes first")
	require.ElementsMatch(t, ids, seen[:12])
	require.Len(t, seen, 13, "the shop without items comes last")
}

func TestItemsAreListedByWhateverFiltersThem(t *testing.T) {
	b := storetest.Open(t)
	other := b.NewWorkspace("other", 5)
	b.Dispatched(2)
	b.Claimed(1)
	b.Buried(1, "card 42 refused")
	b.Insert(b.Shop.Shop, 3)
	b.Insert(other, 1)

	count := func(f operate.ItemFilter, status string, workspaces ...string) int {
		t.Helper()
		page := must.Get(b.ListItems(t.Context(), f, status, workspaces, "", 100)).In(t)
		for _, item := range page.Items {
			require.True(t, status == "" || item.Status == status)
		}
		return len(page.Items)
	}
	shop, refused := b.Shop.Shop, operate.ItemFilter{Filter: operate.Filter{Error: "CARD"}}
	require.Equal(t, 8, count(operate.ItemFilter{}, ""))
	require.Equal(t, 2, count(operate.ItemFilter{}, "DISPATCHED"))
	require.Equal(t, 2, count(operate.ItemFilter{}, "DISPATCHED", shop))
	require.Zero(t, count(operate.ItemFilter{}, "DISPATCHED", other))
	require.Equal(t, 1, count(operate.ItemFilter{}, "CLAIMED", shop))
	require.Equal(t, 4, count(operate.ItemFilter{}, "PENDING"))
	require.Equal(t, 1, count(operate.ItemFilter{}, "PENDING", other))
	require.Equal(t, 4, count(operate.ItemFilter{}, "PENDING", other, shop))
	require.Equal(t, 1, count(refused, "FAILED"))
	require.Equal(t, 1, count(refused, ""))
	require.Zero(t, count(operate.ItemFilter{Filter: operate.Filter{Error: "%"}}, "FAILED"), "the filter is literal text")
	hour := operate.Moment{Ago: new(time.Hour)}
	require.Equal(t, 8, count(operate.ItemFilter{Filter: operate.Filter{Since: hour}}, ""))
	require.Zero(t, count(operate.ItemFilter{Filter: operate.Filter{Until: hour}}, ""))

	var seen []int64
	for next := int64(0); ; {
		page := must.Get(b.ListItems(t.Context(), operate.ItemFilter{Before: next}, "", nil, "", 3)).In(t)
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
	b := storetest.Open(t)
	b.Insert(b.Shop.Shop, 1)
	b.Insert(b.NewWorkspace("loud", 1), operate.ItemsLooked)
	list := func(f operate.ItemFilter, status string) operate.ItemPage {
		return must.Get(b.ListItems(t.Context(), f, status, []string{b.Shop.Shop}, "", 10)).In(t)
	}
	page := list(operate.ItemFilter{}, "")
	require.Empty(t, page.Items)
	require.True(t, page.Bounded)
	require.NotZero(t, page.Next)
	page = list(operate.ItemFilter{Before: page.Next}, "")
	require.Len(t, page.Items, 1)
	require.Zero(t, page.Next)
	require.Len(t, list(operate.ItemFilter{}, "PENDING").Items, 1, "found by the index of PENDING items")
}

func TestDeadLettersAreGroupedByWhatTheirErrorsHaveInCommon(t *testing.T) {
	b := storetest.Open(t)
	items := b.Claimed(5)
	for n, item := range items {
		text := fmt.Sprintf("order %d of %s: card refused", n, item.ExecutionID)
		if n == 4 {
			text = "no such customer"
		}
		b.Bury(item, text)
	}
	must.Get(b.Discard(t.Context(), []int64{items[0].ID}, "me")).In(t)
	groups := must.Get(b.DeadGroups(t.Context(), 10)).In(t)
	require.Len(t, groups, 2)
	require.Equal(t, "order … of …: card refused", groups[0].Kind)
	require.EqualValues(t, 3, groups[0].Items, "only open executions")
	require.Equal(t, items[3].ID, groups[0].Newest)
	require.Contains(t, groups[0].Example, items[3].ExecutionID)
	ids := must.Get(b.DeadOfKind(t.Context(), groups[0].Kind, nil, nil, 10)).In(t)
	require.ElementsMatch(t, []int64{items[1].ID, items[2].ID, items[3].ID}, ids)
}

func TestWorkspacesAreFoundByIDNameAndPrefix(t *testing.T) {
	b := storetest.Open(t)
	first, second := b.NewWorkspace("Zürich 1", 1), b.NewWorkspace("Zürich 2", 1)
	b.NewWorkspace("Zug", 1)
	ids := func(found []operate.WorkspaceName, err error) (ids []string) {
		for _, w := range must.Get(found, err).In(t) {
			ids = append(ids, w.ID)
		}
		return ids
	}
	for _, idOrName := range []string{first, strings.ToUpper(first), "Zürich 1"} {
		require.Equal(t, []string{first}, ids(b.FindWorkspaces(t.Context(), idOrName)), idOrName)
	}
	require.Empty(t, ids(b.FindWorkspaces(t.Context(), "Zürich")))
	require.Equal(t, []string{first, second}, ids(b.CompleteWorkspaces(t.Context(), "Zü", 10)))
	require.Equal(t, []string{second}, ids(b.CompleteWorkspaces(t.Context(), "Zürich 2", 10)))
	require.Len(t, ids(b.CompleteWorkspaces(t.Context(), "Z", 2)), 2)
	require.GreaterOrEqual(t, len(ids(b.CompleteWorkspaces(t.Context(), "", 10))), 3)
	require.Empty(t, ids(b.CompleteWorkspaces(t.Context(), "%", 10)))

	comma, twin, other := b.NewWorkspace("Ünï, çø \"x\"", 0), b.NewWorkspace("twin", 0), b.NewWorkspace("twin", 0)
	require.ElementsMatch(t, []string{comma, twin, other},
		ids(b.WorkspacesNamed(t.Context(), []string{comma}, []string{"twin", "nobody", "TWIN"}, 10)))
	require.Equal(t, []string{comma}, ids(b.WorkspacesNamed(t.Context(), nil, []string{"Ünï, çø \"x\""}, 10)))
}

func TestNamesThatMayHaveBeenMeantAreOfOneKindAndInScope(t *testing.T) {
	b := storetest.Open(t)
	wayne, _ := b.NewWorkspace("Wayne Enterprises", 0), b.NewWorkspace("wayne", 0)
	b.Execute("insert into pgdispatch.limits (key, max_concurrent) values ('smtp', 1)")
	b.Execute("update pgdispatch.workflow_definitions set limit_key = 'sms' where workspace_id = $1::uuid", wayne)
	for _, row := range []struct {
		of   operate.Named
		name string
		want operate.Names
	}{
		{operate.NamedWorkspace, "wayne", operate.Names{Known: true}},
		{operate.NamedWorkspace, "WAYNE", operate.Names{Same: []string{"wayne"}, Near: []string{"Wayne Enterprises"}}},
		{operate.NamedWorkspace, "enterprise", operate.Names{Near: []string{"Wayne Enterprises"}}},
		{operate.NamedWorkspace, "smtp", operate.Names{}},
		{operate.NamedKey, "smpp", operate.Names{Near: []string{"smtp"}}},
		{operate.NamedKey, "sms", operate.Names{Known: true}},
	} {
		names := must.Get(b.Names(t.Context(), row.of, row.name)).In(t)
		require.Equal(t, row.want, names, row.name)
	}
	names := must.Get(b.Within([]string{wayne}).Names(t.Context(), operate.NamedWorkspace, "wayn")).In(t)
	require.Equal(t, operate.Names{Near: []string{"Wayne Enterprises"}}, names)
}

// A claim whose answer was lost is not an unanswered start.
func TestUncertainClaims_AreCountedApartFromUnansweredStarts(t *testing.T) {
	b := storetest.Open(t)
	hit := b.NewWorkspace("hit", 5)
	items := b.ClaimedIn(hit, 3)
	b.Ends(claim.Release, claim.Settlement{ID: items[0].ID, Token: items[0].Token, Error: "no answer", Unanswered: true})
	b.Execute(`update pgdispatch.workflow_execution_queue set claimed_at = now() - interval '2 minutes',
		lease_expires_at = now() - interval '1 minute' where status = 'CLAIMED'`)
	b.Execute("select pgdispatch.requeue_expired(10)")
	b.Execute(`update pgdispatch.workflow_executions set first_sent_at = now() - interval '1 hour'
		where queue_item_id = (select max(id) from pgdispatch.workflow_execution_queue)`)

	depth := must.Get(b.QueueDepth(t.Context())).In(t)
	require.EqualValues(t, []int64{1, 2}, []int64{depth.Unanswered, depth.Uncertain})
	require.InDelta(t, time.Hour, *depth.OldestUncertain, float64(time.Minute))
	require.Less(t, *depth.OldestUnanswered, time.Minute)
	rows := must.Get(b.ListWorkspaces(t.Context(), "", operate.ByOldest, nil, 10)).In(t)
	require.EqualValues(t, []int64{1, 2, 3}, []int64{rows[0].Unanswered, rows[0].Uncertain, rows[0].Active()})
	detail, _, err := b.WorkspaceDetail(t.Context(), hit)
	require.NoError(t, err)
	whole, _, err := b.Workspace(t.Context(), hit)
	require.NoError(t, err)
	for _, w := range []operate.Workspace{detail.Workspace, whole} {
		require.EqualValues(t, []int64{1, 2, 3}, []int64{w.Unanswered, w.Uncertain, w.Active()})
		require.InDelta(t, time.Hour, *w.OldestUncertain, float64(time.Minute))
	}

	for status, uncertain := range map[string][]bool{"UNANSWERED": {false}, "UNCERTAIN": {true, true},
		"PENDING": {true, true, false}} {
		page := must.Get(b.ListItems(t.Context(), operate.ItemFilter{}, status, []string{hit}, "", 10)).In(t)
		var got []bool
		for _, item := range page.Items {
			got = append(got, item.Uncertain)
		}
		require.Equal(t, uncertain, got, status)
	}
}

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
	b.InsertWith(b.Shop.Shop, 3, "run_at", "now() + n * interval '1 hour'")
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
