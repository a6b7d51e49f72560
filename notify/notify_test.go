package notify

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

// patience is how long a test waits for an expected event.
const patience = 20 * time.Second

// post is a listener on a real database, and another connection that notifies it.
type post struct {
	*Listener
	t     *testing.T
	pool  *pgxpool.Pool
	rings chan struct{}
	dials atomic.Int64
}

// Receive returns what a channel yields, and fails the test if it takes too long.
func Receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func newPost(t *testing.T) *post {
	url := sqltest.URL(t)
	p := &post{t: t, pool: sqltest.Pool(t, url), rings: make(chan struct{}, 100000)}
	p.Listener = &Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			p.dials.Add(1)
			if p.Connected() {
				t.Error("it does not know that it has lost its connection")
			}
			return pgx.Connect(ctx, url+"&application_name=listener")
		},
		Ring:         func(string) { p.rings <- struct{}{} },
		PingInterval: time.Hour, PingTimeout: patience,
		Name: "replica_1",
		Log:  slog.New(slog.DiscardHandler),
	}
	return p
}

// run runs the listener until the test ends or stop is called.
func (p *post) run() (stop func()) { return looptest.Run(p.t, p.Run) }

// hear waits for a ring.
func (p *post) hear(why string) {
	p.t.Helper()
	select {
	case <-p.rings:
	case <-time.After(patience):
		require.Fail(p.t, "no ring", why)
	}
}

// mute discards the pending rings.
func (p *post) mute() {
	for {
		select {
		case <-p.rings:
		default:
			return
		}
	}
}

func (p *post) execute(statement string, args ...any) {
	p.t.Helper()
	must.Get(p.pool.Exec(context.Background(), statement, args...)).In(p.t)
}

type pingerFunc func(ctx context.Context, channel, payload string) error

func (f pingerFunc) Ping(ctx context.Context, channel, payload string) error {
	return f(ctx, channel, payload)
}

func TestRingsWhenItBeginsToListenAndAtEachNotification(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	asked := make(chan struct{}, 10)
	p.Stopping = func() { asked <- struct{}{} }
	require.False(t, p.Connected())
	stop := p.run()
	p.hear("what was inserted before is not announced again")
	Receive(t, asked) // nor is an earlier request to stop
	require.True(t, p.Connected())
	for range 3 {
		p.execute("notify pgdispatch")
		p.hear("notification")
	}
	p.execute("select pg_notify($1, '')", StopChannel)
	Receive(t, asked)
	p.execute("select setval('pgdispatch.gate', 1)") // a dispatcher sleeps
	p.execute("insert into pgdispatch.workspaces (name) values ('shop')")
	p.mute()
	p.execute(`with d as (insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
		select id, 'order', 'Order', 'orders' from pgdispatch.workspaces returning *) select from d`)
	p.execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select workspace_id, id from pgdispatch.workflow_definitions`)
	p.hear("insert")
	stop()
	require.False(t, p.Connected())
}

func TestNeitherPayloadsOfStrangersNorAFloodMatter(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.Ping = &PoolPinger{DB: p.pool}
	p.run()
	p.hear("start")
	for _, payload := range []string{"", "x", "'; drop table", "99999999999999999999", "\u202e日本語"} {
		p.execute("select pg_notify('pgdispatch', $1)", payload)
		p.hear("any payload is a ring")
		p.execute("select pg_notify($1, $2)", p.pingChannel(), payload)
	}
	p.execute("select pg_notify('pgdispatch', n::text) from generate_series(1, 20000) n")
	for range 20000 {
		p.hear("each of a flood")
	}
	p.execute("notify pgdispatch")
	p.hear("after the flood")
	require.EqualValues(t, 1, p.dials.Load())
}

func TestHearsAgainAfterItsBackendIsTerminatedTwiceAndARefusal(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	connect, refused := p.Connect, false
	p.Connect = func(ctx context.Context) (*pgx.Conn, error) {
		if !refused && p.dials.Load() == 1 {
			refused = true
			return nil, errors.New("connection refused")
		}
		return connect(ctx)
	}
	p.run()
	p.hear("start")
	for range 2 {
		p.mute()
		p.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'listener' " +
			"and datname = current_database()")
		p.hear("something may have been missed")
		require.True(t, p.Connected())
		p.execute("notify pgdispatch")
		p.hear("notification after a reconnect")
	}
}

func TestLiveConnectionIsNotCutByItsPings(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	pings := make(chan string, 100)
	p.PingInterval = 200 * time.Millisecond
	p.Ping = pingerFunc(func(ctx context.Context, channel, payload string) error {
		pings <- channel + " " + payload
		return (&PoolPinger{DB: p.pool}).Ping(ctx, channel, payload)
	})
	p.run()
	p.hear("start")
	for n := range 5 {
		require.Equal(t, "pgdispatch_ping_replica_1 "+strconv.Itoa(n+1), Receive(t, pings))
	}
	require.EqualValues(t, 1, p.dials.Load())
	require.Empty(t, p.rings, "a ping does not ring")
}

func TestEchoKnowsItsOwnPings(t *testing.T) {
	t.Parallel()
	l := &Listener{}
	l.sent.Store(5)
	for _, c := range []struct {
		payload      string
		acknowledged int64
	}{
		{"", 0}, {"x", 0}, {"7", 0}, {"9223372036854775807", 0}, {"4", 4}, {"3", 4},
		{"5", 5}, {"6", 5},
	} {
		require.NoError(t, echo{l}.HandleNotification(t.Context(), &pgconn.Notification{Payload: c.payload}, nil))
		require.Equal(t, c.acknowledged, l.acknowledged.Load(), "after %q", c.payload)
	}
}

// A comment of the statement would hide the rest of the line.
func TestTheAdministratorsQueryIsOneLineWithoutComments(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^select [^\n-]+$`, FindHolder)
}
