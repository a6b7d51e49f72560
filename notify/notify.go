// Package notify receives the Postgres notifications that say there may be work.
//
// A missed notification costs latency, never a row: each wake-up looks at the table, and so does a ticker.
package notify

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"
	"golang.org/x/sync/errgroup"
)

// Channel is the channel that the triggers notify. Its payload says where there may be work, or is empty. It is only a
// hint, because any role can send one.
const Channel = "pgdispatch"

// StopChannel is the channel that announces a request to stop an execution. Every replica receives it; the first one
// carries it out.
const StopChannel = "pgdispatch_stop"

// SignalChannel is the channel that announces a signal to a workflow.
const SignalChannel = "pgdispatch_signal"

// LateChannel is the channel that announces an item whose start_before may pass before the next sweep.
const LateChannel = "pgdispatch_late"

const (
	// connectTimeout bounds a connection attempt including its LISTEN.
	connectTimeout = 3500 * time.Millisecond
	// reconnectDelay is the pause before a lost connection is replaced. The default of pgxlisten is one minute.
	reconnectDelay = 250 * time.Millisecond
)

// Pinger sends a notification through a connection other than the listener's.
type Pinger interface {
	Ping(ctx context.Context, channel, payload string) error
}

// Listener receives notifications. Its fields must be set before Run and must not change afterwards.
type Listener struct {
	// Connect dials a new connection on each call, outside of any pool. It must not return a connection that was lost.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// Ring is called with the payload of each notification, and with "" after each (re)connect, because notifications
	// may have been missed. It must not block: a slow listener fills the notification queue of the whole cluster.
	Ring func(payload string)
	// Called is called when another replica calls, see HelpChannel. It must not block. If nil, calls are ignored.
	Called func()
	// Stopping is called when a request to stop an execution is announced. It must not block. If nil, such requests are
	// ignored.
	Stopping func()
	// Signalled is called when a signal to a workflow is announced. It must not block. If nil, signals are ignored.
	Signalled func()
	// Late is called when an item with a near start_before is announced. It must not block. If nil, such items are
	// ignored.
	Late func()
	// Ping proves that notifications still arrive: a connection can be dead without an error, and a transaction pooler
	// never delivers any. If nil, the connection is not checked.
	Ping Pinger
	// PingInterval is how often a ping is sent. PingTimeout bounds sending a ping and receiving it. A dead connection
	// is closed within the sum of both, provided that pings can be sent, and is replaced or given up again within
	// another reconnectDelay plus connectTimeout.
	PingInterval, PingTimeout time.Duration
	// Name distinguishes this listener's pings from those of other replicas. It must fit in a Postgres identifier.
	Name string
	Log  *slog.Logger

	connected    atomic.Bool
	sent         atomic.Int64  // number of the newest ping sent
	acknowledged atomic.Int64  // number of the newest ping received
	echoes       chan struct{} // signals that acknowledged has changed

	mu   sync.Mutex
	conn *pgx.Conn // the connection that Run listens on; nil if there is none
}

// Connected reports whether LISTEN is known to be in effect.
func (l *Listener) Connected() bool { return l.connected.Load() }

// Run listens until ctx is cancelled and returns nil then. It replaces a lost connection.
func (l *Listener) Run(ctx context.Context) error {
	listener := &pgxlisten.Listener{
		Connect:        l.connect,
		ReconnectDelay: reconnectDelay,
		LogError: func(ctx context.Context, err error) {
			if ctx.Err() == nil {
				l.connected.Store(false)
				l.Log.WarnContext(ctx, "Listener lost its connection; polling until it reconnects", "error", err)
			}
		},
	}
	listener.Handle(Channel, bell{l})
	for channel, call := range map[string]func(){HelpChannel: l.Called, StopChannel: l.Stopping,
		SignalChannel: l.Signalled, LateChannel: l.Late} {
		if call == nil {
			continue
		}
		listener.Handle(channel, caller(call))
	}
	if l.Ping != nil {
		l.echoes = make(chan struct{}, 1)
		listener.Handle(l.pingChannel(), echo{l})
	}

	defer l.connected.Store(false)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := listener.Listen(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("listen: %w", err)
	})
	if l.Ping != nil {
		g.Go(func() error { l.pings(ctx); return nil })
	}
	return g.Wait()
}

func (l *Listener) pingChannel() string { return "pgdispatch_ping_" + l.Name }

func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout,
		fmt.Errorf("listener's connection attempt timed out after %s", connectTimeout))
	defer cancel()
	conn, err := l.Connect(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	// This ctx does not bound the LISTEN that follows, and nothing else does.
	deadline, _ := ctx.Deadline()
	time.AfterFunc(time.Until(deadline), func() { l.cutDeaf(conn) })
	return conn, nil
}

// cutDeaf closes conn if its LISTEN has not been answered.
func (l *Listener) cutDeaf(conn *pgx.Conn) {
	l.mu.Lock()
	current := l.conn == conn
	l.mu.Unlock()
	if current && !l.connected.Load() {
		l.cut()
	}
}

