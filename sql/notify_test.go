package sql_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// heard runs do and returns the number of wake-ups that a listening connection received.
func (f fixture) heard(do func()) int { return len(f.payloads(do)) }

// payloads runs do and returns the payloads of the wake-ups. Notifications arrive in commit order, so one from the test
// marks the end.
func (f fixture) payloads(do func()) []string {
	// A dispatcher sleeps.
	f.exec(sql.Text("gate_shut"))
	defer f.exec(sql.Text("gate_open"))
	return f.said("listen pgdispatch", "pgdispatch", do)
}

// said runs do and returns the payloads on the channel that a statement listens to.
func (f fixture) said(listen, channel string, do func()) []string {
	conn := must.Get(f.pool.Acquire(f.t.Context())).In(f.t)
	defer conn.Release()
	must.Get(conn.Exec(f.t.Context(), listen)).In(f.t)
	defer func() {
		must.Get(conn.Exec(f.t.Context(), "unlisten *")).In(f.t)
	}()
	do()
	f.exec(sql.Text("ping"), channel, "end")
	for said := []string{}; ; {
		n := must.Get(conn.Conn().WaitForNotification(f.t.Context())).In(f.t)
		if n.Payload == "end" {
			return said
		}
		said = append(said, n.Payload)
	}
}

// A number and not an ID, because any role may listen.
func TestAWakeUpNamesTheWorkspaceWhereSomethingHappened(t *testing.T) {
	f, w, other := openForTwo(t, "FREE", "FREE")
	number := one[int64](f, "select wake_number from pgdispatch.workspaces where id = $1", w.workspace)
	level := func(priority int, id int64) string {
		due := column[int64](f, id, "(extract(epoch from run_at) * 1000000)::bigint")
		return fmt.Sprintf("%d:%d:%d", number, priority, due)
	}
	var first, urgent int64
	said := f.payloads(func() { first, urgent = f.item(w), f.at(w, 7, time.Hour) })
	require.Equal(t, []string{level(0, first), level(7, urgent)}, said, "where items wait, and since when")
	f.item(other)
	f.dispatched(f.claim(1))
	f.dispatched(f.claim(1))
	f.item(w)
	said = f.payloads(func() { f.finish(f.runs(w), "COMPLETED") })
	require.Equal(t, []string{fmt.Sprint(number)}, said, "where a slot came free")
	require.Equal(t, []string{""}, f.payloads(func() { f.maxClaims(7) }), "an empty payload means all workspaces")
	said = f.payloads(func() { f.insert(w, 5, "priority", "n") })
	require.Equal(t, []string{""}, said, "too many changes to name")
}

func TestEveryCommittedEnqueueIsHeardOnce(t *testing.T) {
	f, w := openFor(t, "FREE")
	require.Equal(t, 1, f.heard(func() { f.item(w) }))
	require.Equal(t, 1, f.heard(func() { f.items(w, 100) }), "one per statement, not one per row")
	require.Equal(t, 2, f.heard(func() { f.item(w); f.item(w) }))
	require.Equal(t, 1, f.heard(func() {
		require.NoError(t, f.copyText("workspace_id, workflow_definition_id", w.workspace+"\t"+w.definition+"\n"))
	}))
	require.Equal(t, 1, f.heard(func() {
		in, tx := f.begin()
		in.item(w)
		in.item(w)
		require.NoError(t, tx.Commit(t.Context()))
	}), "equal notifications of one transaction are merged")
	require.Zero(t, f.heard(func() {
		in, tx := f.begin()
		in.item(w)
		require.NoError(t, tx.Rollback(t.Context()))
	}))
	require.Zero(t, f.heard(func() { f.refused(insertItem, w.workspace, nobody) }))
}

func TestChangesThatMayFreeCapacityAreHeard(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.items(w, 2)
	running := f.claim(1)
	f.dispatched(running)
	f.items(f.tenant("FREE"), 2)
	other := f.claim(1)
	f.dispatched(other)
	for name, do := range map[string]func(){
		"plan":     func() { f.setWorkspace(w, "plan = 'PRO'") },
		"override": func() { f.setWorkspace(w, "max_concurrent_workflows = 1") },
		"tier": func() {
			f.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 2 where plan = 'FREE'")
		},
		"settings": func() { f.maxClaims(7) },
		"end":      func() { f.finish(running.ids()[0], "COMPLETED") },
		"ends":     func() { f.completed(other.ids()...) },
	} {
		require.Equal(t, 1, f.heard(do), name)
	}
}

func TestASlotThatNobodyWaitsForIsFreedQuietly(t *testing.T) {
	f, b := openClaimed(t, "PRO", 2)
	require.Zero(t, f.heard(func() { f.dispatched(b) }), "dispatching frees no slot")
	require.Zero(t, f.heard(func() { f.finish(b.ids()[0], "COMPLETED") }))
	require.Zero(t, f.heard(func() { f.claim(10) }), "a claim sends no wake-up")
}

