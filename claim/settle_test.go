package claim

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

func TestSettleMovesTheItem(t *testing.T) {
	t.Parallel()
	for verb, want := range map[Verb]string{
		Dispatched: "DISPATCHED attempts=1 failures=0 unknown=false error= execution=RUNNING run=run watcher=a",
		Retry:      "PENDING attempts=1 failures=1 unknown=true error=boom execution=STARTING run= watcher=a",
		Release:    "PENDING attempts=0 failures=0 unknown=true error=boom execution=STARTING run= watcher=a",
		Fail:       "FAILED attempts=1 failures=1 unknown=false error=boom execution=FAILED run= watcher=a",
	} {
		t.Run(string(verb), func(t *testing.T) {
			b := newBench(t)
			item := b.claimed(1)[0]
			require.Equal(t, []int64{item.ID}, b.settle(verb, settlementOf(item, verb)))
			require.Equal(t, want, sqltest.Scalar[string](b.Shop, `select q.status || ' attempts=' || q.attempt_count
				|| ' failures=' || q.failure_count
				|| ' unknown=' || q.outcome_unknown || ' error=' || coalesce(q.last_error, '') || ' execution=' || e.status
				|| ' run=' || coalesce(e.run_id, '') || ' watcher=' || coalesce(e.watcher, '')
				from pgdispatch.workflow_execution_queue q join pgdispatch.workflow_executions e on e.id = q.execution_id`))
			waits := sqltest.Scalar[bool](b.Shop,
				"select run_at > clock_timestamp() + interval '59 minutes' from pgdispatch.workflow_execution_queue")
			require.Equal(t, verb == Retry || verb == Release, waits)
		})
	}
}

func TestSettleReportsExactlyWhatItMoved(t *testing.T) {
	b := newBench(t)
	items := b.claimed(6)
	b.expire(items[1])
	batch := []Settlement{{ID: 999999, Token: 1}}
	for n := len(items) - 1; n >= 0; n-- { // in reverse order
		batch = append(batch, Settlement{ID: items[n].ID, Token: items[n].Token, RunID: "run-" + items[n].ExecutionID})
	}
	batch[1].Token++ // of items[5]
	require.ElementsMatch(t, []int64{items[0].ID, items[2].ID, items[3].ID, items[4].ID}, b.settle(Dispatched, batch...))
	require.Equal(t, 4,
		sqltest.Scalar[int](b.Shop, "select count(*) from pgdispatch.workflow_executions where run_id = 'run-' || id"),
		"each execution has its own run")
}

func TestSettleOfNothingAndOfAnUnknownVerb(t *testing.T) {
	b := newBench(t)
	for _, verb := range verbs {
		require.Empty(t, b.settle(verb))
	}
	_, err := b.Settle(t.Context(), "forget", nil)
	require.ErrorContains(t, err, `unknown verb "forget"`)
}

func TestReleaseWithoutAnErrorKeepsTheLastOne(t *testing.T) {
	b := newBench(t)
	item := b.claimed(1)[0]
	b.settle(Retry, Settlement{ID: item.ID, Token: item.Token, Error: "boom"})
	item = b.claim(1).Items[0]
	b.settle(Release, Settlement{ID: item.ID, Token: item.Token})
	require.Equal(t, "boom", sqltest.Scalar[string](b.Shop, "select last_error from pgdispatch.workflow_execution_queue"))
}

func TestAnyCleanErrorCanBeStored(t *testing.T) {
	b := newBench(t)
	for name, text := range map[string]string{"NUL": "a\x00b", "not UTF-8": "a\xff\xc3(b", "lines": "a\r\nb",
		"long": strings.Repeat("日", 3000)} {
		item := b.claimed(1)[0]
		require.Len(t, b.settle(Fail, Settlement{ID: item.ID, Token: item.Token, Error: text, Delay: time.Second}), 1, name)
		require.Equal(t, postgres.Clean(text),
			sqltest.Scalar[string](b.Shop, "select last_error from pgdispatch.workflow_execution_queue where id = $1", item.ID),
			name)
	}
}

func TestSweepKnowsTheNextExpiryWhichAHeartbeatPutsOff(t *testing.T) {
	b := newBench(t)
	swept := b.sweep()
	require.WithinDuration(t, sqltest.Scalar[time.Time](b.Shop, "select clock_timestamp()"), swept.Now, 5*time.Second)
	want := sweeper.Swept{Now: swept.Now, OldestOpen: swept.OldestOpen, Epoch: swept.Epoch, Namespaces: []string{""},
		Vanished: []string{}, Failing: map[string]string{}, Housework: true}
	require.Equal(t, want, swept)
	items := b.claimed(1)
	b.Execute("update pgdispatch.workflow_execution_queue set lease_expires_at = now() + interval '2 seconds'")
	b.renew(items...)
	require.InDelta(t, 30*time.Second, *b.sweep().NextExpiryIn, float64(5*time.Second))
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
	require.Equal(t, items, sqltest.Scalar[int](b.Shop,
		"select count(*) from pgdispatch.workflow_execution_queue where lost_lease_count = 1 and lease_token > $1",
		claimed[items-1].Token))
	require.Equal(t, items,
		sqltest.Scalar[int](b.Shop, "select count(distinct lease_token) from pgdispatch.workflow_execution_queue"))
}
