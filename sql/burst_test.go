package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func (f fixture) setBurst(w tenant, most any) {
	f.t.Helper()
	f.exec("update pgdispatch.workspaces set max_burst_workflows = $2 where id = $1", w.workspace, most)
}

func (f fixture) holders(w tenant) int {
	f.t.Helper()
	return one[int](f, `select count(*) from pgdispatch.workflow_execution_queue
		where workspace_id = $1 and stage in ('HOLDS', 'DOUBT')`, w.workspace)
}

func TestAWorkspaceMayGoBeyondItsLimitWhileNoOtherNeedsTheWorkers(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("PRO"), f.tenant("PRO")
	f.setBurst(w, 8)
	f.items(w, 20)
	f.dispatched(f.claimAll(20))
	require.Equal(t, 8, f.holders(w))
	late := f.items(other, 3)
	require.Equal(t, late, f.claimAll(3).ids(), "others come first, and what runs goes on")
	require.Equal(t, 8, f.holders(w))
	require.Empty(t, f.claimAll(20).items)
}

func TestABurstEndsByAttritionAsSoonAsOthersWait(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("PRO"), f.tenant("ENTERPRISE")
	f.setBurst(w, 10)
	f.items(w, 30)
	b := f.claimAll(10)
	require.Len(t, b.items, 10)
	f.dispatched(b)
	f.items(other, 12)
	for _, id := range b.ids()[:5] {
		require.True(t, f.finish(id, "COMPLETED"))
		for _, i := range f.claimAll(2).items {
			require.Equal(t, other.workspace, *i.WorkspaceID)
		}
	}
	require.Equal(t, 5, f.holders(w), "down to its limit, item by item")
	require.Len(t, f.claimAll(7).items, 7)
	require.Equal(t, 10, f.holders(w), "two items of the other were left, and the rest is free again")
}

func TestTheBurstLimitIsThePlansUnlessTheWorkspaceHasItsOwn(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("update pgdispatch.workspace_tiers set max_burst_workflows = 7 where plan = 'PRO'")
	for _, c := range []struct{ own, limit, most any }{
		{nil, nil, 7}, {9, nil, 9}, {0, nil, 5}, {3, nil, 5}, {nil, 8, 8}, {nil, 2, 7}, {9, 0, 0},
	} {
		w := f.tenant("PRO")
		f.setBurst(w, c.own)
		f.exec("update pgdispatch.workspaces set max_concurrent_workflows = $2 where id = $1", w.workspace, c.limit)
		f.items(w, 12)
		f.dispatched(f.claimAll(50))
		require.Equal(t, c.most, f.holders(w), "%+v", c)
		s := f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 9, burst: true}}})
		require.Empty(t, s.ids, "%+v: a claim that asks for a burst", c)
	}
}

func TestABurstLimitAppliesToTheNextClaim(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 20)
	require.Len(t, f.claimAll(20).items, 1)
	f.setBurst(w, 4)
	require.Len(t, f.claimAll(20).items, 3)
	f.setBurst(w, 2)
	require.Empty(t, f.claimAll(20).items, "below what runs")
	f.exec("update pgdispatch.workspace_tiers set max_burst_workflows = 6 where plan = 'FREE'")
	require.Empty(t, f.claimAll(20).items, "its own counts")
	f.setBurst(w, nil)
	require.Len(t, f.claimAll(20).items, 2)
}

// The memory of a replica that has just started reads bursts with everything else.
func TestABurstGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.setBurst(w, 8)
	f.items(w, 20)
	require.Len(t, f.claim(6).items, 5)
	f.forget()
	require.Len(t, f.claim(6).items, 3)
	f.forget()
	require.Empty(t, f.claim(6).items)
}

// Only an entry that asks for it goes beyond the limit: otherwise a replica whose count is too low would take burst
// slots before others have what they need.
func TestAnEntryStaysWithinTheLimitUnlessItAsksForABurst(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.setBurst(w, 8)
	f.items(w, 20)
	require.Len(t, f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 7}}}).ids, 5)
	require.Empty(t, f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 7}}}).ids)
	s := f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 7, burst: true}}})
	require.Len(t, s.ids, 3)
	require.EqualValues(t, 5, s.Entries[0].Slots, "its limit")
	require.EqualValues(t, 8, s.Entries[0].BurstSlots, "its burst limit")
	require.EqualValues(t, 5, *s.counted(0))
}

// Otherwise the memory would never learn that the workspace is within its limit again.
func TestABurstCountsItsHoldersWhateverItsReceipt(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.setBurst(w, 50)
	f.items(w, 20)
	require.Len(t, f.claimAll(7).items, 7)
	p := proposal{epoch: f.epoch(), entries: []entry{
		{workspace: w.workspace, items: 1, burst: true, heldTo: f.lastToken(), held: 1}}}
	require.EqualValues(t, 7, *f.ask(p).counted(0))
}

// One proposal may have entries of a workspace with and without a burst.
func TestEntriesOfAWorkspaceShareItsBurst(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.setBurst(w, 7)
	f.at(w, 1, 0)
	for range 9 {
		f.at(w, 1, 0)
		f.at(w, 0, 0)
	}
	s := f.ask(proposal{entries: []entry{
		{workspace: w.workspace, items: 6, priority: 1}, {workspace: w.workspace, items: 6, burst: true}}})
	require.Equal(t, []int{5, 2}, s.granted())
	require.Len(t, s.ids, 7)
}

func TestBurstsAreExactOverManyClaimers(t *testing.T) {
	t.Parallel()
	f := open(t)
	tenants := []tenant{f.tenant("FREE"), f.tenant("PRO"), f.tenant("PRO")}
	for n, w := range tenants {
		f.setBurst(w, 3+2*n)
		f.items(w, 40)
	}
	f.claimers(4, func(owner string, calls int) (more bool, err error) {
		_, err = f.tryClaimBy(owner, 1+calls%4)
		return calls < 25, err
	})
	for n, w := range tenants {
		require.Equal(t, 3+2*n, f.holders(w))
	}
}

func TestABurstLimitIsRefusedOutsideItsRange(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	for _, most := range []int{-1, 100001} {
		for _, statement := range []string{"update pgdispatch.workspaces set max_burst_workflows = $1 where name <> ''",
			"update pgdispatch.workspace_tiers set max_burst_workflows = $1"} {
			refusal := f.refused(statement, most)
			require.Equal(t, "23514", refusal.Code)
			require.Equal(t, "max_burst_workflows", refusal.ColumnName)
		}
	}
	f.setBurst(w, 100000)
}
