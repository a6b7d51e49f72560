package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlanLimitsWhatAWorkspaceHolds(t *testing.T) {
	f := open(t)
	f.exec("insert into pgdispatch.workspace_tiers values ('TEAM_2', 7)")
	for plan, limit := range map[string]int{"FREE": 1, "PRO": 5, "ENTERPRISE": 20, "TEAM_2": 7} {
		w := f.tenant(plan)
		f.items(w, limit+5)
		first := f.claim(100)
		require.Len(t, first.Items, limit, plan)
		require.False(t, first.More, "items of a full workspace do not count as more")
		require.Empty(t, f.claim(100).Items, plan)
		f.dispatched(first)
		require.Empty(t, f.claim(100).Items, "a running workflow holds its slot")
		require.True(t, f.finish(first.Items[0].ID, "FAILED"))
		require.Len(t, f.claim(100).Items, 1, "one slot was freed")
	}
}

func TestOverrideCountsInsteadOfThePlan(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.items(w, 20)
	override := func(limit any) {
		f.exec("update pgdispatch.workspaces set max_concurrent_workflows = $2 where id = $1", w.workspace, limit)
	}
	override(0)
	require.Empty(t, f.claim(100).Items, "a limit of 0 starts nothing")
	override(3)
	require.Len(t, f.claim(100).Items, 3)
	override(4)
	require.Len(t, f.claim(100).Items, 1, "a raised limit applies to the next claim")
	override(nil)
	require.Empty(t, f.claim(100).Items, "back to the plan's 1, with 4 held")
	override(2)
	require.Empty(t, f.claim(100).Items, "a limit below the number held frees nothing and grants nothing")
	override(100000)
	require.Len(t, f.claim(100).Items, 16)
}

func TestTierCanChangeWhileItemsRun(t *testing.T) {
	f := open(t)
	a, b, exempt := f.tenant("FREE"), f.tenant("FREE"), f.tenant("FREE")
	f.setWorkspace(exempt, "max_concurrent_workflows = 1")
	for _, w := range []tenant{a, b, exempt} {
		f.items(w, 5)
	}
	require.Len(t, f.claim(100).Items, 3)
	f.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 2 where plan = 'FREE'")
	require.Len(t, f.claim(100).Items, 2, "one more for each workspace on the plan's limit")
	f.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 0 where plan = 'FREE'")
	require.Empty(t, f.claim(100).Items)
}

func TestAPausedWorkspaceGivesNothingWhateverIsAskedFor(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "PRO")
	f.items(w, 2)
	given := f.items(other, 1)
	f.setWorkspace(w, "paused = true")
	workspaces := []entry{{workspace: w.workspace, items: 2}, {workspace: other.workspace, items: 2}}
	require.Equal(t, given, f.ask(proposal{entries: workspaces}).ids)
	f.setWorkspace(w, "paused = false")
	f.release(f.claim(1), true)
	f.setWorkspace(w, "paused = true")
	require.Empty(t, f.claim(1).Items, "an unanswered start waits too")
	f.setWorkspace(w, "paused = false")
	require.Len(t, f.claim(1).Items, 1)
}

func TestAPauseOfEverythingGivesNothingWhateverIsAskedFor(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(w, 2)
	f.release(f.claim(1), true)
	f.exec("update pgdispatch.settings set paused = true")
	s := f.ask(proposal{doubts: 2, entries: []entry{{workspace: w.workspace, items: 2}}})
	require.Empty(t, s.ids)
	require.True(t, s.Paused)
}

func TestGlobalCapLimitsLeasesOverAllWorkspaces(t *testing.T) {
	f, a, b := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	f.items(a, 10)
	f.items(b, 10)
	f.maxClaims(3)
	first := f.claim(100)
	require.Len(t, first.Items, 3)
	require.True(t, first.More)
	require.True(t, first.Capped)
	require.Empty(t, f.claim(100).Items)
	f.maxClaims(5)
	require.Len(t, f.claim(100).Items, 2, "a raised cap applies to the next claim")
	f.maxClaims(1)
	require.Empty(t, f.claim(100).Items, "a lowered cap frees nothing")
	f.maxClaims(5)
	f.dispatched(first)
	require.Len(t, f.claim(100).Items, 3, "dispatched items are not leased any more")
	f.maxClaims(0)
	require.Empty(t, f.claim(100).Items, "a cap of 0 claims nothing")
}

