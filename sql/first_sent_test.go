package sql_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
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

// An epoch begins after commits may have been lost, claims among them. Temporal recognises a repeated start unless its
// ID may be used again.
func TestAnItemThatNamesItsIDMayHaveBeenStartedBeforeTheEpoch(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("ENTERPRISE")
	claimed := func() map[int64]bool {
		sent := map[int64]bool{}
		for _, item := range f.claim(9).items {
			sent[*item.ID] = *item.UnansweredFor > 0
		}
		return sent
	}
	named, other := f.named(w, "a"), f.item(w)
	f.exec("delete from pgdispatch.epoch")
	require.Equal(t, map[int64]bool{named: true, other: false}, claimed(), "before there is an epoch")
	named = f.named(w, "b")
	require.Equal(t, map[int64]bool{named: false}, claimed(), "in it")

	for _, single := range []bool{true, false} {
		named, other = f.named(w, "c"), f.item(w)
		f.exec("delete from pgdispatch.epoch")
		f.exec(sql.Text("epoch"))
		sent := map[int64]bool{}
		if single {
			in, tx := f.begin()
			in.exec(sql.Text("lock_claims"))
			rows, err := tx.Query(t.Context(), sql.Text("claim_single"), "replica-1", lease, nil, f.epoch(), 9, 0, 0,
				w.workspace, 0, 9, time.Time{}, 0, 0, 0, 0, "default")
			require.NoError(t, err)
			answer, err := pgx.CollectRows(rows, pgx.RowToMap)
			require.NoError(t, err)
			for _, row := range answer {
				sent[row["id"].(int64)] = row["unanswered_for"].(pgtype.Interval).Microseconds > 0
			}
			require.NoError(t, tx.Commit(t.Context()))
		} else {
			sent = claimed()
		}
		require.Equal(t, map[int64]bool{named: true, other: false}, sent, "single: %v", single)
	}
}

// A failover forgets the last claims and the sequence that numbered them, but not the replicas that hold them.
func TestNoTokenOfAnEarlierEpochIsDrawnAgain(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("ENTERPRISE")
	token := func() int64 { f.item(w); return *f.claim(1).items[0].LeaseToken }
	before := token()
	for _, begins := range []string{"select", sql.Text("epoch")} { // a claim begins it, too
		f.exec("select setval('pgdispatch.lease_tokens', $1, false)", before)
		f.exec("delete from pgdispatch.epoch")
		f.exec(begins)
		drawn := token()
		require.Greater(t, drawn, before+1_000_000)
		require.Less(t, token(), drawn+10, "an epoch begins once")
	}
}
