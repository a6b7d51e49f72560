package claim

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/sweeper"
	"github.com/stretchr/testify/require"
)

func TestHeartbeatKeepsALeaseAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	items := b.claimed(b.Store, 4)
	live, expired, settled, renamed := items[0], items[1], items[2], items[3]
	b.Execute(
		"update pgdispatch.workflow_execution_queue set lease_expires_at = clock_timestamp() + interval '2 seconds' "+
			"where id = $1", live.ID)
	b.expire(expired)
	_, err := b.Settle(t.Context(), Release, []Settlement{settlementOf(settled, Release)})
	require.NoError(t, err)
	before := b.Row(expired.ID)

	ids, err := b.Heartbeat(t.Context(),
		[]Held{{live.ID, live.Token}, {expired.ID, expired.Token}, {settled.ID, settled.Token},
			{renamed.ID, renamed.Token - 1}})
	require.NoError(t, err)
	require.Equal(t, []int64{live.ID}, ids)
	require.True(t, sqltest.Scalar[bool](b.Shop, `select lease_expires_at > clock_timestamp() + interval '20 seconds'
		from pgdispatch.workflow_execution_queue where id = $1`, live.ID))
	require.Equal(t, before, b.Row(expired.ID), "an expired lease stays expired, even before the sweeper runs")
	b.Insert(b.Shop.Shop, 1)
	_, err = b.replica("b").Claim(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "PENDING", b.Status(expired.ID), "a claim does a sweeper's work")
}

func TestSweepRequeuesWhatExpiredAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	items := b.claimed(b.Store, 5)
	running := b.dispatched(b.Store, 1)[0]
	b.expire(items[0], items[3])
	alive := b.Row(items[1].ID)
	swept, err := b.Sweep(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 2, swept.Requeued)
	require.NotNil(t, swept.NextExpiryIn)
	require.InDelta(t, 30*time.Second, *swept.NextExpiryIn, float64(5*time.Second))
	require.Equal(t, "PENDING", b.Status(items[0].ID))
	require.Equal(t, alive, b.Row(items[1].ID))
	require.Equal(t, "PENDING", b.Status(items[3].ID))
	require.Equal(t, "DISPATCHED", b.Status(running.ID))
	require.Equal(t, "lost=1 attempts=1 failures=0 unknown=true slot=true error=lease of a expired",
		sqltest.Scalar[string](b.Shop, `
		select 'lost=' || lost_lease_count || ' attempts=' || attempt_count || ' failures=' || failure_count || ' unknown='
			|| outcome_unknown || ' slot=' || (stage in ('HOLDS', 'DOUBT')) || ' error=' || last_error
		from pgdispatch.workflow_execution_queue where id = $1`, items[0].ID), "its owner may have started the workflow")

	swept, err = b.Sweep(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, swept.Requeued)
}

func TestSweepOfNothingKnowsNoNextExpiry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	swept, err := b.Sweep(t.Context(), 10)
	require.NoError(t, err)
	require.WithinDuration(t, sqltest.Scalar[time.Time](b.Shop, "select clock_timestamp()"), swept.Now, 5*time.Second)
	require.Equal(t, sweeper.Swept{Now: swept.Now, OldestOpen: swept.OldestOpen, Namespaces: []string{""}}, swept)
}

func TestSweepersAtOnceCountNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const items = 90
	claimed := b.claimed(b.Store, items)
	b.expire(claimed...)
	var requeued atomic.Int64
	var sweepers sync.WaitGroup
	for range 4 {
		sweepers.Go(func() {
			for requeued.Load() < items {
				swept, err := b.Sweep(t.Context(), 7)
				if err != nil || swept.Requeued > 7 {
					t.Error(swept, err)
					return
				}
				requeued.Add(int64(swept.Requeued))
			}
		})
	}
	sweepers.Wait()
	require.EqualValues(t, items, requeued.Load())
	require.Equal(t, items,
		sqltest.Scalar[int](b.Shop,
			"select count(*) from pgdispatch.workflow_execution_queue where lost_lease_count = 1 and lease_token > $1",
			claimed[items-1].Token))
	require.Equal(t, items,
		sqltest.Scalar[int](b.Shop, "select count(distinct lease_token) from pgdispatch.workflow_execution_queue"))
}