func TestGlobalCapHoldsForUnansweredStartsToo(t *testing.T) {
	f := open(t)
	f.items(f.tenant("PRO"), 3)
	f.release(f.claim(3), true)
	f.maxClaims(2)
	require.Len(t, f.claim(100).Items, 2)
	require.Empty(t, f.claim(100).Items)
}

func TestExpiredLeasesAreNotCountedAndGoBackAtOnce(t *testing.T) {
	f := open(t)
	f.items(f.tenant("PRO"), 4)
	f.maxClaims(2)
	first := f.claim(100)
	require.Len(t, first.Items, 2)
	f.expire(first.ids()...)
	second := f.claim(100)
	require.Equal(t, first.ids(), second.ids(), "they hold their slots and come first")
	for n, item := range second.Items {
		require.True(t, item.Unanswered)
		require.Equal(t, 2, item.AttemptCount)
		require.Greater(t, item.Token, first.Items[n].Token)
	}
	require.Empty(t, f.dispatched(first), "the lost lease settles nothing")
	require.Equal(t, second.ids(), f.dispatched(second))
}

// A heartbeat that was in time but has not committed keeps its lease, although its row looks expired to other
// transactions.
func TestALeaseThatIsBeingRenewedIsCounted(t *testing.T) {
	f := open(t)
	f.items(f.tenant("PRO"), 4)
	f.maxClaims(2)
	first := f.claim(100)
	f.expire(first.ids()...)
	renewing, tx := f.begin()
	renewing.exec("update pgdispatch.workflow_execution_queue "+
		"set lease_expires_at = clock_timestamp() + interval '1 minute' where id = $1",
		first.Items[0].ID)
	require.Len(t, f.claim(100).Items, 1, "one lease has expired, the other has not")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 2, f.count(`workflow_execution_queue
		where status = 'CLAIMED' and lease_expires_at > clock_timestamp()`))
}

func TestDeletingAnItemFreesItsSlot(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.items(w, 4)
	claimed := f.claim(10)
	f.remove(claimed.ids()...)
	require.Empty(t, f.dispatched(claimed))
	running := f.claim(10)
	require.Len(t, running.Items, 1, "the slot of the claimed item")
	f.dispatched(running)
	f.remove(running.ids()...)
	unanswered := f.claim(10)
	require.Len(t, unanswered.Items, 1, "the slot of the running item")
	f.release(unanswered, true)
	f.remove(unanswered.ids()...)
	require.Len(t, f.claim(10).Items, 1, "the slot of the unanswered item")
}

func (f fixture) setBurst(w tenant, most any) {
	f.exec("update pgdispatch.workspaces set max_burst_workflows = $2 where id = $1", w.workspace, most)
}

func (f fixture) holders(w tenant) int {
	return f.count(`workflow_execution_queue
		where workspace_id = $1 and stage in ('HOLDS', 'DOUBT')`, w.workspace)
}

func TestTheBurstLimitIsThePlansUnlessTheWorkspaceHasItsOwn(t *testing.T) {
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

func TestABurstGoesOnAfterARestart(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.setBurst(w, 8)
	f.items(w, 20)
	require.Len(t, f.claim(6).Items, 5)
	f.forget()
	require.Len(t, f.claim(6).Items, 3)
	f.forget()
	require.Empty(t, f.claim(6).Items)
}

// Only an entry that asks for it goes beyond the limit: otherwise a replica whose count is too low would take burst
// slots before others have what they need.
func TestAnEntryStaysWithinTheLimitUnlessItAsksForABurst(t *testing.T) {
	f, w := openFor(t, "PRO")
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
	f, w := openFor(t, "PRO")
	f.setBurst(w, 50)
	f.items(w, 20)
	require.Len(t, f.claimAll(7).Items, 7)
	p := proposal{epoch: f.epoch(), entries: []entry{
		{workspace: w.workspace, items: 1, burst: true, heldTo: f.lastToken(), held: 1}}}
	require.EqualValues(t, 7, *f.ask(p).counted(0))
}

func TestBurstsAreExactOverManyClaimers(t *testing.T) {
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
	f, w := openFor(t, "FREE")
	for _, most := range []int{-1, 100001} {
		for _, statement := range []string{"update pgdispatch.workspaces set max_burst_workflows = $1 where name <> ''",
			"update pgdispatch.workspace_tiers set max_burst_workflows = $1"} {
			require.Equal(t, "max_burst_workflows", f.refusedAs("23514", "", statement, most).ColumnName)
		}
	}
	f.setBurst(w, 100000)
}
