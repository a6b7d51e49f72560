package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func (f fixture) history(id int64) []string {
	f.t.Helper()
	return all[string](f, `select format('%s: attempt %s on %s: %s', failure, attempt, replica, error)
		from pgdispatch.item_failures
		where item_id = $1 order by failure`, id)
}

func TestEveryFailureOfAnItemIsKept(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.retry(f.claim(1), "first")
	f.release(f.claim(1), false) // an outage, for example: it counts nowhere
	f.retry(f.claim(1), "second")
	f.fail(f.claim(1), "third")
	require.Equal(t, []string{
		"1: attempt 1 on replica-1: first",
		"2: attempt 2 on replica-1: second",
		"3: attempt 3 on replica-1: third",
	}, f.history(id))
	require.True(t, one[bool](f, `select bool_and(h.failed_at between q.created_at and q.finished_at + interval '1 second')
		from pgdispatch.item_failures h join pgdispatch.workflow_execution_queue q on q.id = h.item_id`))
}

func TestAnItemThatSucceedsWritesNoHistory(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.release(f.claim(1), false)
	f.dispatched(f.claim(1))
	f.finish(id, "COMPLETED")
	require.Zero(t, one[int](f, "select count(*) from pgdispatch.item_failures"))
}

func TestALostLeaseWritesNoHistory(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.item(f.tenant("FREE"))
	b := f.claim(1)
	f.expire(b.ids()...)
	require.Empty(t, f.retry(b, "too late"))
	require.Empty(t, f.fail(b, "too late"))
	require.Zero(t, one[int](f, "select count(*) from pgdispatch.item_failures"))
}

func TestAHistoryIsBoundedAndNeverInTheWay(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.retry(f.claim(1), "first")
	f.exec("update pgdispatch.workflow_execution_queue set failure_count = 0")
	require.Len(t, f.retry(f.claim(1), "counted anew by hand"), 1, "the settle succeeds")
	f.exec("update pgdispatch.workflow_execution_queue set failure_count = 99")
	require.Len(t, f.retry(f.claim(1), "the hundredth"), 1)
	require.Len(t, f.retry(f.claim(1), "one too many"), 1)
	require.Len(t, f.fail(f.claim(1), "one too many"), 1)
	require.Len(t, f.history(id), 2)
}

func TestTheHistoryGoesWithItsItem(t *testing.T) {
	t.Parallel()
	f := open(t)
	ids := f.dead(f.tenant("PRO"), 3)
	f.discard(ids[0])
	f.exec("delete from pgdispatch.workflow_execution_queue where id = any ($1)", ids[:2])
	require.Zero(t, one[int](f, "select count(*) from pgdispatch.dead_letter_marks"))
	require.Equal(t, []int64{ids[2]}, all[int64](f, "select item_id from pgdispatch.item_failures"))
}