func TestAnItemThatWaitsAgainIsHeard(t *testing.T) {
	f, w := openFor(t, "FREE")
	id := f.item(w)
	require.Equal(t, 1, f.heard(func() { f.release(f.claim(1), false) }), "released")
	require.Equal(t, 1, f.heard(func() { f.release(f.claim(1), true) }), "released without an answer")
	f.claim(1)
	f.expire(id)
	require.Equal(t, 1, f.heard(func() { f.exec("select pgdispatch.requeue_expired(1)") }), "its lease expired")
	require.Equal(t, 1, f.heard(func() { f.leave(w) }), "its workspace was deleted")

	waiting := f.at(f.tenant("FREE"), 0, lease)
	require.Equal(t, 1, f.heard(func() { f.set("run_at = now()", waiting) }), "brought forward")
	require.Equal(t, 1, f.heard(func() { f.set("priority = 9", waiting) }), "raised")
	require.Equal(t, 1, f.heard(func() { f.set("params = '{}'", waiting) }), "a claim may have chosen the row before")
}

func TestAnInsertThatAddsNoRowWakesNobody(t *testing.T) {
	f, w := openFor(t, "FREE")
	insert := `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, idempotency_key)
		values ($1, $2, 'once') on conflict do nothing`
	require.Equal(t, 1, f.heard(func() { f.exec(insert, w.workspace, w.definition) }))
	require.Zero(t, f.heard(func() { f.exec(insert, w.workspace, w.definition) }))
}

func TestWithdrawingAnItemThatWaitsWakesNobody(t *testing.T) {
	f, w := openFor(t, "FREE")
	first, second, _ := f.item(w), f.item(w), f.item(w)
	require.Zero(t, f.heard(func() { f.cancel(first) }))
	require.Zero(t, f.heard(func() { f.remove(second) }))
}

func TestAPreparedTransactionIsNotLost(t *testing.T) {
	f, w := openFor(t, "FREE")
	prepare := func(name string) error {
		in, tx := f.begin()
		defer func() { _ = tx.Rollback(t.Context()) }()
		if name == "quiet" {
			in.exec("set local pgdispatch.notify = off")
		}
		in.item(w)
		_, err := tx.Exec(t.Context(), "prepare transaction '"+name+" "+w.workspace+"'")
		return err
	}
	require.Zero(t, f.heard(func() {
		require.ErrorContains(t, prepare("loud"), "NOTIFY", "a dispatcher sleeps")
		require.NoError(t, prepare("quiet"))
	}))
	require.Empty(t, f.claim(10).Items, "the insert is not committed")
	f.claim(10) // the memory moves on, and must not treat the open transaction as seen
	f.exec("commit prepared 'quiet " + w.workspace + "'")
	require.Len(t, f.claim(10).Items, 1)
}

func (f fixture) notifyEnded(on bool) {
	f.exec(sql.Text("settings_set"), fmt.Sprintf(`{"notify_ended": %t}`, on), "me")
}

// announced runs do and returns the payloads on the channel of ends.
func (f fixture) announced(do func()) []string {
	return f.said(sql.Text("listen_ended"), "pgdispatch_ended", do)
}

// runningOf returns n items of the workspace whose workflows run.
func (f fixture) runningOf(w tenant, n int) (ids []int64, executions []string) {
	ids = f.items(w, n)
	f.dispatched(f.claimAll(n))
	for _, id := range ids {
		executions = append(executions, f.execution(id))
	}
	return ids, executions
}

func TestEndsAreNotNotifiedUnlessSomebodyAsks(t *testing.T) {
	f := open(t)
	ids, _ := f.runningOf(f.tenant("ENTERPRISE"), 4)
	require.Empty(t, f.announced(func() { f.finish(ids[0], "COMPLETED"); f.completed(ids[1]) }))
	f.notifyEnded(true)
	require.Len(t, f.announced(func() { f.finish(ids[2], "COMPLETED"); f.completed(ids[3]) }), 2)
}

func TestEveryWayToEndIsNotified(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids, executions := f.runningOf(w, 3)
	f.notifyEnded(true)
	require.Equal(t, executions[:1], f.announced(func() { f.finish(ids[0], "COMPLETED") }))
	require.Equal(t, executions[1:2], f.announced(func() { f.finish(ids[1], "FAILED") }))
	require.Equal(t, executions[2:], f.announced(func() {
		f.exec("update pgdispatch.workflow_executions set status = 'COMPLETED' where id = $1", executions[2])
	}), "an application has reported it")
	waits := f.execution(f.item(w))
	require.Equal(t, []string{waits}, f.announced(func() { one[bool](f, "select pgdispatch.cancel($1)", waits) }))
	failed := f.execution(f.item(w))
	b := f.claim(1)
	require.Equal(t, []string{failed}, f.announced(func() { f.fail(b, "no such type") }), "without a workflow")
	released := f.item(w)
	require.Empty(t, f.announced(func() {
		f.release(f.claim(1), false)
		f.set("priority = 1", released)
		f.remove(released)
	}), "it has not ended")
}

