package replica

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// harsh returns a database whose settings time out everything quickly.
func harsh(t *testing.T) string {
	t.Helper()
	address := sqltest.URL(t)
	conn := must.Get(pgx.Connect(t.Context(), address)).In(t)
	defer conn.Close(t.Context())
	for _, setting := range []string{
		"statement_timeout = '50ms'", "lock_timeout = '50ms'", "idle_session_timeout = '50ms'",
		"default_transaction_isolation = 'serializable'", "tcp_user_timeout = 0", "jit = on", "synchronous_commit = local",
	} {
		_, err := conn.Exec(t.Context(), `do $$ begin execute format('alter database %I set `+
			strings.ReplaceAll(setting, "'", "''")+`', current_database()); end $$`)
		require.NoError(t, err, setting)
	}
	return address
}

func show(t *testing.T, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, names ...string) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, name := range names {
		var value string
		require.NoError(t, on.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&value))
		values[name] = value
	}
	return values
}

func TestNoSettingOfTheRoleOrTheDatabaseCutsAReplicaOff(t *testing.T) {
	t.Parallel()
	address := harsh(t)
	forClaims, forOthers := poolSettings(config.Config{Listen: true, Durable: config.DurableClaims})
	for _, c := range []struct {
		settings     map[string]string
		commit, lock string
	}{{forClaims, "on", "100ms"}, {forOthers, "off", "1s"}} {
		pool := must.Get(postgres.Target{URL: address}.OpenPool(t.Context(), 2, c.settings)).In(t)
		t.Cleanup(pool.Close)
		require.Equal(t, map[string]string{
			"statement_timeout": "0", "lock_timeout": c.lock, "idle_session_timeout": "0",
			"default_transaction_isolation": "read committed", "jit": "off", "synchronous_commit": c.commit,
			"pgdispatch.durable_commits": "claims",
		}, show(t, pool, "statement_timeout", "lock_timeout", "idle_session_timeout", "default_transaction_isolation", "jit",
			"synchronous_commit", "pgdispatch.durable_commits"))
	}
	listener := must.Get(dialListener(postgres.Target{URL: address})(t.Context())).In(t)
	t.Cleanup(func() { _ = listener.Close(context.Background()) })
	// A suspended client reads no data: its listener would hold back vacuum and fill the notification queue. So the
	// server gives it up, and a gate as well. These are the server's view of the socket, in milliseconds and seconds.
	require.Equal(t, map[string]string{"idle_session_timeout": "0", "statement_timeout": "0", "tcp_user_timeout": "8000"},
		show(t, listener, "idle_session_timeout", "statement_timeout", "tcp_user_timeout"))
	gate := must.Get(dialGate(postgres.Target{URL: address})(t.Context())).In(t)
	t.Cleanup(func() { _ = gate.Close(context.Background()) })
	require.Equal(t, map[string]string{"idle_session_timeout": "0", "synchronous_commit": "off",
		"tcp_user_timeout": "8000", "tcp_keepalives_idle": "5", "tcp_keepalives_interval": "1", "tcp_keepalives_count": "3",
	}, show(t, gate.(*notify.Session).Conn, "idle_session_timeout", "synchronous_commit", "tcp_user_timeout",
		"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"))
}

// After a failover the old primary may come back on the old address.
func TestAServerThatRefusesWritesIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	address := must.Get(url.Parse(sqltest.URL(t))).In(t)
	query := address.Query()
	query.Set("default_transaction_read_only", "on")
	address.RawQuery = query.Encode()
	pool := must.Get(postgres.Target{URL: address.String()}.OpenPool(t.Context(), 1, nil)).In(t)
	t.Cleanup(pool.Close)
	require.ErrorContains(t, pool.Ping(t.Context()), "read only connection")
	_, err := dialListener(postgres.Target{URL: address.String()})(t.Context())
	require.ErrorContains(t, err, "read only connection")
}

func TestAReplicaWaitsForAConnectionAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	address := must.Get(url.Parse(sqltest.URL(t))).In(t)
	conn := must.Get(pgx.Connect(t.Context(), address.String())).In(t)
	role := fmt.Sprintf("limited_%d", time.Now().UnixNano())
	execute := func(statement string) { must.Get(conn.Exec(context.Background(), statement)).In(t) }
	execute("create role " + role + " login connection limit 0")
	execute("grant usage on schema pgdispatch to " + role)
	execute("grant select on all tables in schema pgdispatch to " + role)
	t.Cleanup(func() {
		execute("drop owned by " + role)
		execute("drop role " + role)
		_ = conn.Close(context.Background())
	})
	address.User = url.User(role)
	pool := must.Get(postgres.Target{URL: address.String()}.OpenPool(t.Context(), 1, nil)).In(t)
	t.Cleanup(pool.Close)

	logs, ready := &process.Buffer{}, make(chan error, 1)
	go func() { ready <- awaitSchema(t.Context(), pool, slog.New(slog.NewJSONHandler(logs, nil))) }()
	require.Eventually(t, func() bool {
		return strings.Contains(logs.String(), "Waiting for Postgres")
	}, 20*time.Second, 5*time.Millisecond)
	require.Contains(t, logs.String(), "53300")
	require.Contains(t, logs.String(), "raise max_connections or the role's limit")
	execute("alter role " + role + " connection limit 5")
	require.NoError(t, <-ready)
}

func TestDurableCommitsSayWhatWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	for durable, want := range map[config.Durability][2]string{config.DurableClaims: {"on", "off"},
		config.DurableAll: {"on", "on"}, config.DurableNone: {"off", "off"}} {
		claims, others := poolSettings(config.Config{Listen: true, Durable: durable})
		require.Equal(t, want, [2]string{claims["synchronous_commit"], others["synchronous_commit"]}, durable)
		require.Equal(t, "read committed", claims["default_transaction_isolation"])
	}
	claims, others := poolSettings(config.Config{Durable: config.DurableNone})
	require.Nil(t, claims, "a transaction pooler takes no settings")
	require.Nil(t, others)
}

func TestMain(m *testing.M) { sqltest.Main(m) }

func TestASchemaFromBeforeTheBaselineIsRefused(t *testing.T) {
	t.Parallel()
	pool := sqltest.Pool(t, sqltest.EmptyURL(t))
	for _, statement := range []string{"create schema pgdispatch",
		"create table pgdispatch.migrations as select 10 as version"} {
		must.Get(pool.Exec(t.Context(), statement)).In(t)
	}
	require.ErrorContains(t, awaitSchema(t.Context(), pool, slog.New(slog.DiscardHandler)),
		"`drop schema pgdispatch cascade`", "no replica starts")
	require.ErrorContains(t, databaseReady(t.Context(), pool), "`drop schema pgdispatch cascade`")
}
