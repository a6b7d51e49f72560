package claim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/must"
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
			must.Get(b.Finish(b.t.Context(), item.ExecutionID, "COMPLETED", "", "")).In(b.t)
		}
		items += len(batch.Items)
		more = batch.More || batch.LookAgainIn == 0
	}
	return items, claims
}

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

func TestALoadOfWhichAPageFailsBeginsAgain(t *testing.T) {
	b := newBench(t)
	b.keyed(b.Shop.Shop, loadQueues+1)
	b.answersWith("waiting_queues", "null::bigint as id", "1 / (after_priority * 0)::bigint as id")
	_, err := b.Claim(t.Context(), 1)
	require.ErrorContains(t, err, "22012")
	b.answersWith("waiting_queues", "null::bigint as id", "null::bigint as id")
	require.Zero(t, b.claim(1).Unannounced, "all of them are news")
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

// Any session can notify. Whatever it sends, the memory stays small, and what a payload does not name is looked for.
func FuzzNotification(f *testing.F) {
	for _, payload := range []string{"", "1", "1:0:0", "1:5:1764100000000000,1:-5:0", "2:0:0", "1:101:0", "1:-101:1",
		"1:0:9223372036854775807", "1:0:-9223372036854775808", "-1", "0", "1:0", "1:0:0:0", ",,", "1:9223372036854775807:0"} {
		f.Add(payload)
	}
	var many []string
	for priority := range 1000 {
		many = append(many, fmt.Sprintf("1:%d:1764100000000000", priority))
	}
	f.Add(strings.Join(many, ","))
	f.Fuzz(func(t *testing.T, payload string) {
		now := time.Now()
		known := schedule.WorkspaceID{1}
		m := &memory{}
		waits := schedule.Waiting{Workspace: known, Number: 1, Limit: 5, From: schedule.Position{Due: now}}
		m.schedule.Load([]schedule.Waiting{waits}, schedule.Changed{})
		named := m.applyNotifications([]string{payload})
		workspaces, levels := m.schedule.Workspaces()
		require.Equal(t, 1, workspaces, "no payload adds a workspace")
		require.LessOrEqual(t, levels, 201, "a level for each priority that an item can have")
		p := m.schedule.Propose(now, schedule.Want{Free: 10})
		require.NotEmpty(t, p.Entries, "what is known to wait is asked for")
		if named {
			require.Regexp(t, "^[-+0-9:,]+$", payload)
		}
	})
}
