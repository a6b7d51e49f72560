package notify

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

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
	lost  chan bool // for each lost connection, the result of Connected at that time
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

// listenAt creates a listener on an address, which may be a proxy's in front of the database of pool.
func listenAt(t *testing.T, url string, pool *pgxpool.Pool) *post {
	p := &post{t: t, pool: pool, rings: make(chan struct{}, 100000), lost: make(chan bool, 1000)}
	p.Listener = &Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			p.dials.Add(1)
			return pgx.Connect(ctx, url+"&application_name=listener")
		},
		Ring:         func(string) { p.rings <- struct{}{} },
		PingInterval: time.Hour, PingTimeout: patience,
		Name: "replica_1",
		Log:  slog.New(lossBook{p}),
	}
	return p
}

func newPost(t *testing.T) *post {
	url := sqltest.URL(t)
	return listenAt(t, url, sqltest.Pool(t, url))
}

// run runs the listener until the test ends or stop is called.
func (p *post) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(p.t, err)
		case <-time.After(patience):
			require.Fail(p.t, "the listener does not stop")
		}
	})
	p.t.Cleanup(stop)
	return stop
}

// listening returns a listener that listens, and lets its test run beside others.
func listening(t *testing.T) *post {
	t.Parallel()
	p := newPost(t)
	p.run()
	p.hear("start")
	return p
}

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
	_, err := p.pool.Exec(context.Background(), statement, args...)
	require.NoError(p.t, err)
}

type pingerFunc func(ctx context.Context, channel, payload string) error

func (f pingerFunc) Ping(ctx context.Context, channel, payload string) error {
	return f(ctx, channel, payload)
}

// lossBook is a slog handler that records lost connections.
type lossBook struct{ *post }

func (l lossBook) Enabled(context.Context, slog.Level) bool { return true }
func (l lossBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l lossBook) WithGroup(string) slog.Handler            { return l }

func (l lossBook) Handle(_ context.Context, record slog.Record) error {
	if record.Level == slog.LevelWarn && record.Message == "Listener lost its connection; polling until it reconnects" {
		l.lost <- l.Connected()
	}
	return nil
}

func TestRingsWhenItHasBegunToListen(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	require.False(t, p.Connected())
	stop := p.run()
	p.hear("what was inserted before is not announced again")
	require.True(t, p.Connected())
	stop()
	require.False(t, p.Connected())
}

func TestTellsOfRequestsToStopAndOfThoseThatMayHaveBeenMissed(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	asked := make(chan struct{}, 10)
	p.Stopping = func() { asked <- struct{}{} }
	p.run()
	p.hear("it listens")
	Receive(t, asked) // an earlier request is not announced again
	_, err := p.pool.Exec(t.Context(), "select pg_notify($1, '')", StopChannel)
	require.NoError(t, err)
	Receive(t, asked)
}

func TestRingsAtEachNotification(t *testing.T) {
	p := listening(t)
	for range 3 {
		p.execute("notify pgdispatch")
		p.hear("notification")
	}
}

