package claim_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// As behind a transaction pooler, which takes no settings.
func TestClaim_NamesItsIsolationWhereTheDefaultIsAnother(t *testing.T) {
	for _, isolation := range []string{"serializable", "repeatable read"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			b := storetest.New(t)
			config := b.Conns.Config()
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = isolation
			pool := must.Get(pgxpool.NewWithConfig(t.Context(), config)).In(t)
			t.Cleanup(pool.Close)
			store := storetest.On(t, &sqltest.Shop{Conns: pool, Shop: b.Shop.Shop}, "pooled")
			for range 3 {
				b.Insert(b.Shop.Shop, 2)
				require.Len(t, must.Get(store.Claim(t.Context(), 2)).In(t).Items, 2)
			}
			require.Zero(t, pool.Stat().AcquiredConns())
		})
	}
}
