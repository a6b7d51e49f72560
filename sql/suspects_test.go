package sql_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

const poisoned = "holder lost three times, the last time with this item alone"

// suspects creates n items that lost two holders each, claimed together.
func (f fixture) suspects(w tenant, n int) []int64 {
	ids := f.items(w, n)
	require.Equal(f.t, ids, f.ask(proposal{owner: "dead-1", entries: []entry{{workspace: w.workspace, items: n}}}).ids,
		"all of them together")
	f.expire(ids...)
	require.Equal(f.t, ids, f.claimBy("dead-2", n).ids(), "together again")
	f.expire(ids...)
	return ids
}

func TestAPoisonItemFailsAfterThreeHoldersAndTakesNobodyAlong(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids := f.items(w, 8)
	poison := ids[3]
	killed, claimed := 0, 0
	for one[bool](f,
		"select exists (select from pgdispatch.workflow_execution_queue where status = 'PENDING' or status = 'CLAIMED')") {
		claimed++
		require.Less(t, claimed, 50)
		b := f.claimBy("replica-"+string(rune('a'+killed)), 5)
		n := slices.Index(b.ids(), poison)
		switch {
		case n < 0:
			require.Len(t, f.dispatched(b), len(b.Items))
		case b.Items[n].Problem != "":
			require.Equal(t, poisoned, string(b.Items[n].Problem))
			require.Equal(t, 0, b.Items[n].FailureCount, "a lost lease is no failure of the item's own")
			require.Equal(t, 4, b.Items[n].AttemptCount)
			require.Len(t, b.Items, 1)
			require.Len(t, f.fail(b, string(b.Items[n].Problem)), 1)
		default:
			killed++
			require.Equal(t, killed < 3, len(b.Items) > 1, "the last holder holds it alone: %d", killed)
			f.expire(b.ids()...)
		}
	}
	require.Equal(t, 3, killed)
	require.Equal(t, []string{"7 DISPATCHED", "1 FAILED"}, all[string](f,
		"select count(*) || ' ' || status from pgdispatch.workflow_execution_queue group by status order by status"))
}

func TestSuspectsAreHandedOverOneAfterAnotherAndCleared(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids := f.suspects(w, 3)
	ordinary := f.items(f.tenant("PRO"), 2)
	for _, id := range ids {
		b := f.claim(10)
		require.Equal(t, []int64{id}, b.ids(), "alone, the oldest first")
		require.True(t, b.More && b.Capped, "more items are due: claim again when the worker is free")
		require.Empty(t, b.Items[0].Problem)
		during := f.claim(10)
		require.Empty(t, during.Items, "no other claim while it holds a suspect")
		require.True(t, during.More && during.Capped)
		require.Equal(t, b.ids(), f.dispatched(b))
	}
	require.Equal(t, ordinary, f.claim(10).ids())
}

func TestASettledSuspectIsNoneAnyMore(t *testing.T) {
	must.Each(t, map[string]func(f fixture, b batch){
		"released":                   func(f fixture, b batch) { f.release(b, false) },
		"released without an answer": func(f fixture, b batch) { f.release(b, true) },
		"failed, to be retried":      func(f fixture, b batch) { f.retry(b, "once") },
		"released by its own shutdown": func(f fixture, b batch) {
			require.Equal(f.t, b.ids(), all[int64](f, sql.Text("release_owned"), "replica-1"))
		},
	}, func(t *testing.T, settle func(f fixture, b batch)) {
		f, w := openFor(t, "PRO")
		ids := f.suspects(w, 1)
		settle(f, f.claim(1))
		f.exec("update pgdispatch.workflow_execution_queue set run_at = now()")
		require.ElementsMatch(t, append(ids, f.item(w)), f.claim(10).ids(), "with others, as ever")
	})
}

func TestASuspectWaitsForAnOwnerThatHoldsNothing(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.items(w, 4)
	busy, other := f.claimBy("busy", 2), f.claimBy("other", 2)
	suspect := f.suspects(f.tenant("PRO"), 1)
	f.items(w, 3)
	for _, owner := range []string{"busy", "other"} {
		b := f.claimBy(owner, 5)
		require.Empty(t, b.Items, "it holds other items")
		require.True(t, b.More && b.Capped, "its dispatcher claims again when a worker is free")
	}
	f.dispatched(other)
	require.Equal(t, suspect, f.claimBy("other", 5).ids(), "it holds nothing any more")
	require.Len(t, f.claimBy("busy", 1).Items, 1, "other items are not delayed")
	require.Empty(t, f.claimBy("other", 1).Items, "except for the suspect's holder")
	require.Len(t, f.dispatched(busy), 2)
}

