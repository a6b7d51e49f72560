package notify

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// server is a Postgres without a network that implements only LISTEN: its connections work in bubbles.
type server struct {
	// mute sessions read a request without answering it and those after it. They are numbered from 0, in order of
	// creation. listens: the request is LISTEN, not the first one.
	mute func(session int, listens bool) bool

	mu       sync.Mutex
	sessions []*session
}

type session struct {
	end     net.Conn
	backend *pgproto3.Backend
	silent  bool
}

// connect makes a connection to the server, as Listener.Connect does to a real one.
func (s *server) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("postgres://user@server/database?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"server"}, nil }
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		client, end := net.Pipe()
		go s.serve(end)
		return client, nil
	}
	return pgx.ConnectConfig(ctx, config)
}

func (s *server) serve(end net.Conn) {
	defer end.Close()
	one := &session{end: end, backend: pgproto3.NewBackend(end, end)}
	greeting, err := one.backend.ReceiveStartupMessage()
	if _, ok := greeting.(*pgproto3.StartupMessage); err != nil || !ok {
		return // a cancel request
	}
	s.mu.Lock()
	number := len(s.sessions)
	one.silent = s.mute != nil && s.mute(number, false)
	s.sessions = append(s.sessions, one)
	s.mu.Unlock()
	s.say(one, &pgproto3.AuthenticationOk{}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	for {
		message, err := one.backend.Receive()
		if err != nil {
			return
		}
		if _, ok := message.(*pgproto3.Query); ok {
			if s.mute != nil && s.mute(number, true) {
				s.silence(one)
			}
			s.say(one, &pgproto3.CommandComplete{CommandTag: []byte("LISTEN")}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}

func (s *server) say(to *session, messages ...pgproto3.BackendMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to.silent {
		return
	}
	for _, message := range messages {
		to.backend.Send(message)
	}
	_ = to.backend.Flush() // closed connections do not receive it
}

// Ping notifies all listeners through another connection.
func (s *server) Ping(_ context.Context, channel, payload string) error {
	s.say(s.newest(), &pgproto3.NotificationResponse{PID: 1, Channel: channel, Payload: payload})
	return nil
}

func (s *server) newest() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[len(s.sessions)-1]
}

// silence makes a session stop answering without closing it.
func (s *server) silence(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.silent = true
}

// made returns the number of sessions.
func (s *server) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// foundWithin is the longest time that a dead connection may go undetected.
const foundWithin = 9 * time.Second

// silence runs a test in a bubble with a listener of a server. run runs it until the test ends.
func silence(t *testing.T, test func(t *testing.T, s *server, l *Listener, run func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		l := &Listener{Connect: s.connect, Ring: func(string) {}, Ping: s, PingInterval: 2 * time.Second,
			PingTimeout: 3 * time.Second, Name: "replica_1", Log: slog.New(slog.DiscardHandler)}
		test(t, s, l, func() {
			stop := looptest.Run(t, l.Run)
			synctest.Wait()
			t.Cleanup(func() {
				synctest.Wait()
				stop()
				require.False(t, l.Connected())
				time.Sleep(time.Minute) // pgx closes connections in the background
			})
		})
	})
}

// replaced requires that a connection that falls silent now is replaced within a time, the nth of the server.
func (s *server) replaced(t *testing.T, l *Listener, nth int, within time.Duration) {
	t.Helper()
	require.True(t, l.Connected())
	s.silence(s.newest())
	began := time.Now()
	for s.made() < nth || !l.Connected() {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, time.Since(began), within)
}

func TestSilentConnectionIsReplacedWithinNineSecondsWheneverItDies(t *testing.T) {
	t.Parallel()
	for died := time.Duration(0); died <= 5*time.Second; died += 100 * time.Millisecond {
		silence(t, func(t *testing.T, s *server, l *Listener, run func()) {
			run()
			time.Sleep(died + time.Millisecond) // not at the instant of a ping
			s.replaced(t, l, 2, l.PingInterval+l.PingTimeout+2*reconnectDelay)
		})
	}
}

// The worst case: the connection dies just after a ping, and the next connection attempt or LISTEN is not answered.
func TestSilentConnectionAndASilentSuccessorAreGivenUpWithinNineSeconds(t *testing.T) {
	t.Parallel()
	for died := time.Duration(0); died <= 5*time.Second; died += 100 * time.Millisecond {
		for _, atListen := range []bool{false, true} {
			silence(t, func(t *testing.T, s *server, l *Listener, run func()) {
				s.mute = func(connection int, listens bool) bool { return connection == 1 && listens == atListen }
				run()
				time.Sleep(died + time.Millisecond)
				s.replaced(t, l, 3, foundWithin+reconnectDelay+time.Millisecond)
			})
		}
	}
}

func TestConnectionThatIsHeardLateIsNotCut(t *testing.T) {
	t.Parallel()
	silence(t, func(t *testing.T, s *server, l *Listener, run func()) {
		l.Ping = pingerFunc(func(ctx context.Context, channel, payload string) error {
			time.AfterFunc(l.PingTimeout-time.Millisecond, func() { _ = s.Ping(ctx, channel, payload) })
			return nil
		})
		run()
		time.Sleep(time.Minute)
		require.Equal(t, 1, s.made())
		require.True(t, l.Connected())
	})
}

func TestPingThatHangsIsGivenUpAndSentAgain(t *testing.T) {
	t.Parallel()
	silence(t, func(t *testing.T, s *server, l *Listener, run func()) {
		hangs := true
		l.Ping = pingerFunc(func(ctx context.Context, channel, payload string) error {
			if hangs { // like a pooled connection that died together with the listener's
				hangs = false
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return s.Ping(ctx, channel, payload)
		})
		run()
		s.replaced(t, l, 2, 2*(l.PingInterval+l.PingTimeout)+2*reconnectDelay)
	})
}

func TestListener_WarnsOnceWhenItCannotCheckItself(t *testing.T) {
	t.Parallel()
	silence(t, func(t *testing.T, s *server, l *Listener, run func()) {
		var log logtest.Book
		l.Log = slog.New(&log)
		var works atomic.Bool
		l.Ping = pingerFunc(func(ctx context.Context, channel, payload string) error {
			if !works.Load() {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return s.Ping(ctx, channel, payload)
		})
		run()
		time.Sleep(unsentOften * (l.PingInterval + l.PingTimeout))
		synctest.Wait()
		time.Sleep(time.Minute)
		require.Len(t, log.At(slog.LevelWarn), 1)
		require.Contains(t, log.At(slog.LevelWarn)[0], "The poll still finds new items")
		works.Store(true)
		time.Sleep(2 * (l.PingInterval + l.PingTimeout))
		require.Equal(t, []string{"Listening", "Listener checks itself again"}, log.At(slog.LevelInfo))
	})
}

func TestStopsWhereverItIs(t *testing.T) {
	must.Each(t, map[string]func(context.Context) (*pgx.Conn, error){
		"between connections": func(context.Context) (*pgx.Conn, error) { return nil, errors.New("connection refused") },
		"while connecting": func(ctx context.Context) (*pgx.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"while its connection is silent": nil,
	}, func(t *testing.T, connect func(context.Context) (*pgx.Conn, error)) {
		silence(t, func(t *testing.T, s *server, l *Listener, run func()) {
			l.Ping = nil
			if connect != nil {
				l.Connect = connect
			}
			run()
			require.Equal(t, connect == nil, l.Connected())
			if connect == nil {
				s.silence(s.newest())
			}
		})
	})
}

// A ping that cannot be sent proves nothing.
func TestConnectionThatWasReplacedWhileItsPingWasOutIsLeftAlone(t *testing.T) {
	t.Parallel()
	silence(t, func(t *testing.T, s *server, l *Listener, run func()) {
		l.Ping = pingerFunc(func(_ context.Context, _, payload string) error {
			if payload == "1" {
				return s.newest().end.Close() // lost, with the ping
			}
			return errors.New("the database does not answer")
		})
		run()
		time.Sleep(time.Minute)
		require.Equal(t, 2, s.made())
		require.True(t, l.Connected())
	})
}
