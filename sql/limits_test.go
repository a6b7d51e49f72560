package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlanLimitsWhatAWorkspaceHolds(t *testing.T) {
	t.Parallel()
	f := open(t)
	for plan, limit := range map[string]int{"FREE": 1, "PRO": 5, "ENTERPRISE": 20} {
		w := f.tenant(plan)
		f.items(w, limit+5)
		first := f.claim(100)
		require.Len(t, first.items, limit, plan)
		require.False(t, first.more, "items of a full workspace do not count as more")
		require.Empty(t, f.claim(100).items, plan)
		f.dispatched(first)
		require.Empty(t, f.claim(100).items, "a running workflow holds its slot")
		require.True(t, f.finish(*first.items[0].ID, "FAILED"))
		require.Len(t, f.claim(100).items, 1, "one slot was freed")
	}
}

func TestOverrideCountsInsteadOfThePlan(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 20)
	override := func(limit any) {
		f.exec("update pgdispatch.workspaces set max_concurrent_workflows = $2 where id = $1", w.workspace, limit)
	}
	override(0)
	require.Empty(t, f.claim(100).items, "a limit of 0 starts nothing")
	override(3)
	require.Len(t, f.claim(100).items, 3)
	override(4)
	require.Len(t, f.claim(100).items, 1, "a raised limit applies to the next claim")
	override(nil)
	require.Empty(t, f.claim(100).items, "back to the plan's 1, with 4 held")
	override(2)
	require.Empty(t, f.claim(100).items, "a limit below the number held frees nothing and grants nothing")
	override(100000)
	require.Len(t, f.claim(100).items, 16)
}

func TestPlanCanChangeWhileItemsRun(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 20)
	require.Len(t, f.claim(100).items, 1)
	f.exec("update pgdispatch.workspaces set plan = 'PRO' where id = $1", w.workspace)
	require.Len(t, f.claim(100).items, 4)
	f.exec("update pgdispatch.workspaces set plan = 'FREE' where id = $1", w.workspace)
	require.Empty(t, f.claim(100).items)
}

func TestTierCanChangeWhileItemsRun(t *testing.T) {
	t.Parallel()
	f := open(t)
	a, b, exempt := f.tenant("FREE"), f.tenant("FREE"), f.tenant("FREE")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 1 where id = $1", exempt.workspace)
	for _, w := range []tenant{a, b, exempt} {
		f.items(w, 5)
	}
	require.Len(t, f.claim(100).items, 3)
	f.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 2 where plan = 'FREE'")
	require.Len(t, f.claim(100).items, 2, "one more for each workspace on the plan's limit")
	f.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 0 where plan = 'FREE'")
	require.Empty(t, f.claim(100).items)
}

func TestTierOfOnesOwn(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("insert into pgdispatch.workspace_tiers values ('TEAM_2', 7)")
	f.items(f.tenant("TEAM_2"), 10)
	require.Len(t, f.claim(100).items, 7)
}

func TestPausedWorkspaceIsPassedOver(t *testing.T) {
	t.Parallel()
	f := open(t)
	paused, other := f.tenant("PRO"), f.tenant("PRO")
	f.exec("update pgdispatch.workspaces set paused = true where id = $1", paused.workspace)
	f.items(paused, 2)
	f.items(other, 1)
	first := f.claim(100)
	require.Len(t, first.items, 1)
	require.False(t, first.more)
	f.exec("update pgdispatch.workspaces set paused = false where id = $1", paused.workspace)
	require.Len(t, f.claim(100).items, 2)
}

func TestPausedWorkspaceKeepsItsUnansweredStartsWaiting(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.item(w)
	f.release(f.claim(1), true)
	f.exec("update pgdispatch.workspaces set paused = true where id = $1", w.workspace)
	require.Empty(t, f.claim(1).items)
	f.exec("update pgdispatch.workspaces set paused = false where id = $1", w.workspace)
	require.Len(t, f.claim(1).items, 1)
}

func TestGlobalPauseStopsClaims(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	f.exec("update pgdispatch.settings set paused = true")
	halted := f.claim(100)
	require.Empty(t, halted.items)
	require.False(t, halted.more, "no further claim while paused")
	require.True(t, halted.paused)
	require.Nil(t, halted.lookAgainIn)
	f.exec("update pgdispatch.settings set paused = false")
	require.Len(t, f.claim(100).items, 2)
}

func TestAPausedWorkspaceGivesNothingWhateverIsAskedFor(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("PRO"), f.tenant("PRO")
	f.items(w, 2)
	given := f.items(other, 1)
	f.exec("update pgdispatch.workspaces set paused = true where id = $1", w.workspace)
	workspaces := []entry{{workspace: w.workspace, items: 2}, {workspace: other.workspace, items: 2}}
	require.Equal(t, given, f.ask(proposal{entries: workspaces}).ids)
}