// A claim whose answer is lost, or whose commit hangs, expires like that of a dead replica. An outage of any length
// fails no item.
func TestALeaseThatAHolderOutlivedIsNotHeldAgainstTheItem(t *testing.T) {
	type given struct {
		renewed time.Duration // before the end of the item's lease
		lost    int
	}
	must.Each(t, map[string]given{
		"it is alive": {0, 0}, "its next heartbeat is due": {lease / 3, 0},
		"it died after a heartbeat that followed the claim": {2 * lease / 3, 1}, "it died with the claim": {lease, 1},
	}, func(t *testing.T, c given) {
		f := open(t)
		f.item(f.tenant("PRO"))
		for range 5 {
			f.exec(sql.Text("replica_alive"), "replica-1", "dev", 4, lease, "default", "{}")
			b := f.claim(1)
			require.Len(t, b.Items, 1)
			if b.Items[0].Problem != "" {
				break
			}
			f.exec("update pgdispatch.workflow_execution_queue set lease_expires_at = clock_timestamp()")
			f.exec(`update pgdispatch.replicas r
				set renewed_at = q.lease_expires_at - $1::interval, expires_at = q.lease_expires_at - $1::interval + $2::interval
				from pgdispatch.workflow_execution_queue q`, c.renewed, lease)
			require.Equal(t, 1, one[int](f, "select pgdispatch.requeue_expired(10)"))
		}
		require.Equal(t, 3*c.lost, one[int](f, "select lost_lease_count from pgdispatch.workflow_execution_queue"))
	})
}

func TestASuspectThatCannotBeClaimedStopsNobody(t *testing.T) {
	must.Each(t, map[string]func(f fixture, suspect int64){
		"its workspace is paused": func(f fixture, suspect int64) {
			f.exec(`update pgdispatch.workspaces set paused = true
				where id = (select workspace_id from pgdispatch.workflow_execution_queue where id = $1)`, suspect)
		},
		"its row is locked": func(f fixture, suspect int64) { f.lock(suspect) },
		"it is not due":     func(f fixture, suspect int64) { f.set("run_at = now() + interval '1 hour'", suspect) },
		"another replica holds it": func(f fixture, suspect int64) {
			require.Equal(f.t, []int64{suspect}, f.claimBy("free", 9).ids())
		},
	}, func(t *testing.T, hide func(f fixture, suspect int64)) {
		f, w := openFor(t, "ENTERPRISE")
		f.items(w, 4)
		f.claim(1)
		hide(f, f.suspects(f.tenant("PRO"), 1)[0])
		require.Len(t, f.claim(1).Items, 1)
		require.Len(t, f.claim(9).Items, 2)
	})
}

// Items unknown to their owner, because the claim's answer was lost, are recovered when their lease expires.
func TestAnExpiredLeaseThatCannotBePutBackKeepsNoSuspectWaiting(t *testing.T) {
	f := open(t)
	locked := f.items(f.tenant("PRO"), 1)
	f.claim(1)
	suspect := f.suspects(f.tenant("PRO"), 1)
	require.Empty(t, f.claim(1).Items)
	f.expire(locked...)
	f.lock(locked...)
	require.Equal(t, suspect, f.claim(5).ids())
}

func TestASuspectPassesNoLimit(t *testing.T) {
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	f.claimBy("other", 2)
	suspect := f.suspects(f.tenant("PRO"), 1)
	f.maxClaims(2)
	full := f.claim(5)
	require.Empty(t, full.Items)
	require.True(t, full.More && full.Capped, "W delays it, and a freed worker claims again")
	f.maxClaims(3)
	require.Equal(t, suspect, f.claim(5).ids())
	f.exec("update pgdispatch.settings set paused = true")
	paused := f.claim(5)
	require.True(t, paused.Paused)
	require.False(t, paused.More)
}

func TestAnOlderUnansweredStartGoesBeforeASuspect(t *testing.T) {
	f, w := openFor(t, "PRO")
	old := f.at(w, 0, -time.Hour)
	f.release(f.claim(1), true)
	f.exec("update pgdispatch.workspaces set paused = true")
	suspect := f.suspects(f.tenant("PRO"), 1)
	young := f.item(f.tenant("FREE"))
	f.exec("update pgdispatch.workspaces set paused = false")
	first := f.claim(5)
	require.Equal(t, []int64{old, young}, first.ids(), "the suspect is passed over")
	f.dispatched(first)
	require.Equal(t, suspect, f.claim(5).ids())
}
