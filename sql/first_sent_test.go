package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sentAgo ages an item's first start.
func (f fixture) sentAgo(id int64, ago time.Duration) {
	f.t.Helper()
	f.exec("update pgdispatch.workflow_executions set first_sent_at = clock_timestamp() - $2::interval "+
		"where queue_item_id = $1", id, ago)
}

func TestAClaimSaysForHowLongAStartHasBeenUnanswered(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.item(f.tenant("FREE"))
	first := f.claim(1)
	require.Zero(t, *first.items[0].UnansweredFor, "no start was sent before")
	f.release(first, true)

	f.sentAgo(id, 3*time.Hour)
	for range 2 { // the first start stays the first
		again := f.claim(1)
		require.InDelta(t, 3*time.Hour, *again.items[0].UnansweredFor, float64(time.Minute))
		f.release(again, true)
	}
	f.claim(1)
	f.expire(id)
	again := f.claim(1)
	require.InDelta(t, 3*time.Hour, *again.items[0].UnansweredFor, float64(time.Minute), "a lost lease does not change it")
}

func TestAStartThatWasAnsweredIsNotTheFirst(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.release(f.claim(1), false)
	f.sentAgo(id, 100*time.Hour)
	known := f.claim(1)
	require.Zero(t, *known.items[0].UnansweredFor, "every start sent then was rejected")
	f.expire(id)
	again := f.claim(1)
	require.Less(t, *again.items[0].UnansweredFor, time.Hour, "the unanswered start was sent just now")
}

func TestAnItemWhoseExecutionIsGoneIsAsOldAsItself(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.item(f.tenant("FREE"))
	f.release(f.claim(1), true)
	f.exec("delete from pgdispatch.workflow_executions")
	require.Positive(t, *f.claim(1).items[0].UnansweredFor, "no start was sent before it was enqueued")
}
