package operate_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/stretchr/testify/require"
)

func TestAnOpenTransactionIsSeenToPinTheHorizon(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	tx, err := b.Conns.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	var pid string
	require.NoError(t, tx.QueryRow(t.Context(), "select pg_backend_pid()::text").Scan(&pid))
	pinning := func(long time.Duration) bool {
		pins, err := b.Pins(t.Context(), long)
		require.NoError(t, err)
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
	t.Parallel()
	b := storetest.New(t)
	conn, err := pgx.ConnectConfig(t.Context(), b.Conns.Config().ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	_, took, err := b.Hear(t.Context(), conn, "token")
	require.NoError(t, err)
	require.Positive(t, took)
}

func TestAServerIsDescribed(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	server, err := b.Server(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, server.Version, 150000)
	require.Equal(t, "UTF8", server.Encoding)
	require.True(t, server.SeesAll)
	require.Positive(t, server.Connections)
	require.Contains(t, server.Settings, "fsync")
	require.Contains(t, server.Settings, "statement_timeout")
}

func TestATwoPhaseCommitThatWasLeftOverIsSeen(t *testing.T) {
	t.Parallel()
	b := storetest.New(t)
	conn, err := b.Conns.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, statement := range []string{"begin", "select pg_current_xact_id()", "prepare transaction 'left over'"} {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	pins, err := b.Pins(t.Context(), 0)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "rollback prepared 'left over'")
	require.NoError(t, err)
	names := []string{}
	for _, p := range pins {
		names = append(names, p.Kind+" "+p.Name)
	}
	require.Contains(t, names, "prepared transaction left over")
}
