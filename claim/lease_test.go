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
	b := newBench(t)
	items := b.claimed(4)
	live, expired, settled, renamed := items[0], items[1], items[2], items[3]
	b.Execute(`update pgdispatch.workflow_execution_queue
		set lease_expires_at = clock_timestamp() + interval '2 seconds' where id = $1`, live.ID)
	b.expire(expired)
	b.settle(Release, settlementOf(settled, Release))
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
	b.with(b.replica("b")).claim(1)
	require.Equal(t, "PENDING", b.Status(expired.ID), "a claim does a sweeper's work")
}

func TestSweepRequeuesWhatExpiredAndNothingElse(t *testing.T) {
	b := newBench(t)
	items := b.claimed(5)
	running := b.dispatched()
	b.expire(items[0], items[3])
	alive := b.Row(items[1].ID)
	swept := b.sweep()
	require.Equal(t, 2, swept.Requeued)
	require.InDelta(t, 30*time.Second, *swept.NextExpiryIn, float64(5*time.Second))
	require.Equal(t, "PENDING", b.Status(items[0].ID))
	require.Equal(t, alive, b.Row(items[1].ID))
	require.Equal(t, "PENDING", b.Status(items[3].ID))
	require.Equal(t, "DISPATCHED", b.Status(running.ID))
	require.Zero(t, b.sweep().Requeued)
}

func TestSweepOfNothingKnowsNoNextExpiry(t *testing.T) {
	b := newBench(t)
	swept := b.sweep()
	require.WithinDuration(t, sqltest.Scalar[time.Time](b.Shop, "select clock_timestamp()"), swept.Now, 5*time.Second)
	require.Equal(t, sweeper.Swept{Now: swept.Now, OldestOpen: swept.OldestOpen, Namespaces: []string{""}}, swept)
}

func TestSweepersAtOnceCountNothingTwice(t *testing.T) {
	b := newBench(t)
	const items = 90
	claimed := b.claimed(items)
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
