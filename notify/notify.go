// Package notify hears the notifications that say there may be work.
//
// A notification that is missed costs latency, never a row: whoever is woken looks at the table, and a ticker looks too.
package notify

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"
	"golang.org/x/sync/errgroup"
)

// Channel is the one that the triggers notify. Its payload says where there may be work, or nothing; it is a hint, because any role
// can send one.
const Channel = "pgdispatch"

// StopChannel is the one on which a request to stop an execution is announced. Every replica hears it, the first carries it out.
const StopChannel = "pgdispatch_stop"

const (
	// connectTimeout bounds a connection attempt together with its LISTEN.
	connectTimeout = 3500 * time.Millisecond
	// reconnectDelay is how long a lost connection stays lost, at least. pgxlisten's own default is a minute.
	reconnectDelay = 250 * time.Millisecond
)

// Pinger notifies a channel through another connection than the listener's.
type Pinger interface {
	Ping(ctx context.Context, channel, payload string) error
}

// Listener listens. Its fields are set before Run and not changed after.
type Listener struct {
	// Connect dials a new connection each time it is called, outside of any pool. A connection that is used again after a
	// loss is dead for good.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// Ring is called at each notification with its payload, and with "" after each (re)connect, when something may have been
	// missed. It must not block: a listener that reads slowly fills the notification queue of the whole database.
	Ring func(payload string)
	// Called is called at each call of another replica, see HelpChannel; it must not block. Nil: calls are not heard.
	Called func()
	// Stopping is called when somebody has asked for an execution to be stopped; it must not block. Nil: nobody is told.
	Stopping func()
	// Ping proves that notifications still arrive: a connection can be dead without an error, and a transaction pooler
	// never delivers one. Nil: no proof is asked for.
	Ping Pinger
	// PingInterval is how often the proof is asked for, and PingTimeout how long it may take: to send a ping and to hear it.
	// A dead connection is cut within the two together, as long as pings can be sent, and has been replaced or given up again
	// within reconnectDelay and connectTimeout more.
	PingInterval, PingTimeout time.Duration
	// Name sets this listener's pings apart from other replicas'. It must fit an identifier of Postgres.
	Name string
	Log  *slog.Logger

	connected atomic.Bool
	sent      atomic.Int64  // the newest ping sent
	heard     atomic.Int64  // the newest ping heard
	echoes    chan struct{} // says that heard has changed

	mu   sync.Mutex
	conn *pgx.Conn // what Run listens on; nil: nothing
}

// Connected says whether LISTEN is in force, as far as is known.
func (l *Listener) Connected() bool { return l.connected.Load() }

// Run listens until ctx is cancelled, and returns nil then. A connection that is lost is made anew.
func (l *Listener) Run(ctx context.Context) error {
	listener := &pgxlisten.Listener{
		Connect:        l.connect,
		ReconnectDelay: reconnectDelay,
		LogError: func(ctx context.Context, err error) {
			if ctx.Err() == nil {
				l.connected.Store(false)
				l.Log.WarnContext(ctx, "Listener lost its connection: wake-ups come from the poll until it is back", "error", err)
			}
		},
	}
	listener.Handle(Channel, bell{l})
	for channel, call := range map[string]func(){HelpChannel: l.Called, StopChannel: l.Stopping} {
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
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("listener's connect gave up after %s", connectTimeout))
	defer cancel()
	conn, err := l.Connect(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	// The LISTEN that follows is not bounded by this ctx, and nothing else would end it.
	deadline, _ := ctx.Deadline()
	time.AfterFunc(time.Until(deadline), func() { l.cutDeaf(conn) })
	return conn, nil
}

// cutDeaf closes a connection whose LISTEN has not been answered by now.
func (l *Listener) cutDeaf(conn *pgx.Conn) {
	l.mu.Lock()
	current := l.conn == conn
	l.mu.Unlock()
	if current && !l.connected.Load() {
		l.cut()
	}
}

// pings sends a ping each interval, and cuts the connection when it has not been heard in time.
func (l *Listener) pings(ctx context.Context) {
	ticker := time.NewTicker(l.PingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if l.connected.Load() && l.deaf(ctx) && l.connected.Load() {
			l.Log.WarnContext(ctx, "Listener heard nothing of its own ping: reconnecting. Behind a transaction pooler this never heals: set PGDISPATCH_LISTEN=off",
				"waited_ms", l.PingTimeout.Milliseconds())
			l.cut()
		}
	}
}

// deaf sends a ping, and says that it was not heard. One that could not be sent proves nothing: the database does not answer,
// and to a connection that works another one may not be had.
func (l *Listener) deaf(ctx context.Context) bool {
	bounded, cancel := context.WithTimeoutCause(ctx, l.PingTimeout, fmt.Errorf("listener's ping gave up after %s", l.PingTimeout))
	defer cancel()
	number := l.sent.Add(1)
	if l.Ping.Ping(bounded, l.pingChannel(), strconv.FormatInt(number, 10)) != nil {
		return false
	}
	for l.heard.Load() < number {
		select {
		case <-bounded.Done():
			return ctx.Err() == nil
		case <-l.echoes:
		}
	}
	return false
}

// cut closes the listener's socket under it. Its read returns an error, and pgxlisten connects anew.
func (l *Listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connected.Store(false)
	if l.conn != nil {
		_ = l.conn.PgConn().Conn().Close() // it is thrown away whatever it says
		l.conn = nil
	}
}

// bell rings at each notification, and when LISTEN is in force: what was inserted before is not announced again.
type bell struct{ l *Listener }

func (b bell) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	b.l.Ring(n.Payload)
	return nil
}

func (b bell) HandleBacklog(ctx context.Context, _ string, _ *pgx.Conn) error {
	b.l.hear(b.l.sent.Load()) // what was sent to the old connection is not waited for
	b.l.connected.Store(true)
	b.l.Log.InfoContext(ctx, "Listening")
	b.l.Ring("")
	return nil
}

// caller calls at each notification, and when LISTEN is in force on its own channel, which is not when it is on the others.
type caller func()

func (c caller) HandleNotification(context.Context, *pgconn.Notification, *pgx.Conn) error {
	c()
	return nil
}

func (c caller) HandleBacklog(context.Context, string, *pgx.Conn) error {
	c()
	return nil
}

// echo hears this listener's own pings.
type echo struct{ l *Listener }

func (e echo) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	if number, err := strconv.ParseInt(n.Payload, 10, 64); err == nil && number <= e.l.sent.Load() {
		e.l.hear(number)
	}
	return nil
}

// hear notes that this ping, and those before it, need not be waited for. Only the connection's reader calls it.
func (l *Listener) hear(number int64) {
	l.heard.Store(max(l.heard.Load(), number))
	select {
	case l.echoes <- struct{}{}:
	default:
	}
}

// Dialer returns a dial function for the listener's connection that finds out by itself when its peer is gone: keepalive
// probes after 5 s of silence, given up within 10 s.
func Dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}}
	return dialer.DialContext
}
