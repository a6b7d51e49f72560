package sql_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// A role without any grant listens, stays in one transaction, and so fills the notification queue of the whole cluster,
// here to a tenth of its eight gigabytes. Once it is full, every notifying transaction fails at commit.
func TestAStrangerWhoFillsTheNotificationQueueStopsNoEnqueue(t *testing.T) {
	t.Parallel()
	cluster, err := sqltest.StartCluster(t.Context(), sqltest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	conn, err := pgx.Connect(t.Context(), cluster.URL("postgres"))
	require.NoError(t, err)
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	require.NoError(t, conn.Close(t.Context()))
	pool, err := pgxpool.New(t.Context(), cluster.URL("postgres"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	f := fixture{t: t, pool: pool, db: pool, replicas: &sync.Map{}}
	w := f.tenant("PRO")
	sweeps := &sweeper.Postgres{DB: pool, Owner: "replica"}
	usage := func() float64 {
		swept, err := sweeps.Sweep(t.Context(), 1)
		require.NoError(t, err)
		return swept.NotifyQueue
	}
	dispatcher := f.conn()
	dispatcher.exec("listen pgdispatch")
	f.exec(sql.Text("gate_shut"))

	f.exec("create role stranger login")
	stranger, err := pgx.Connect(t.Context(), strings.Replace(cluster.URL("postgres"), "postgres@", "stranger@", 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = stranger.Close(context.Background()) })
	for _, statement := range []string{"listen x", "begin", "select 1"} {
		_, err = stranger.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	for flooded := 0; usage() < notify.QueueBound; flooded++ {
		require.Less(t, flooded, 100)
		f.exec("select count(pg_notify('x', repeat('x', 7980) || n)) from generate_series(1, 2000) n")
		holder, err := sweeps.QueueHolder(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, stranger.PgConn().PID(), holder.PID, "the dispatcher only reads: %s", holder)
	}
	for range 10 {
		f.item(w)
	}
	f.exec(sql.Text("gate_call"), "x")
	depth, err := (&operate.Store{DB: pool}).QueueDepth(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, depth.NotifyQueue, notify.QueueBound)
	require.Len(t, f.claim(10).items, 5, "items are claimed without notifications")

	require.NoError(t, stranger.Close(t.Context()))
	require.Eventually(t, func() bool {
		swept, err := sweeps.Sweep(t.Context(), 1)
		return err == nil && swept.NotifyQueue < notify.QueueBound // a sweep that empties gigabytes may time out
	}, time.Minute, 10*time.Millisecond, "a sweep empties the queue")
	f.item(w)
	heard, err := dispatcher.db.(*pgxpool.Conn).Conn().WaitForNotification(t.Context())
	require.NoError(t, err)
	last := one[int64](f,
		"select (extract(epoch from max(run_at)) * 1000000)::bigint from pgdispatch.workflow_execution_queue")
	require.Contains(t, heard.Payload, fmt.Sprint(last), "it announces this item, and none was announced before")
}