func TestAPauseOfEverythingGivesNothingWhateverIsAskedFor(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.items(w, 2)
	f.release(f.claim(1), true)
	f.exec("update pgdispatch.settings set paused = true")
	s := f.ask(proposal{doubts: 2, entries: []entry{{workspace: w.workspace, items: 2}}})
	require.Empty(t, s.ids)
	require.True(t, s.Paused)
}

func TestGlobalCapLimitsLeasesOverAllWorkspaces(t *testing.T) {
	t.Parallel()
	f := open(t)
	a, b := f.tenant("ENTERPRISE"), f.tenant("ENTERPRISE")
	f.items(a, 10)
	f.items(b, 10)
	f.maxClaims(3)
	first := f.claim(100)
	require.Len(t, first.items, 3)
	require.True(t, first.more)
	require.True(t, first.capped)
	require.Empty(t, f.claim(100).items)
	f.maxClaims(5)
	require.Len(t, f.claim(100).items, 2, "a raised cap applies to the next claim")
	f.maxClaims(1)
	require.Empty(t, f.claim(100).items, "a lowered cap frees nothing")
	f.maxClaims(5)
	f.dispatched(first)
	require.Len(t, f.claim(100).items, 3, "dispatched items are not leased any more")
	f.maxClaims(0)
	require.Empty(t, f.claim(100).items, "a cap of 0 claims nothing")
}

func TestGlobalCapHoldsForUnansweredStartsToo(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 3)
	f.release(f.claim(3), true)
	f.maxClaims(2)
	require.Len(t, f.claim(100).items, 2)
	require.Empty(t, f.claim(100).items)
}

func TestExpiredLeasesAreNotCountedAndGoBackAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 4)
	f.maxClaims(2)
	first := f.claim(100)
	require.Len(t, first.items, 2)
	f.expire(first.ids()...)
	second := f.claim(100)
	require.Equal(t, first.ids(), second.ids(), "they hold their slots and come first")
	for n, item := range second.items {
		require.True(t, *item.Unanswered)
		require.Equal(t, 2, *item.AttemptCount)
		require.Greater(t, *item.LeaseToken, *first.items[n].LeaseToken)
	}
	require.Empty(t, f.dispatched(first), "the lost lease settles nothing")
	require.Equal(t, second.ids(), f.dispatched(second))
}

// A heartbeat that was in time but has not committed keeps its lease, although its row looks expired to other
// transactions.
func TestALeaseThatIsBeingRenewedIsCounted(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 4)
	f.maxClaims(2)
	first := f.claim(100)
	f.expire(first.ids()...)
	renewing, tx := f.begin()
	renewing.exec("update pgdispatch.workflow_execution_queue "+
		"set lease_expires_at = clock_timestamp() + interval '1 minute' where id = $1",
		*first.items[0].ID)
	require.Len(t, f.claim(100).items, 1, "one lease has expired, the other has not")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 2, one[int](f, `select count(*) from pgdispatch.workflow_execution_queue
		where status = 'CLAIMED' and lease_expires_at > clock_timestamp()`))
}

func TestClaimGivesAtMostWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("ENTERPRISE"), 7)
	f.items(f.tenant("ENTERPRISE"), 7)
	for _, ask := range []int{0, 1, 3, 5} {
		given := f.claim(ask)
		require.Len(t, given.items, ask)
		require.True(t, given.more)
		require.False(t, given.capped)
	}
	rest := f.claimAll(5)
	require.Len(t, rest.items, 5)
	require.False(t, rest.more, "no more items are due")
	require.Empty(t, f.claim(-1).items)
}

func TestAFullWorkspaceIsNamedOnceUntilItHasRoomAgain(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 3)
	named := `[{"workspace_id":"` + w.workspace + `","active":1,"limit":1}]`
	first := f.claim(10)
	require.Equal(t, named, first.atCapacity)
	f.item(w)
	require.Empty(t, f.claim(10).atCapacity, "a full workspace is reported once")
	f.dispatched(first)
	f.finish(first.ids()[0], "COMPLETED")
	require.Equal(t, named, f.claim(10).atCapacity, "it had room, and is full again")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 2 where id = $1", w.workspace)
	require.Contains(t, f.claim(10).atCapacity, `"limit":2`)
	require.Empty(t, f.claim(10).atCapacity)
}

func TestDeletingAnItemFreesItsSlot(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 4)
	delete := func(id int64) { f.exec("delete from pgdispatch.workflow_execution_queue where id = $1", id) }
	claimed := f.claim(10)
	delete(*claimed.items[0].ID)
	require.Empty(t, f.dispatched(claimed))
	running := f.claim(10)
	require.Len(t, running.items, 1, "the slot of the claimed item")
	f.dispatched(running)
	delete(*running.items[0].ID)
	unanswered := f.claim(10)
	require.Len(t, unanswered.items, 1, "the slot of the running item")
	f.release(unanswered, true)
	delete(*unanswered.items[0].ID)
	require.Len(t, f.claim(10).items, 1, "the slot of the unanswered item")
}
