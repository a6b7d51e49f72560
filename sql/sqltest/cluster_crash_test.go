package sqltest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestACrashUndoesAsynchronousCommitsAndNoOthers(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, sqltest.Options{})
	conn, err := pgx.Connect(t.Context(), cluster.URL("postgres"))
	require.NoError(t, err)
	require.NoError(t, cluster.HoldWAL(t.Context()))
	for _, statement := range []string{
		"create table kept (n integer)", "set synchronous_commit = off", "insert into kept values (1)",
		"set synchronous_commit = on", "insert into kept values (2)", // durable, and with it what came before
		"set synchronous_commit = off", "insert into kept values (3)",
	} {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	port := cluster.Port
	require.NoError(t, cluster.Crash(t.Context()))
	require.Equal(t, port, cluster.Port)
	require.Equal(t, "1,2", query(t, cluster, "select string_agg(n::text, ',' order by n) from kept"))
}
