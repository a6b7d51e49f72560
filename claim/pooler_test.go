package claim

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestEverythingButClaimsGoesThroughAsync(t *testing.T) {
	b := newBench(t)
	closed, err := pgxpool.New(t.Context(), sqltest.URL(t))
	require.NoError(t, err)
	closed.Close()
	b.Async = closed
	item := b.claimed(1)[0]
	for _, verb := range verbs {
		_, err := b.Settle(t.Context(), verb, []Settlement{settlementOf(item, verb)})
		require.Error(t, err)
	}
	_, err = b.Heartbeat(t.Context(), []Held{{item.ID, item.Token}})
	require.ErrorContains(t, err, "renew leases: ")
	require.Equal(t, "CLAIMED", b.Status(item.ID))
}
