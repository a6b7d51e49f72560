package e2e

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/test/internal/pooler"
)

// throughPooler returns the URL of a database behind a PgBouncer of this test, in transaction mode.
func throughPooler(t testing.TB, database string) string {
	t.Helper()
	server := must.Get(url.Parse(database)).In(t)
	p := must.Get(pooler.Start(t.Context(), server.Host, "")).In(t)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	server.Host = p.Address
	return server.String()
}

// PgBouncer answers with the same SQLSTATE as when it refuses a setting.
func TestPooler_ThatCannotReachPostgresIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	server := must.Get(url.Parse(s.url)).In(t)
	database := strings.TrimPrefix(server.Path, "/")
	p := must.Get(pooler.Start(t.Context(), server.Host, "server_login_retry = 2")).In(t)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	administrator := *server
	administrator.Path = "/postgres"
	db := sqltest.Pool(t, administrator.String())
	server.Host = p.Address
	s.url = server.String()
	// To PgBouncer this looks as if Postgres were starting up.
	must.Get(db.Exec(t.Context(), "alter database "+database+" allow_connections false")).In(t)

	replica := s.replica("PGDISPATCH_LISTEN=off", "PGDISPATCH_POLL_INTERVAL=100ms")
	s.eventually(func() bool {
		return replica.has("Waiting for Postgres") || !replica.Running()
	}, "PgBouncer has answered")
	require.True(t, replica.Running(), replica.Tail())
	must.Get(db.Exec(t.Context(), "alter database "+database+" allow_connections true")).In(t)
	s.enqueue("PRO", "Echo", 3)
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 3 || !replica.Running() }, "it starts")
	require.True(t, replica.Running(), replica.Tail())
}

func TestPooler_ThatRefusesSettingsIsNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.url = throughPooler(t, s.url)
	replica := s.replica()
	require.Equal(t, 1, replica.exit())
	require.Contains(t, replica.Log(), "unsupported startup parameter")
	require.Contains(t, replica.Log(), "set PGDISPATCH_LISTEN=off or connect directly")
}
