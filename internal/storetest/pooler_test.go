package storetest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

// Behind a transaction pooler statements cannot be prepared, so pgx must infer every parameter's type.
func TestEveryStatementWorksWithoutPreparing(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeCacheDescribe} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			b := New(t)
			config := b.Conns.Config()
			config.ConnConfig.DefaultQueryExecMode = mode
			pool := must.Get(pgxpool.NewWithConfig(t.Context(), config)).In(t)
			t.Cleanup(pool.Close)
			store := On(t, &sqltest.Shop{Conns: pool, Shop: b.Shop.Shop}, "pooled")
			ctx := t.Context()

			require.NoError(t,
				postgres.Exec(ctx, pool, "renew replica", sql.Text("replica_alive"), "pooled", "v1", 10, b.Lease, nil, "{}"))
			items := claimed(t, b, store, 5)
			require.Len(t, must.Get(store.Heartbeat(ctx, []claim.Held{{ID: items[0].ID, Token: items[0].Token}})).In(t), 1)
			for n, verb := range []claim.Verb{claim.Dispatched, claim.Retry, claim.Release, claim.Fail} {
				ids := must.Get(store.Settle(ctx, verb,
					[]claim.Settlement{
						{ID: items[n].ID, Token: items[n].Token, RunID: "run", Error: "boom", Delay: time.Hour, Unanswered: true}})).In(t)
				require.Len(t, ids, 1, verb)
			}
			executions := must.Get(store.Adopt(ctx, 10, nil)).In(t)
			require.Len(t, executions, 1)
			executions = must.Get(store.Adopt(ctx, 10, []string{items[0].ExecutionID})).In(t)
			require.Empty(t, executions)
			require.True(t, must.Get(store.Finish(ctx, items[0].ExecutionID, "FAILED", "boom", "")).In(t))
			must.Get(store.Sweep(ctx, 10)).In(t)
			require.NoError(t, (&notify.PoolPinger{DB: pool}).Ping(ctx, "pgdispatch", ""))
			must.Get(store.ChangeSettings(ctx, operate.Patch{"max_claims": 7, "paused": false}, "me")).In(t)
			require.Equal(t, operate.Settings{MaxClaims: 7, ResultBytes: 4096, WorkflowIDBytes: 255},
				must.Get(store.Settings(ctx)).In(t))
			replicas := must.Get(store.Replicas(ctx)).In(t)
			require.Len(t, replicas, 1)
			require.Equal(t, "pooled", replicas[0].ID)
			require.Len(t, must.Get(store.WorkspaceStatistics(ctx, 10)).In(t), 1)
			released, err := postgres.Values[int64](ctx, pool, "release owned items", sql.Text("release_owned"), "pooled")
			require.NoError(t, err)
			require.Len(t, released, 1)
			require.NoError(t, postgres.Exec(ctx, pool, "remove replica", sql.Text("replica_gone"), "pooled"))
		})
	}
}

// claimed enqueues items through one bench and claims them with another's store.
func claimed(t *testing.T, b, store *Bench, items int) []claim.Item {
	t.Helper()
	b.Insert(b.Shop.Shop, items)
	batch := must.Get(store.Claim(t.Context(), items)).In(t)
	require.Len(t, batch.Items, items)
	return batch.Items
}
