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

// ownCluster starts a cluster for this test alone, which sees all its sessions and fills its notification queue.
func ownCluster(t *testing.T) (*sqltest.Cluster, fixture) {
	cluster := must(sqltest.StartCluster(t.Context(), sqltest.Options{})).in(t)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	conn := must(pgx.Connect(t.Context(), cluster.URL("postgres"))).in(t)
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	require.NoError(t, conn.Close(t.Context()))
	pool := sqltest.Pool(t, cluster.URL("postgres"))
	return cluster, fixture{t: t, pool: pool, db: pool, replicas: &sync.Map{}}
}

func connectAs(t *testing.T, cluster *sqltest.Cluster, role string) *pgx.Conn {
	conn := must(pgx.Connect(t.Context(), strings.Replace(cluster.URL("postgres"), "postgres@", role+"@", 1))).in(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// A role sees in pg_stat_activity what its own sessions do, and of others only that they exist.
func TestOnlyASessionThatSurelyHoldsTheNotificationQueueIsNamed(t *testing.T) {
	t.Parallel()
	cluster, f := ownCluster(t)
	f.exec("create role stranger login")
	f.exec("create role replica login in role pgdispatch_dispatcher")
	sweeps, claims := connectAs(t, cluster, "replica"), connectAs(t, cluster, "replica")
	named := func() *notify.Holder {
		holder := must(notify.QueueHolder(t.Context(), sweeps)).in(t)
		return holder
	}
	require.Nil(t, named(), "nobody is in a transaction")
	begin := func(conn *pgx.Conn) {
		for _, statement := range []string{"begin", "select 1"} {
			must(conn.Exec(t.Context(), statement)).in(t)
		}
	}
	begin(claims)
	require.Nil(t, named(), "a replica's own transactions are short")
	stranger := connectAs(t, cluster, "stranger")
	begin(stranger)
	require.Nil(t, named(), "it may be the stranger, whose transaction this role cannot see")

	f.exec("grant pg_read_all_stats to replica")
	require.EqualValues(t, stranger.PgConn().PID(), named().PID, "the replica's own transaction is older, but short")
	var found uint32
	require.NoError(t, sweeps.QueryRow(t.Context(), notify.FindHolder).Scan(&found, nil, nil, nil, nil))
	require.Equal(t, claims.PgConn().PID(), found, "the administrator's query shows the oldest transaction first")
	require.NoError(t, stranger.Close(t.Context()))
	f.exec("revoke pg_read_all_stats from replica")
	require.Nil(t, named())
}

// A role without any grant listens, stays in one transaction, and so fills the notification queue of the whole cluster,
// here to a tenth of its eight gigabytes. Once it is full, every notifying transaction fails at commit.
func TestAStrangerWhoFillsTheNotificationQueueStopsNoEnqueue(t *testing.T) {
	t.Parallel()
	cluster, f := ownCluster(t)
	w := f.tenant("PRO")
	sweeps := &sweeper.Postgres{DB: f.pool, Owner: "replica"}
	usage := func() float64 {
		swept := must(sweeps.Sweep(t.Context(), 1)).in(t)
		return swept.NotifyQueue
	}
	dispatcher := f.conn()
	dispatcher.exec("listen pgdispatch")
	f.exec(sql.Text("gate_shut"))

	f.exec("create role stranger login")
	stranger := connectAs(t, cluster, "stranger")
	for _, statement := range []string{"listen x", "begin", "select 1"} {
		must(stranger.Exec(t.Context(), statement)).in(t)
	}
	for flooded := 0; usage() < notify.QueueBound; flooded++ {
		require.Less(t, flooded, 100)
		f.exec("select count(pg_notify('x', repeat('x', 7980) || n)) from generate_series(1, 2000) n")
		holder := must(sweeps.QueueHolder(t.Context())).in(t)
		require.EqualValues(t, stranger.PgConn().PID(), holder.PID, "the dispatcher only reads: %s", holder)
	}
	for range 10 {
		f.item(w)
	}
	f.exec(sql.Text("gate_call"), "x")
	depth := must((&operate.Store{DB: f.pool}).QueueDepth(t.Context())).in(t)
	require.GreaterOrEqual(t, depth.NotifyQueue, notify.QueueBound)
	require.Len(t, f.claim(10).items, 5, "items are claimed without notifications")

	require.NoError(t, stranger.Close(t.Context()))
	require.Eventually(t, func() bool {
		swept, err := sweeps.Sweep(t.Context(), 1)
		return err == nil && swept.NotifyQueue < notify.QueueBound // a sweep that empties gigabytes may time out
	}, time.Minute, 10*time.Millisecond, "a sweep empties the queue")
	f.item(w)
	heard := must(dispatcher.db.(*pgxpool.Conn).Conn().WaitForNotification(t.Context())).in(t)
	last := one[int64](f,
		"select (extract(epoch from max(run_at)) * 1000000)::bigint from pgdispatch.workflow_execution_queue")
	require.Contains(t, heard.Payload, fmt.Sprint(last), "it announces this item, and none was announced before")
}