// pings sends a ping each interval, and closes the connection if the ping is not received in time.
func (l *Listener) pings(ctx context.Context) {
	ticker := time.NewTicker(l.PingInterval)
	for unsent := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !l.connected.Load() {
			continue
		}

		deaf, err := l.deaf(ctx)
		was := unsent
		if unsent++; err == nil {
			unsent = 0
		}
		switch {
		case err == nil && was >= unsentOften:
			l.Log.InfoContext(ctx, "Listener checks itself again")
		case unsent == unsentOften && ctx.Err() == nil:
			l.Log.WarnContext(ctx, "Listener cannot check itself, because its ping is not sent: notifications may not arrive. "+
				"The poll still finds new items", "error", err)
		}

		if deaf && l.connected.Load() {
			l.Log.WarnContext(ctx,
				"Listener did not receive its own ping; reconnecting. Behind a transaction pooler, set PGDISPATCH_LISTEN=off",
				"waited_ms", l.PingTimeout.Milliseconds())
			l.cut()
		}
	}
}

// unsentOften is how many pings in a row must not be sent before that is logged.
const unsentOften = 2

// deaf sends a ping and reports whether it was not received. A ping that cannot be sent is an error, and proves
// nothing: the database does not answer then, and a working connection may be impossible to replace.
func (l *Listener) deaf(ctx context.Context) (deaf bool, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, l.PingTimeout,
		fmt.Errorf("listener's ping timed out after %s", l.PingTimeout))
	defer cancel()
	number := l.sent.Add(1)
	if err := l.Ping.Ping(bounded, l.pingChannel(), strconv.FormatInt(number, 10)); err != nil {
		return false, err
	}
	for l.acknowledged.Load() < number {
		select {
		case <-bounded.Done():
			return ctx.Err() == nil, nil
		case <-l.echoes:
		}
	}
	return false, nil
}

// cut closes the listener's socket. The pending read returns an error, and pgxlisten reconnects.
func (l *Listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connected.Store(false)
	if l.conn != nil {
		_ = l.conn.PgConn().Conn().Close() // the connection is discarded, even after an error
		l.conn = nil
	}
}

// bell rings at each notification, and when LISTEN takes effect, because rows inserted before are not announced again.
type bell struct{ l *Listener }

func (b bell) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	b.l.Ring(n.Payload)
	return nil
}

func (b bell) HandleBacklog(ctx context.Context, _ string, _ *pgx.Conn) error {
	b.l.acknowledge(b.l.sent.Load()) // do not wait for pings sent to the old connection
	b.l.connected.Store(true)
	b.l.Log.InfoContext(ctx, "Listening")
	b.l.Ring("")
	return nil
}

// caller is called at each notification, and when LISTEN takes effect on its own channel. On the other channels LISTEN
// may take effect earlier or later.
type caller func()

func (c caller) HandleNotification(context.Context, *pgconn.Notification, *pgx.Conn) error {
	c()
	return nil
}

func (c caller) HandleBacklog(context.Context, string, *pgx.Conn) error {
	c()
	return nil
}

// echo receives this listener's own pings.
type echo struct{ l *Listener }

func (e echo) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	if number, err := strconv.ParseInt(n.Payload, 10, 64); err == nil && number <= e.l.sent.Load() {
		e.l.acknowledge(number)
	}
	return nil
}

// acknowledge records that this ping and those before it need not be waited for. Only the goroutine that reads the
// connection calls it.
func (l *Listener) acknowledge(number int64) {
	l.acknowledged.Store(max(l.acknowledged.Load(), number))
	select {
	case l.echoes <- struct{}{}:
	default:
	}
}

// QueueBound is the used fraction of the notification queue at which triggers stop notifying. When the queue is full,
// every commit that notifies fails. See sql/notify/gate.sql.
const QueueBound = 0.1

// FindHolder is the query with which an administrator finds the session that keeps Postgres from emptying the
// notification queue, in one line.
var FindHolder = oneLine(sql.Text("notify_sessions"))

// oneLine returns a statement without its comments.
func oneLine(statement string) string {
	var words []string
	for line := range strings.Lines(statement) {
		if !strings.HasPrefix(line, "--") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}

// Holder is a session that may keep Postgres from emptying the notification queue.
type Holder struct {
	PID                         int
	Role, Database, Application string
	Age                         time.Duration // of its transaction
}

// String describes the session and how to end it.
func (h Holder) String() string {
	return fmt.Sprintf("pid %d, role %q, database %q, application %q, "+
		"in one transaction for %s: `select pg_terminate_backend(%d)`",
		h.PID, h.Role, h.Database, h.Application, h.Age.Round(time.Second), h.PID)
}

// QueueHolder returns the session with the oldest transaction in the cluster. Nil if this role cannot tell which that
// is: an administrator runs FindHolder.
func QueueHolder(ctx context.Context, db postgres.Conn) (*Holder, error) {
	holders, err := postgres.Read[Holder](ctx, db, "find the session that holds the notification queue",
		sql.Text("notify_holder"))
	if err != nil || len(holders) == 0 {
		return nil, err
	}
	return &holders[0], nil
}