func TestRingsWhenAnItemIsInserted(t *testing.T) {
	p := listening(t)
	p.execute("select setval('pgdispatch.gate', 1)") // a dispatcher sleeps
	p.execute("insert into pgdispatch.workspaces (name) values ('shop')")
	p.mute()
	p.execute(`with d as (insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
		select id, 'order', 'Order', 'orders' from pgdispatch.workspaces returning *) select from d`)
	p.execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select workspace_id, id from pgdispatch.workflow_definitions`)
	p.hear("insert")
}

func TestPayloadsOfStrangersDoNotMatter(t *testing.T) {
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
	p.execute("notify pgdispatch")
	p.hear("it listens on")
	require.EqualValues(t, 1, p.dials.Load())
}

func TestFloodOfNotificationsDoesNotMatter(t *testing.T) {
	p := listening(t)
	p.execute("select pg_notify('pgdispatch', n::text) from generate_series(1, 20000) n")
	for range 20000 {
		p.hear("each of a flood")
	}
	p.execute("notify pgdispatch")
	p.hear("after the flood")
	require.EqualValues(t, 1, p.dials.Load())
}

func TestHearsAgainAfterItsBackendIsTerminatedTwice(t *testing.T) {
	p := listening(t)
	for range 2 {
		p.mute()
		p.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'listener' " +
			"and datname = current_database()")
		select {
		case connected := <-p.lost:
			require.False(t, connected)
		case <-time.After(patience):
			require.Fail(t, "the loss is not detected")
		}
		p.hear("something may have been missed")
		require.True(t, p.Connected())
		p.execute("notify pgdispatch")
		p.hear("notification after a reconnect")
	}
}

func TestConnectionThatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	connect := p.Connect
	p.Connect = func(ctx context.Context) (*pgx.Conn, error) {
		if len(p.lost) == 0 {
			return nil, errors.New("connection refused")
		}
		return connect(ctx)
	}
	p.run()
	p.hear("connected at the second try")
}

func TestDeadConnectionIsFoundByItsPing(t *testing.T) {
	t.Parallel()
	url := sqltest.URL(t)
	between, behind := newProxy(t, url, nil)
	p := listenAt(t, behind, sqltest.Pool(t, url))
	p.PingInterval, p.PingTimeout = 100*time.Millisecond, 100*time.Millisecond
	p.Ping = &PoolPinger{DB: p.pool}
	p.run()
	p.hear("start")

	for range 2 {
		dials := p.dials.Load()
		between.fallSilent()
		p.mute()
		p.hear("reconnected")
		require.Greater(t, p.dials.Load(), dials)
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
		select {
		case ping := <-pings:
			require.Equal(t, "pgdispatch_ping_replica_1 "+strconv.Itoa(n+1), ping)
		case <-time.After(patience):
			require.Fail(t, "no ping")
		}
	}
	require.EqualValues(t, 1, p.dials.Load())
	require.Empty(t, p.rings, "a ping does not ring")
}

func TestPingThatCannotBeSentProvesNothing(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	pings := make(chan struct{}, 1000)
	p.PingInterval = 10 * time.Millisecond
	p.Ping = pingerFunc(func(context.Context, string, string) error {
		pings <- struct{}{}
		return errors.New("connection refused")
	})
	p.run()
	p.hear("start")
	for range 10 {
		Receive(t, pings)
	}
	require.EqualValues(t, 1, p.dials.Load())
	require.True(t, p.Connected())
}

func TestConnectionThatDiesBeforeItListensIsGivenUp(t *testing.T) {
	t.Parallel()
	url := sqltest.URL(t)
	var silenced atomic.Bool
	_, behind := newProxy(t, url, func(data []byte) bool {
		return bytes.Contains(data, []byte("listen \"pgdispatch")) && silenced.CompareAndSwap(false, true)
	})
	p := listenAt(t, behind, sqltest.Pool(t, url))
	p.run()
	p.hear("the next connection listens")
	require.True(t, silenced.Load())
	require.EqualValues(t, 2, p.dials.Load())
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

func TestStopsWhereverItIs(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(context.Context) (*pgx.Conn, error){
		"between connections": func(context.Context) (*pgx.Conn, error) { return nil, errors.New("connection refused") },
		"while connecting": func(ctx context.Context) (*pgx.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := listenAt(t, "", nil)
			dialled := make(chan struct{}, 1000)
			p.Connect = func(ctx context.Context) (*pgx.Conn, error) {
				dialled <- struct{}{}
				return connect(ctx)
			}
			stop := p.run()
			Receive(t, dialled)
			stop()
			require.False(t, p.Connected())
			require.Empty(t, p.rings)
		})
	}
}

func TestStopsWhileItsConnectionIsSilent(t *testing.T) {
	t.Parallel()
	url := sqltest.URL(t)
	between, behind := newProxy(t, url, nil)
	p := listenAt(t, behind, sqltest.Pool(t, url))
	stop := p.run()
	p.hear("start")
	between.fallSilent()
	stop()
}
