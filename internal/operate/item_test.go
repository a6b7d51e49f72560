package operate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestThoseWhoAreClaimedBeforeAnItemAreCounted(t *testing.T) {
	b := storetest.Open(t)
	b.Insert(b.Shop.Shop, 5)
	last := sqltest.Scalar[int64](b.Shop, "select max(id) from pgdispatch.workflow_execution_queue")
	ahead := func() int64 { return must.Get(b.Ahead(t.Context(), last)).In(t) }
	require.EqualValues(t, 4, ahead())
	b.Execute("update pgdispatch.workflow_execution_queue set priority = 5 where id = $1", last)
	require.Zero(t, ahead())
	b.Execute(`update pgdispatch.workflow_execution_queue set priority = 9, run_at = now() + interval '1 hour'
		where id = (select min(id) from pgdispatch.workflow_execution_queue)`)
	require.Zero(t, ahead(), "the item is not due")
	b.Execute("update pgdispatch.workflow_execution_queue set run_at = now() - interval '1 hour' where priority = 9")
	require.EqualValues(t, 1, ahead())
}

func TestAnItemsChangesAreThoseThatNameIt(t *testing.T) {
	b := storetest.Open(t)
	dead := b.Buried(3, "it broke")
	replayed := must.Get(b.ReplayAll(t.Context(), []int64{dead[0].ID, dead[1].ID}, "anna")).In(t)
	must.Get(b.Discard(t.Context(), []int64{dead[2].ID}, "ben")).In(t)
	changes := func(item int64) []operate.Administered { return must.Get(b.ChangesOf(t.Context(), item)).In(t) }
	for _, item := range []int64{dead[1].ID, replayed[1].ReplayID} {
		found := changes(item)
		require.Len(t, found, 1)
		require.Equal(t, "anna", found[0].Who)
		require.Equal(t, "dead replay", found[0].Action)
	}
	require.Equal(t, "ben", changes(dead[2].ID)[0].Who)
	require.JSONEq(t, "{}", string(changes(dead[2].ID)[0].Details))
}

// end adds items that have ended.
func end(b *storetest.Bench, workspace, status string, items int) {
	b.Execute(`insert into pgdispatch.workflow_execution_queue
			(workspace_id, workflow_definition_id, status, claimed_at, dispatched_at, finished_at, last_error)
		select workspace_id, id, $2, started, started, now(), 'no'
		from pgdispatch.workflow_definitions
		cross join lateral (select case when $2 <> 'CANCELLED' then now() end as started) s, generate_series(1, $3)
		where workspace_id = $1::uuid`, workspace, status, items)
}

func TestEndedItemsAreCountedExactlyUpToABoundAndEstimatedBeyondIt(t *testing.T) {
	b := storetest.Open(t)
	shop, other := b.Shop.Shop, b.NewWorkspace("other", 5)
	b.Execute("alter table pgdispatch.workflow_execution_queue disable trigger user")
	b.Execute("alter table pgdispatch.workflow_execution_queue set (autovacuum_enabled = off)")
	count := func(workspaces ...string) map[string]operate.EndedCount {
		t.Helper()
		by := map[string]operate.EndedCount{}
		for _, c := range must.Get(b.EndedItems(t.Context(), workspaces)).In(t) {
			by[c.Status] = c
		}
		return by
	}
	end(b, shop, "COMPLETED", 5)
	end(b, shop, "FAILED", 2)
	end(b, shop, "CANCELLED", 1)
	end(b, other, "FAILED", 4)
	end(b, other, "COMPLETED", 3)
	all, mine := count(), count(shop)
	for status, n := range map[string][]int64{"COMPLETED": {8, 5}, "FAILED": {6, 2}, "CANCELLED": {1, 1}} {
		require.Equal(t, operate.EndedCount{Status: status, Items: n[0], Exact: true}, all[status])
		require.Equal(t, operate.EndedCount{Status: status, Items: n[1], Exact: true}, mine[status])
	}
	require.Zero(t, count([]string{}...)["FAILED"].About)

	end(b, other, "COMPLETED", operate.DepthLimit)
	b.Execute("vacuum analyze pgdispatch.workflow_execution_queue")
	all, mine = count(), count(shop)
	require.Equal(t, []any{int64(6), true}, []any{all["FAILED"].Items, all["FAILED"].Exact}, "these have an index")
	require.False(t, all["COMPLETED"].Exact)
	require.InDelta(t, operate.DepthLimit+8, *all["COMPLETED"].About, 10)
	require.Equal(t, operate.EndedCount{Status: "COMPLETED"}, mine["COMPLETED"], "neither counted nor estimated")
	require.Equal(t, operate.EndedCount{Status: "FAILED", Items: 2, Exact: true}, mine["FAILED"])

	end(b, shop, "FAILED", 100)
	end(b, other, "FAILED", operate.CountLimit-50)
	b.Execute("vacuum analyze pgdispatch.workflow_execution_queue")
	require.Equal(t, operate.EndedCount{Status: "FAILED", Items: 50}, count(shop)["FAILED"], "among the newest")
	require.Equal(t, []any{int64(1056), true}, []any{count()["FAILED"].Items, count()["FAILED"].Exact})

	end(b, other, "FAILED", operate.DepthLimit)
	b.Execute("vacuum analyze pgdispatch.workflow_execution_queue")
	require.False(t, count()["FAILED"].Exact)
	require.InDelta(t, operate.DepthLimit+1056, *count()["FAILED"].About, 200)
	require.Equal(t, operate.EndedCount{Status: "FAILED"}, count(shop)["FAILED"], "older than the failures looked at")
}

func TestTextThatIsNoJSONIsRefusedByLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                 `line 1: it is not JSON`,
		"{\n\"nodes\": [}": `line 2: it is not JSON`,
		`{"nodes": []} {}`: `it is not JSON`,
		"[\n\"a\\u0000\"]": `line 2: the text "a\x00" has the character \u0000`,
	} {
		require.ErrorContains(t, operate.CheckJSON([]byte(text)), want, "%q", text)
	}
	require.NoError(t, operate.CheckJSON([]byte(` {"title": "\\u0000"} `)))
}
