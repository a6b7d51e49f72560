package operate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
)

// twoTenants has a workspace "mine" and others, all with items in each state.
func twoTenants(t *testing.T) (b *storetest.Bench, mine, other string) {
	b = storetest.New(t)
	mine, other = b.NewWorkspace("mine", 10), b.NewWorkspace("other", 10)
	sizes := map[string]int{mine: 1, other: 3}
	for workspace, items := range sizes {
		for _, verb := range []claim.Verb{claim.Fail, claim.Dispatched, claim.Release} {
			for _, item := range b.ClaimedIn(workspace, items) {
				if verb != claim.Release { // these stay claimed
					b.Ends(verb, claim.Settlement{ID: item.ID, Token: item.Token, Error: "no " + workspace,
						RunID: "run-" + item.ExecutionID})
				}
			}
		}
		b.Execute(`insert into pgdispatch.stalls (kind, namespace, name, executions, detail)
			select 'EXECUTION', '', id::text, 1, 'panic' from pgdispatch.workflow_executions
			where workspace_id = $1::uuid and status = 'RUNNING'`, workspace)
	}
	for workspace, items := range sizes {
		b.InsertWith(workspace, items, "run_at",
			"now() - case workspace_id when $3::uuid then interval '1 minute' else interval '1 hour' end", mine)
		b.Execute(`insert into pgdispatch.parked_items (item_id, error, attempts, try_at)
			select id, 'parked in ' || workspace_id, attempt_count, now() + interval '1 year'
			from pgdispatch.workflow_execution_queue
			where workspace_id = $1::uuid and status = 'PENDING'`, workspace)
	}
	b.Execute("insert into pgdispatch.stalls values ('TASK_QUEUE', '', 'orders', 4, 'no poller')")
	b.Alive()
	return b, mine, other
}

func TestAnOverviewOfSomeWorkspacesCountsTheirItemsOnly(t *testing.T) {
	t.Parallel()
	b, mine, other := twoTenants(t)
	for workspaces, n := range map[string]int64{mine: 1, other: 3, mine + " " + other: 4, "": 0} {
		o := must.Get(b.Within(strings.Fields(workspaces)).Overview(t.Context())).In(t)
		d := o.Depth
		require.Equal(t, []int64{n, n, n, n, n, n}, []int64{d.Pending, d.Claimed, d.Dispatched, d.DeadLetters, d.Failing,
			d.Parked})
		require.Len(t, o.Stalled, int(n), "no task queue")
		require.Zero(t, d.IdleQueues+d.WithoutPoller)
		require.Equal(t, int64(1), d.Replicas)
		require.Equal(t, []operate.Replica{{}}, o.Replicas, "of which nothing else is told")
		require.Empty(t, o.Minutes)
		require.Equal(t, n == 0, d.OldestWaiting == nil)
	}
	o := must.Get(b.Within([]string{mine}).Overview(t.Context())).In(t)
	require.Less(t, o.Depth.OldestWaiting.Minutes(), 30.0, "it is not that of the other")
	require.Contains(t, o.Depth.ParkedFirst, mine)
	require.Len(t, must.Get(b.Overview(t.Context())).In(t).Stalled, 5)
}

func TestListsOfSomeWorkspacesHaveNoOthers(t *testing.T) {
	t.Parallel()
	b, mine, other := twoTenants(t)
	empty := b.NewWorkspace("nothing", 0)
	for by, want := range map[operate.WorkspaceOrder]string{operate.ByName: "mine nothing other",
		operate.ByRunning: "other mine nothing", operate.ByOldest: "other mine nothing",
		operate.ByFailures: "other mine nothing",
	} {
		require.Equal(t, want, strings.Join(namesOf(listed(t, b.Within([]string{mine, other, empty}), "", by, 1)), " "), by)
		rows := must.Get(b.Within([]string{mine, empty}).ListWorkspaces(t.Context(), "O", by, nil, 10)).In(t)
		require.Equal(t, []string{"nothing"}, namesOf(rows), by)
	}
	whole := must.Get(b.ListWorkspaces(t.Context(), "mine", operate.ByName, nil, 10)).In(t)
	rows := must.Get(b.Within([]string{mine}).ListWorkspaces(t.Context(), "", operate.ByName, nil, 10)).In(t)
	require.NotNil(t, rows[0].OldestWaiting)
	whole[0].OldestWaiting, rows[0].OldestWaiting = nil, nil
	require.Equal(t, whole, rows, "with the same figures")

	groups := must.Get(b.Within([]string{mine}).DeadGroups(t.Context(), 10)).In(t)
	require.Len(t, groups, 1)
	require.Equal(t, []int64{1, 1}, []int64{groups[0].Items, groups[0].Workspaces})
	ofKind := must.Get(b.DeadOfKind(t.Context(), groups[0].Kind, []string{mine}, nil, 10)).In(t)
	found := must.Get(b.FindDeadLetters(t.Context(), operate.DeadFilter{Workspaces: []string{mine}}, 10)).In(t)
	require.Equal(t, []int64{groups[0].Newest}, ofKind)
	require.Equal(t, ofKind, found)
}
