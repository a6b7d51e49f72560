package operate_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

func TestPins_NameAnOpenTransactionThatReadsOrWrites(t *testing.T) {
	must.Each(t, map[string]struct {
		level pgx.TxIsoLevel
		does  string
	}{
		"by its snapshot": {pgx.RepeatableRead, "select 1"},
		"by its ID":       {pgx.ReadCommitted, "select pg_current_xact_id()"}, // has no snapshot between statements
	}, func(t *testing.T, holds struct {
		level pgx.TxIsoLevel
		does  string
	}) {
		b := storetest.Open(t)
		tx := must.Get(b.Conns.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: holds.level})).In(t)
		var pid string
		require.NoError(t, tx.QueryRow(t.Context(), "select pg_backend_pid()::text").Scan(&pid))
		must.Get(tx.Exec(t.Context(), holds.does)).In(t) // ends the cursor above, which keeps its snapshot
		pinning := func(long time.Duration) bool {
			pins := must.Get(b.Pins(t.Context(), long, 1000)).In(t)
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
	})
}

func TestPins_NameAStandbyThatHoldsRowVersionsBack(t *testing.T) {
	t.Parallel()
	primary, url := sqltest.Private(t)
	standby := must.Get(primary.Standby(t.Context())).In(t)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	reads := sqltest.Pool(t, standby.URL("postgres"))
	for _, statement := range []string{"alter system set hot_standby_feedback = on",
		"alter system set wal_receiver_status_interval = '1s'", "select pg_reload_conf()"} {
		must.Get(reads.Exec(t.Context(), statement)).In(t)
	}
	tx := must.Get(reads.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})).In(t)
	must.Get(tx.Exec(t.Context(), "select 1")).In(t)
	db := sqltest.Pool(t, url)
	store := &operate.Store{DB: db}
	names := func(far int64) bool {
		pins := must.Get(store.Pins(t.Context(), time.Hour, far)).In(t)
		return slices.ContainsFunc(pins, func(p operate.Pin) bool { return p.Kind == "standby" })
	}
	require.Eventually(t, func() bool {
		must.Get(db.Exec(t.Context(), "select pg_current_xact_id()")).In(t)
		return names(3)
	}, time.Minute, 50*time.Millisecond)
	require.False(t, names(1_000_000), "not far enough")
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestServer_SaysTheLimitsOfTheRoleAndTheDatabase(t *testing.T) {
	b := storetest.Open(t)
	url := sqltest.Login(t, b.Conns.Config().ConnString(), "connection limit 7 in role pgdispatch_dispatcher")
	pool := sqltest.Pool(t, url)
	limited := &operate.Store{DB: pool}
	server := must.Get(limited.Server(t.Context())).In(t)
	require.Equal(t, 7, *server.RoleAllowed)
	require.EqualValues(t, 1, server.RoleConnections)
	require.Nil(t, server.DatabaseAllowed)
	b.Execute(`do $$ begin execute format('alter database %I connection limit 9', current_database()); end $$`)
	server = must.Get(limited.Server(t.Context())).In(t)
	require.Equal(t, 9, *server.DatabaseAllowed)
	require.Positive(t, server.DatabaseConnections)
	server = must.Get(b.Server(t.Context())).In(t)
	require.Nil(t, server.DatabaseAllowed, "a superuser has no limits")
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
	pins := must.Get(b.Pins(t.Context(), 0, 1000)).In(t)
	must.Get(conn.Exec(t.Context(), "rollback prepared 'left over'")).In(t)
	names := []string{}
	for _, p := range pins {
		names = append(names, p.Kind+" "+p.Name)
	}
	require.Contains(t, names, "prepared transaction left over")
}
