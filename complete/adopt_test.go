package complete_test

import (
	"sync"
	"testing"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/stretchr/testify/require"
)

func adopted(t *testing.T, store *storetest.Bench, atMost int, watching ...string) []string {
	t.Helper()
	executions := must.Get(store.Adopt(t.Context(), atMost, watching)).In(t)
	var ids []string
	for _, execution := range executions {
		require.Equal(t, "run-"+execution.ID, execution.RunID)
		ids = append(ids, execution.ID)
	}
	return ids
}

func TestAdoptTakesWhatNobodyWatches(t *testing.T) {
	b := storetest.Open(t)
	dead, leaving, other := b.Replica("dead"), b.Replica("leaving"), b.Replica("b")
	for _, replica := range []*storetest.Bench{b, dead, leaving, other} {
		replica.Alive()
	}
	items := append(dead.Dispatched(2), leaving.Dispatched(1)...)
	b.Claimed(1)
	one, two, three := items[0].ExecutionID, items[1].ExecutionID, items[2].ExecutionID
	require.Empty(t, adopted(t, b, 10), "the replicas are alive")

	leaving.Gone()
	b.Execute("update pgdispatch.replicas set expires_at = clock_timestamp() - interval '1 millisecond' where id = 'dead'")
	require.ElementsMatch(t, []string{one, two, three}, adopted(t, b, 10))
	require.Empty(t, adopted(t, other, 10), "the executions are watched")

	require.ElementsMatch(t, []string{one, three}, adopted(t, b, 10, two), "its own that it does not watch")
	require.Empty(t, adopted(t, b, 10, one, two, three))
	require.Len(t, adopted(t, b, 2), 2, "up to the limit, oldest first")
	must.Get(b.Finish(t.Context(), one, "COMPLETED", "", "")).In(t)
	require.ElementsMatch(t, []string{two, three}, adopted(t, b, 10), "not what has ended")
}

func TestAdoptersAtOnceShareNothing(t *testing.T) {
	b := storetest.Open(t)
	stores := make([]*storetest.Bench, 8)
	for n := range stores {
		stores[n] = b.Replica(string(rune('b' + n)))
	}
	for _, store := range stores {
		store.Alive()
	}
	const orphans = 60
	b.Replica("dead").Dispatched(orphans)

	for range 20 {
		b.Execute("update pgdispatch.workflow_executions set watcher = 'dead'")
		taken := make(chan string, len(stores)*orphans)
		start := make(chan struct{})
		var adopters sync.WaitGroup
		for _, store := range stores {
			adopters.Go(func() {
				<-start
				executions, err := store.Adopt(t.Context(), orphans, nil)
				if err != nil {
					t.Error(err)
				}
				for _, execution := range executions {
					taken <- execution.ID
				}
			})
		}
		close(start)
		adopters.Wait()
		close(taken)
		seen := map[string]bool{}
		for id := range taken {
			require.False(t, seen[id], "two adopters were given %s", id)
			seen[id] = true
		}
		require.Len(t, seen, orphans, "no execution is left over")
	}
}

func TestWatchesThatAreGivenUpAreForAnyOther(t *testing.T) {
	b := storetest.Open(t)
	other := b.Replica("b")
	b.Alive()
	other.Alive()
	mine, theirs := b.Dispatched(2), other.Dispatched(1)
	require.NoError(t, b.GiveUpWatches(t.Context(), []string{mine[0].ExecutionID, theirs[0].ExecutionID}))
	require.Equal(t, []string{mine[0].ExecutionID}, adopted(t, other, 10, theirs[0].ExecutionID),
		"only its own, and only the named ones")
	require.NoError(t, b.GiveUpWatches(t.Context(), nil))
	require.Equal(t, []string{mine[1].ExecutionID}, adopted(t, other, 10, theirs[0].ExecutionID, mine[0].ExecutionID),
		"all of its own")
}

// busy creates a workspace with one slot. Its execution runs unwatched while another item waits for the slot.
func busy(t *testing.T, b *storetest.Bench, name string, items int) claim.Item {
	t.Helper()
	id := b.NewWorkspace(name, 1)
	b.Insert(id, items)
	batch := must.Get(b.Replica("dead").Claim(t.Context(), 10)).In(t)
	require.Len(t, batch.Items, 1)
	_, err := b.Replica("dead").Settle(t.Context(), claim.Dispatched,
		[]claim.Settlement{{ID: batch.Items[0].ID, Token: batch.Items[0].Token, RunID: "run-" + batch.Items[0].ExecutionID}})
	require.NoError(t, err)
	return batch.Items[0]
}

func TestWhatASlotIsWaitedForIsAdoptedFirst(t *testing.T) {
	b := storetest.Open(t)
	b.Alive()
	b.Replica("dead").Dispatched(3)
	idle, busy := busy(t, b, "idle", 1), busy(t, b, "busy", 2)
	require.Equal(t, []string{busy.ExecutionID}, adopted(t, b, 1))
	require.NotContains(t, adopted(t, b, 3, busy.ExecutionID), idle.ExecutionID, "the oldest of the rest")
}

func TestWhatAReplicaHasNoRoomToWatchIsSettledAsWatchedByNobody(t *testing.T) {
	b := storetest.Open(t)
	other := b.Replica("other")
	other.Alive()
	b.Alive()
	var asked, room int
	b.CanWatch = func(executions int) bool { asked = executions; return executions <= room }
	unwatched := b.Dispatched(1)
	require.Equal(t, 1, asked)
	room = 1
	b.Dispatched(1)
	require.Equal(t, []string{unwatched[0].ExecutionID}, adopted(t, other, 10))
}

func TestAFullReplicaSwapsWatchesForThoseThatAreWaitedFor(t *testing.T) {
	b := storetest.Open(t)
	b.Alive()
	mine := b.Dispatched(2)
	waited := []string{busy(t, b, "one", 2).ExecutionID, busy(t, b, "two", 2).ExecutionID,
		busy(t, b, "three", 2).ExecutionID}
	busy(t, b, "idle", 1)
	require.NoError(t, b.Replica("dead").GiveUpWatches(t.Context(), nil))

	swap := func(atMost int) (taken, dropped []string) {
		executions, dropped, err := b.SwapWatches(t.Context(), atMost)
		require.NoError(t, err)
		for _, e := range executions {
			require.Equal(t, "run-"+e.ID, e.RunID)
			taken = append(taken, e.ID)
		}
		return taken, dropped
	}
	taken, dropped := swap(1)
	require.Equal(t, waited[:1], taken)
	require.Equal(t, []string{mine[0].ExecutionID}, dropped)
	taken, dropped = swap(10)
	require.Equal(t, waited[1:2], taken, "as many as the other replica gives up")
	require.Equal(t, []string{mine[1].ExecutionID}, dropped)
	taken, dropped = swap(10)
	require.Empty(t, taken, "all of its own are reported")
	require.Empty(t, dropped)
}
