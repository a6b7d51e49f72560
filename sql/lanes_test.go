package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func recount(f fixture) int { return one[int](f, "select pgdispatch.recount_lanes()") }

func TestRecountRepairsALaneThatWasEdited(t *testing.T) {
	t.Parallel()
	f := open(t)
	a, b := f.tenant("PRO"), f.tenant("PRO")
	f.items(a, 8)
	f.items(b, 2)
	f.dispatched(f.claim(2))
	f.claim(2)
	require.Zero(t, recount(f))
	f.exec("update pgdispatch.lanes set active = 5")
	require.Empty(t, f.claim(10).items, "wrong counts hold everything back")
	require.Equal(t, 2, recount(f))
	require.Zero(t, recount(f))
	require.Len(t, f.claim(10).items, 3, "PRO has 5 slots, 2 were held; the other has nothing left")
	f.exec("delete from pgdispatch.lanes")
	require.Equal(t, 2, recount(f))
	require.Equal(t, []int{2, 5}, all[int](f, "select active from pgdispatch.lanes order by active"))
}

func TestRecountCountsSlotsThatAreFreedButNotFolded(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.items(w, 10)
	b := f.claim(5)
	f.dispatched(b)
	f.finish(*b.items[0].ID, "COMPLETED")
	f.finish(*b.items[1].ID, "FAILED")
	require.Zero(t, recount(f), "the lane is right: its hints will lower it")
	require.Len(t, f.claim(10).items, 2, "and lower it once")
	require.Zero(t, recount(f))
}

func TestRowsThatNoTriggerSawAreFound(t *testing.T) {
	t.Parallel()
	f := open(t)
	known, unknown, future := f.tenant("PRO"), f.tenant("PRO"), f.tenant("PRO")
	f.items(known, 1)
	f.claim(10)
	in, tx := f.begin()
	in.exec("set local session_replication_role = replica")
	in.items(known, 1)
	in.items(unknown, 3)
	in.at(future, 0, lease)
	require.NoError(t, tx.Commit(t.Context()))
	require.Empty(t, f.claim(10).items, "no hint, no claim")

	find := func() int { return one[int](f, "select pgdispatch.find_unnoticed()") }
	require.Equal(t, 2, find(), "two workspaces have something due")
	require.Zero(t, find(), "the hints say it already")
	require.Len(t, f.claim(10).items, 4)
	require.Zero(t, find())
}

func TestAFullWorkspaceIsNotUnnoticed(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("FREE"), 3)
	f.claim(10)
	f.items(f.tenant("FREE"), 1)
	f.exec("update pgdispatch.settings set paused = true")
	require.Zero(t, one[int](f, "select pgdispatch.find_unnoticed()"))
}

func TestTheLastFreedSlotIsFoldedOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 3)
	for range 3 {
		b := f.claim(10)
		require.Len(t, b.items, 1)
		f.dispatched(b)
		require.Empty(t, f.claim(10).items)
		f.finish(*b.items[0].ID, "COMPLETED")
	}
	require.Empty(t, f.claim(10).items)
	require.Zero(t, one[int](f, "select active from pgdispatch.lanes"))
}
