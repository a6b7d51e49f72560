package claim

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// Behind a transaction pooler no statement can be prepared, and pgx must know every parameter's type by itself.
func TestEveryStatementWorksWithoutPreparing(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheDescribe} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			config := b.pool.Config()
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			store := &Store{Pool: pool, Owner: "pooled", Lease: b.Lease}
			ctx := t.Context()

			require.NoError(t, store.Alive(ctx, Presence{Version: "v1", Workers: 10}))
			items := b.claimed(store, 5)
			renewed, err := store.Heartbeat(ctx, []Held{{items[0].ID, items[0].Token}})
			require.NoError(t, err)
			require.Len(t, renewed, 1)
			for n, verb := range verbs {
				ids, err := store.Settle(ctx, verb, []Settlement{settlementOf(items[n], verb)})
				require.NoError(t, err)
				require.Len(t, ids, 1, verb)
			}
			executions, err := store.Adopt(ctx, 10, nil)
			require.NoError(t, err)
			require.Len(t, executions, 1)
			executions, err = store.Adopt(ctx, 10, []string{items[0].ExecutionID})
			require.NoError(t, err)
			require.Empty(t, executions)
			first, err := store.Finish(ctx, items[0].ExecutionID, "FAILED", "boom", "")
			require.NoError(t, err)
			require.True(t, first)
			_, err = store.Sweep(ctx, 10)
			require.NoError(t, err)
			require.NoError(t, store.Ping(ctx, "pgdispatch", ""))
			_, err = store.SetSettings(ctx, ptr(7), ptr(false), nil, "me")
			require.NoError(t, err)
			settings, err := store.Settings(ctx)
			require.NoError(t, err)
			require.Equal(t, Settings{MaxClaims: 7, ResultBytes: 4096}, settings)
			replicas, err := store.Replicas(ctx)
			require.NoError(t, err)
			require.Len(t, replicas, 1)
			require.Equal(t, "pooled", replicas[0].ID)
			workspaces, err := store.WorkspaceStatistics(ctx, 10)
			require.NoError(t, err)
			require.Len(t, workspaces, 1)
			released, err := store.ReleaseOwned(ctx)
			require.NoError(t, err)
			require.Equal(t, 1, released)
			require.NoError(t, store.Gone(ctx))
		})
	}
}

func TestEverythingButClaimsGoesThroughAsync(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	closed, err := pgxpool.New(t.Context(), sqltest.URL(t))
	require.NoError(t, err)
	closed.Close()
	b.Async = closed
	item := b.claimed(b.Store, 1)[0]
	for _, verb := range verbs {
		_, err := b.Settle(t.Context(), verb, []Settlement{settlementOf(item, verb)})
		require.Error(t, err)
	}
	_, err = b.Heartbeat(t.Context(), []Held{{item.ID, item.Token}})
	require.ErrorContains(t, err, "renew leases: ")
	require.Equal(t, "CLAIMED", b.status(item))
}
