package claim

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// alive says that replicas live.
func (b *bench) alive(stores ...*Store) {
	b.t.Helper()
	for _, store := range stores {
		require.NoError(b.t, store.Alive(b.t.Context(), Presence{Version: "v1", Workers: 10}))
	}
}

func adopted(t *testing.T, store *Store, atMost int, watching ...string) []string {
	t.Helper()
	executions, err := store.Adopt(t.Context(), atMost, watching)
	require.NoError(t, err)
	var ids []string
	for _, execution := range executions {
		require.Equal(t, "run-"+execution.ID, execution.RunID)
		ids = append(ids, execution.ID)
	}
	return ids
}

func TestAdoptTakesWhatADeadReplicaLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dead, other := b.replica("dead"), b.replica("b")
	b.alive(b.Store, dead, other)
	items := b.dispatched(dead, 2)
	require.Empty(t, adopted(t, b.Store, 10), "it lives")

	b.execute("update pgdispatch.replicas set expires_at = clock_timestamp() - interval '1 millisecond' where id = 'dead'")
	require.ElementsMatch(t, []string{items[0].ExecutionID, items[1].ExecutionID}, adopted(t, b.Store, 10))
	require.Empty(t, adopted(t, other, 10), "they are watched now")
}

func TestAdoptTakesWhatAReplicaLeftThatSaidFarewell(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	leaving := b.replica("leaving")
	b.alive(b.Store, leaving)
	items := b.dispatched(leaving, 1)
	require.NoError(t, leaving.Gone(t.Context()))
	require.Equal(t, []string{items[0].ExecutionID}, adopted(t, b.Store, 10))
}

func TestAdoptTakesOwnExecutionsThatAreNotWatched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.alive(b.Store)
	items := b.dispatched(b.Store, 3)
	require.ElementsMatch(t, []string{items[0].ExecutionID, items[2].ExecutionID}, adopted(t, b.Store, 10, items[1].ExecutionID))
	require.Empty(t, adopted(t, b.Store, 10, items[0].ExecutionID, items[1].ExecutionID, items[2].ExecutionID))
	require.Len(t, adopted(t, b.Store, 2), 2, "at most so many, the oldest first")
}

func TestAdoptLeavesWhatHasEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.alive(b.Store)
	item := b.dispatched(b.Store, 1)[0]
	_, err := b.Finish(t.Context(), item.ExecutionID, "COMPLETED", "", "")
	require.NoError(t, err)
	b.claimed(b.Store, 1)
	require.Empty(t, adopted(t, b.Store, 10))
}

func TestAdoptersAtOnceShareNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stores := make([]*Store, 8)
	for n := range stores {
		stores[n] = b.replica(string(rune('b' + n)))
	}
	b.alive(stores...)
	const orphans = 60
	b.dispatched(b.replica("dead"), orphans)

	for range 20 {
		b.execute("update pgdispatch.workflow_executions set watcher = 'dead'")
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
		require.Len(t, seen, orphans, "and none is left over")
	}
}

func TestWatchesThatAreGivenUpAreForAnyOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.replica("b")
	b.alive(b.Store, other)
	mine, theirs := b.dispatched(b.Store, 2), b.dispatched(other, 1)
	require.NoError(t, b.GiveUpWatches(t.Context(), []string{mine[0].ExecutionID, theirs[0].ExecutionID}))
	require.Equal(t, []string{mine[0].ExecutionID}, adopted(t, other, 10, theirs[0].ExecutionID), "its own, and only those it named")
	require.NoError(t, b.GiveUpWatches(t.Context(), nil))
	require.Equal(t, []string{mine[1].ExecutionID}, adopted(t, other, 10, theirs[0].ExecutionID, mine[0].ExecutionID), "all of its own")
}

// busy makes a workspace of one slot, whose execution runs unwatched while another item waits for the slot.
func (b *bench) busy(name string, items int) Item {
	b.t.Helper()
	id := b.workspace(name, 1)
	b.enqueue(id, items)
	batch, err := b.replica("dead").Claim(b.t.Context(), 10)
	require.NoError(b.t, err)
	require.Len(b.t, batch.Items, 1)
	_, err = b.replica("dead").Settle(b.t.Context(), Dispatched, []Settlement{{ID: batch.Items[0].ID, Token: batch.Items[0].Token, RunID: "run-" + batch.Items[0].ExecutionID}})
	require.NoError(b.t, err)
	return batch.Items[0]
}

func TestWhatASlotIsWaitedForIsAdoptedFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.alive(b.Store)
	b.dispatched(b.replica("dead"), 3)
	idle, busy := b.busy("idle", 1), b.busy("busy", 2)
	require.Equal(t, []string{busy.ExecutionID}, adopted(t, b.Store, 1))
	require.NotContains(t, adopted(t, b.Store, 3, busy.ExecutionID), idle.ExecutionID, "the oldest of the rest")
}

func TestWhatAReplicaHasNoRoomToWatchIsSettledAsWatchedByNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.replica("other")
	b.alive(other)
	b.alive(b.Store)
	var asked, room int
	b.CanWatch = func(executions int) bool { asked = executions; return executions <= room }
	unwatched := b.dispatched(b.Store, 1)
	require.Equal(t, 1, asked)
	room = 1
	b.dispatched(b.Store, 1)
	require.Equal(t, []string{unwatched[0].ExecutionID}, adopted(t, other, 10))
}

func TestAFullReplicaSwapsWatchesForThoseThatAreWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.alive(b.Store)
	mine := b.dispatched(b.Store, 2)
	waited := []string{b.busy("one", 2).ExecutionID, b.busy("two", 2).ExecutionID, b.busy("three", 2).ExecutionID}
	b.busy("idle", 1)
	require.NoError(t, b.replica("dead").GiveUpWatches(t.Context(), nil))

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
	require.Equal(t, waited[1:2], taken, "as many as it gives up")
	require.Equal(t, []string{mine[1].ExecutionID}, dropped)
	taken, dropped = swap(10)
	require.Empty(t, taken, "all of its own are waited for")
	require.Empty(t, dropped)
}
