package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// A claim finds new rows by the transactions that its predecessor did not see. These tests search for rows missed in
// between.

func TestAnItemIsFoundHoweverLongItsTransactionStaysOpen(t *testing.T) {
	f, w, other := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	late, tx := f.begin()
	first := late.item(w)
	for range 10 {
		f.dispatched(f.claim(5))
		f.item(other)
	}
	late.exec("savepoint a")
	second := late.item(w)
	late.exec("savepoint b")
	late.item(w)
	late.exec("rollback to b")
	third := late.item(w)
	late.exec("release a")
	for range 5 {
		f.finish(f.dispatched(f.claim(1))[0], "COMPLETED")
		f.item(other)
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.Subset(t, f.claim(20).ids(), []int64{first, second, third})
	require.Empty(t, f.claim(20).Items)
}

func TestAClaimThatIsRolledBackForgetsNothing(t *testing.T) {
	f := open(t)
	known := f.tenant("FREE")
	f.items(known, 2)
	running := f.claim(1)
	f.dispatched(running)
	f.finish(running.ids()[0], "COMPLETED")
	f.items(f.tenant("PRO"), 2)
	f.at(f.tenant("PRO"), 77, -time.Second)
	in, tx := f.begin()
	rolledBack := in.claimBy("another", 10)
	require.Len(t, rolledBack.Items, 4, "a freed slot, a new workspace and a new priority")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, rolledBack.ids(), f.claim(10).ids())
}

func TestAFreedSlotCountsOnceWhateverWasOpen(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(w, 30)
	running := f.claim(5)
	f.dispatched(running)
	old, oldTx := f.begin()
	old.finish(running.ids()[0], "COMPLETED")
	f.finish(running.ids()[1], "COMPLETED")
	next := f.claim(5)
	require.Len(t, next.Items, 1, "one of the ends has committed")
	require.Empty(t, f.claim(5).Items)
	require.NoError(t, oldTx.Commit(t.Context()))
	require.Len(t, f.claim(5).Items, 1)
	require.Empty(t, f.claim(5).Items)

	// The slot is freed in the claim's own transaction.
	own, ownTx := f.begin()
	own.finish(running.ids()[2], "COMPLETED")
	given := len(own.claim(5).Items)
	require.NoError(t, ownTx.Commit(t.Context()))
	require.Equal(t, 1, given+len(f.claim(5).Items))
	require.Empty(t, f.claim(5).Items)
}

func TestATransactionThatSettledAndIsRolledBackRaisesNoFloor(t *testing.T) {
	f := open(t)
	f.items(f.tenant("ENTERPRISE"), 5)
	f.maxClaims(1)
	held := f.claim(1)
	f.exec("select setval('pgdispatch.lease_tokens', 10000)")
	in, tx := f.begin()
	in.dispatched(held)
	require.Len(t, in.claimBy("another", 1).Items, 1)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, f.claim(1).Items, "the first lease is still held, and W is 1")
}

// The workspace's head is locked by a client that then rolls back. No mark reports that, so the workspace must have
// kept the head.
func TestAHeadWhoseLockIsGivenUpIsClaimed(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	head := f.at(w, 3, -time.Hour)
	behind := f.at(w, 3, -time.Minute)
	below := f.at(w, 0, -2*time.Hour)
	holder, tx := f.begin()
	holder.set("priority = 50", head)
	require.Equal(t, []int64{behind}, f.claim(1).ids())
	for range 3 {
		answer := f.claim(5)
		require.Empty(t, answer.Items, "lower priorities of the workspace wait too")
		require.False(t, answer.More)
	}
	require.LessOrEqual(t, f.claim(5).LookAgainIn, 100*time.Millisecond)
	require.NoError(t, tx.Rollback(t.Context()))
	f.forget()
	require.Equal(t, []int64{head, below}, f.claimAll(5).ids())
}

func TestWhatFellDueWhileItsWorkspaceWasShutIsServedWhenItOpens(t *testing.T) {
	type given struct{ shut, open string }
	must.Each(t, map[string]given{
		"full": {"update pgdispatch.workspaces set max_concurrent_workflows = 0",
			"update pgdispatch.workspaces set max_concurrent_workflows = 9"},
		"paused": {"update pgdispatch.workspaces set paused = true", "update pgdispatch.workspaces set paused = false"},
	}, func(t *testing.T, shut given) {
		f, w := openFor(t, "FREE")
		later := f.at(w, 5, time.Hour)
		f.exec(shut.shut)
		f.claim(5)
		f.exec("update pgdispatch.workflow_execution_queue set run_at = now()")
		f.item(f.tenant("FREE"))
		require.Len(t, f.claim(5).Items, 1, "the later item of the other workspace")
		f.claim(5)
		f.exec(shut.open)
		require.Contains(t, f.claim(5).ids(), later)
	})
}

// Each claim examines a limited number, and reports that there is more until all have been examined.
func TestThousandsOfWorkspacesAtOnceAreAllServed(t *testing.T) {
	f := open(t)
	const workspaces = 2300
	f.maxClaims(100000)
	f.tenants(workspaces, "FREE")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 0")
	f.itemEach()
	drain := func() (taken int) {
		for range 20 {
			answer := f.claim(workspaces)
			taken += len(answer.Items)
			if !answer.More && answer.LookAgainIn != 0 {
				return taken
			}
		}
		t.Fatal("the claims never end")
		return 0
	}
	require.Zero(t, drain(), "all limits are 0")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = null")
	require.Equal(t, workspaces, drain(), "all limits changed at once")
	f.itemEach()
	require.Zero(t, drain())
	f.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 2 where plan = 'FREE'")
	require.Equal(t, workspaces, drain(), "the plan changed")
	f.exec("update pgdispatch.workflow_execution_queue " +
		"set status = 'DISPATCHED', dispatched_at = now(), claimed_by = null, lease_expires_at = null")
	f.exec("select pgdispatch.finish(execution_id, 'COMPLETED') from pgdispatch.workflow_execution_queue")
	require.Zero(t, drain())
}
