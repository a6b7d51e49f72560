package claim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keyed inserts items with as many limit keys into a workspace, in one transaction.
func (b *bench) keyed(workspace string, items int) {
	b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key)
		select d.workspace_id, d.id, 'key ' || n from pgdispatch.workflow_definitions d, generate_series(1, $2) n
		where d.workspace_id = $1`, workspace, items)
}

// drains claims and ends until nothing is left, and returns how many items it got and in how many claims.
func (b *bench) drains() (items, claims int) {
	for more := true; more; claims++ {
		batch := b.claim(100)
		require.Zero(b.t, batch.Unannounced)
		for _, item := range batch.Items {
			b.settle(Dispatched, settlementOf(item, Dispatched))
			_, err := b.Finish(b.t.Context(), item.ExecutionID, "COMPLETED", "", "")
			require.NoError(b.t, err)
		}
		items += len(batch.Items)
		more = batch.More || batch.LookAgainIn == 0
	}
	return items, claims
}

// A look reads some of what a transaction has enqueued, and later looks the rest.
func TestAGreatTransactionIsReadInPages(t *testing.T) {
	b := newBench(t)
	other := b.NewWorkspace("other", 5)
	b.claimed(1)
	b.keyed(b.Shop.Shop, mostArrivals+100)
	b.Insert(other, 1)
	batch := b.claim(5)
	require.Len(t, b.memory.unread, 1)
	require.Zero(t, batch.LookAgainIn)
	require.True(t, slices.ContainsFunc(batch.Items, func(i Item) bool { return i.WorkspaceID == other }))
	got, claims := b.drains()
	require.Equal(t, mostArrivals+100+1, len(batch.Items)+got)
	require.Greater(t, claims, mostArrivals/pageQueues-1)
	require.Zero(t, b.aMinuteLater(Wanted{AtMost: 5}).Unannounced)
}

func TestManyWorkspacesThatArriveAtOnceAreReadInPages(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	b.Execute(`with w as (
			insert into pgdispatch.workspaces (name) select 'tenant ' || n from generate_series(1, 1200) n returning id
		), d as (
			insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
			select w.id, 'report', 'Report', 'reports' from w returning id, workspace_id
		)
		insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select d.id, 1, '{"nodes": []}' from d`)
	b.enqueue("priority", "0")
	got, claims := b.drains()
	require.Equal(t, 1201, got)
	require.Less(t, claims, 25)
	require.Empty(t, b.memory.unread)
}

func TestManySmallTransactionsAreReadAtOnce(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	b.Execute(`do $$
		begin
			for n in 1 .. 1010 loop
				insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
				select d.workspace_id, d.id from pgdispatch.workflow_definitions d;
				commit;
			end loop;
		end $$`)
	other := b.NewWorkspace("other", 5)
	b.Insert(other, 1)
	batch := b.claim(2)
	require.Empty(t, b.memory.unread)
	require.True(t, slices.ContainsFunc(batch.Items, func(i Item) bool { return i.WorkspaceID == other }))
	got, _ := b.drains()
	require.Equal(t, 1011, got+len(batch.Items))
}

// A key that is full is not asked for: the page says so.
func TestFullKeysThatArriveAtOnceAreNotAskedFor(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	b.Execute("insert into pgdispatch.limits (key, max_concurrent) select 'key ' || n, 0 from generate_series(1, 1100) n")
	b.keyed(b.Shop.Shop, 1100)
	asked := 0
	for more := true; more; {
		batch := b.claim(100)
		require.Empty(t, batch.Items)
		asked += batch.Asked
		more = batch.More || batch.LookAgainIn == 0
	}
	require.LessOrEqual(t, asked, pageQueues)
	b.Execute("delete from pgdispatch.limits")
	got, _ := b.drains()
	require.Equal(t, 1100, got)
}

// A compare reads what waits before it reads what has changed.
func TestAnItemThatAnotherReplicaClaimsDuringACompareIsNotMissed(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	b.Insert(b.Shop.Shop, 1)
	require.Zero(t, b.compares(func() { require.Len(t, b.with(b.replica("b")).claim(1).Items, 1) }))
	b.hidden(b.Shop.Shop, 0, -time.Minute, "3")
	require.Equal(t, 1, b.aMinuteLater(Wanted{AtMost: 0}).Unannounced)
}