func TestABatchOfEndsIsOneNotificationOfAtMost200(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.unlimited()
	_, executions := f.runningOf(w, 450)
	f.notifyEnded(true)
	nulls := make([]*string, len(executions))
	said := f.announced(func() {
		f.exec(sql.Text("finish_all"), executions, repeated(len(executions), "FAILED"), nulls, nulls)
	})
	named, sizes := []string{}, []int{}
	for _, payload := range said {
		require.Less(t, len(payload), 8000)
		some := strings.Split(payload, ",")
		named, sizes = append(named, some...), append(sizes, len(some))
	}
	require.ElementsMatch(t, executions, named)
	require.ElementsMatch(t, []int{200, 200, 50}, sizes)
}

func TestEndsAreNotNotifiedWhereATransactionMustNotNotify(t *testing.T) {
	f := open(t)
	f.notifyEnded(true)
	execution := f.execution(f.item(f.tenant("PRO")))
	require.Empty(t, f.announced(func() {
		in, tx := f.begin()
		in.exec("set local pgdispatch.notify = off")
		require.True(t, one[bool](in, "select pgdispatch.cancel($1)", execution))
		require.NoError(t, tx.Commit(t.Context()))
	}))
}

// ownCluster starts a cluster for this test alone, which sees all its sessions and fills its notification queue.
func ownCluster(t *testing.T) (*sqltest.Cluster, fixture) {
	cluster, url := sqltest.Private(t)
	pool := sqltest.Pool(t, url)
	return cluster, fixture{t: t, pool: pool, db: pool, replicas: &sync.Map{}}
}

func connectAs(t *testing.T, cluster *sqltest.Cluster, role string) *pgx.Conn {
	return connect(t, strings.Replace(cluster.URL("postgres"), "postgres@", role+"@", 1), nil)
}

// A role sees in pg_stat_activity what its own sessions do, and of others only that they exist.
func TestOnlyASessionThatSurelyHoldsTheNotificationQueueIsNamed(t *testing.T) {
	t.Parallel()
	cluster, f := ownCluster(t)
	f.exec("create role stranger login")
	f.exec("create role replica login in role pgdispatch_dispatcher")
	sweeps, claims := connectAs(t, cluster, "replica"), connectAs(t, cluster, "replica")
	named := func() *notify.Holder { return must.Get(notify.QueueHolder(t.Context(), sweeps)).In(t) }
	require.Nil(t, named(), "nobody is in a transaction")
	begin := func(conn *pgx.Conn) {
		for _, statement := range []string{"begin", "select 1"} {
			must.Get(conn.Exec(t.Context(), statement)).In(t)
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
	usage := func() float64 { return must.Get(sweeps.Sweep(t.Context(), 1)).In(t).NotifyQueue }
	dispatcher := f.conn()
	dispatcher.exec("listen pgdispatch")
	f.exec(sql.Text("gate_shut"))

	f.exec("create role stranger login")
	stranger := connectAs(t, cluster, "stranger")
	for _, statement := range []string{"listen x", "begin", "select 1"} {
		must.Get(stranger.Exec(t.Context(), statement)).In(t)
	}
	for flooded := 0; usage() < notify.QueueBound; flooded++ {
		require.Less(t, flooded, 100)
		f.exec("select count(pg_notify('x', repeat('x', 7980) || n)) from generate_series(1, 2000) n")
		holder := must.Get(sweeps.QueueHolder(t.Context())).In(t)
		require.EqualValues(t, stranger.PgConn().PID(), holder.PID, "the dispatcher only reads: %s", holder)
	}
	for range 10 {
		f.item(w)
	}
	f.exec(sql.Text("gate_call"), "x")
	depth := must.Get((&operate.Store{DB: f.pool}).QueueDepth(t.Context())).In(t)
	require.GreaterOrEqual(t, depth.NotifyQueue, notify.QueueBound)
	require.Len(t, f.claim(10).Items, 5, "items are claimed without notifications")

	require.NoError(t, stranger.Close(t.Context()))
	require.Eventually(t, func() bool {
		swept, err := sweeps.Sweep(t.Context(), 1)
		return err == nil && swept.NotifyQueue < notify.QueueBound // a sweep that empties gigabytes may time out
	}, time.Minute, 10*time.Millisecond, "a sweep empties the queue")
	f.item(w)
	heard := must.Get(dispatcher.db.(*pgxpool.Conn).Conn().WaitForNotification(t.Context())).In(t)
	last := one[int64](f,
		"select (extract(epoch from max(run_at)) * 1000000)::bigint from pgdispatch.workflow_execution_queue")
	require.Contains(t, heard.Payload, fmt.Sprint(last), "it announces this item, and none was announced before")
}
