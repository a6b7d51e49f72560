package operate_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/stretchr/testify/require"
)

func TestAnOpenTransactionIsSeenToPinTheHorizon(t *testing.T) {
	b := storetest.Open(t)
	tx := must.Get(b.Conns.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})).In(t)
	var pid string
	require.NoError(t, tx.QueryRow(t.Context(), "select pg_backend_pid()::text").Scan(&pid))
	pinning := func(long time.Duration) bool {
		pins := must.Get(b.Pins(t.Context(), long)).In(t)
		for _, p := range pins {
			if p.Kind == "session" && p.Name == pid && *p.Age > 0 {
				return true
			}
		}
		return false
	}
	require.True(t, pinning(0))
	require.False(t, pinning(time.Hour), "not long enough")
	require.NoError(t, tx.Rollback(t.Context()))
	require.False(t, pinning(0))
}

func TestANotificationIsHeard(t *testing.T) {
	b := storetest.Open(t)
	conn := must.Get(pgx.ConnectConfig(t.Context(), b.Conns.Config().ConnConfig)).In(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	_, took, err := b.Hear(t.Context(), conn, "token")
	require.NoError(t, err)
	require.Positive(t, took)
}

func TestAServerIsDescribed(t *testing.T) {
	b := storetest.Open(t)
	server := must.Get(b.Server(t.Context())).In(t)
	require.GreaterOrEqual(t, server.Version, 150000)
	require.Equal(t, "UTF8", server.Encoding)
	require.True(t, server.SeesAll)
	require.Positive(t, server.Connections)
	require.Subset(t, slices.Collect(maps.Keys(server.Settings)), []string{"fsync", "statement_timeout"})
}

func TestATwoPhaseCommitThatWasLeftOverIsSeen(t *testing.T) {
	b := storetest.Open(t)
	conn := must.Get(b.Conns.Acquire(t.Context())).In(t)
	defer conn.Release()
	for _, statement := range []string{"begin", "select pg_current_xact_id()", "prepare transaction 'left over'"} {
		must.Get(conn.Exec(t.Context(), statement)).In(t)
	}
	pins := must.Get(b.Pins(t.Context(), 0)).In(t)
	must.Get(conn.Exec(t.Context(), "rollback prepared 'left over'")).In(t)
	names := []string{}
	for _, p := range pins {
		names = append(names, p.Kind+" "+p.Name)
	}
	require.Contains(t, names, "prepared transaction left over")
}
