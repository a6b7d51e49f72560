package operate_test

import (
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

func TestThoseWhoAreClaimedBeforeAnItemAreCounted(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	b.Insert(b.Shop.Shop, 5)
	last := sqltest.Scalar[int64](b.Shop, "select max(id) from pgdispatch.workflow_execution_queue")
	ahead := func() int64 {
		t.Helper()
		n, err := b.Ahead(t.Context(), last)
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 4, ahead())
	b.Execute("update pgdispatch.workflow_execution_queue set priority = 5 where id = $1", last)
	require.Zero(t, ahead())
	b.Execute(`update pgdispatch.workflow_execution_queue set priority = 9, run_at = now() + interval '1 hour'
		where id = (select min(id) from pgdispatch.workflow_execution_queue)`)
	require.Zero(t, ahead(), "the item is not due")
	b.Execute("update pgdispatch.workflow_execution_queue set run_at = now() - interval '1 hour' where priority = 9")
	require.EqualValues(t, 1, ahead())
}

func TestAnItemsChangesAreThoseThatNameIt(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	dead := b.Buried(3, "it broke")
	replayed, err := b.ReplayAll(t.Context(), []int64{dead[0].ID, dead[1].ID}, "anna")
	require.NoError(t, err)
	_, err = b.Discard(t.Context(), []int64{dead[2].ID}, "ben")
	require.NoError(t, err)
	changes := func(item int64) []operate.Administered {
		t.Helper()
		changes, err := b.ChangesOf(t.Context(), item)
		require.NoError(t, err)
		return changes
	}
	for _, item := range []int64{dead[1].ID, replayed[1].ReplayID} {
		found := changes(item)
		require.Len(t, found, 1)
		require.Equal(t, "anna", found[0].Who)
		require.Equal(t, "dead replay", found[0].Action)
	}
	require.Equal(t, "ben", changes(dead[2].ID)[0].Who)
	require.JSONEq(t, "{}", string(changes(dead[2].ID)[0].Details))
}
