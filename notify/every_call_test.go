package notify_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/troubletest"
	"github.com/pgdispatch/pgdispatch/notify"
)

// lodge is a Postgres that has the gate and its duty. One of the calls of its sessions meets a trouble.
type lodge struct {
	calls *troubletest.Calls

	mu    sync.Mutex
	open  bool
	duty  *session
	held  bool
	shuts int
	looks int  // how often a gate was told to look
	wrong bool // the gate was opened by another session than the one on duty
}

// session is a connection of a gate, which calls another one.
type session struct {
	*lodge
	calls *troubletest.Calls
	other func() *notify.Gate
	ended bool
	locks int // duty is a lock: a session that takes it twice leaves it at the second unlock
}

func (s *session) do(call string, effect func()) error {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if ended {
		return troubletest.Err
	}
	return s.calls.Do(call, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		effect()
	})
}

func (s *session) TakeDuty(context.Context) (mine bool, err error) {
	err = s.do("take duty", func() {
		if mine = s.duty == nil || s.duty == s; mine {
			s.duty, s.locks = s, s.locks+1
		}
	})
	return mine && err == nil, err
}

func (s *session) Leave(context.Context) error {
	return s.do("leave", func() {
		if s.open, s.locks = true, s.locks-1; s.locks == 0 {
			s.duty = nil
		}
	})
}

func (s *session) Shut(context.Context) (done bool, err error) {
	err = s.do("shut", func() { s.open, done, s.shuts = false, !s.held, s.shuts+1 })
	return done && err == nil, err
}

func (s *session) Open(context.Context) error {
	return s.do("open", func() { s.open, s.wrong = true, s.wrong || s.duty != s })
}

func (s *session) Call(context.Context, string) error {
	return s.calls.Do("call", func() { s.other().Called() })
}

func (s *session) Ping(context.Context) error { return s.do("ping", func() {}) }

func (s *session) Close(context.Context) error {
	s.mu.Lock()
	if s.duty == s {
		s.duty = nil
	}
	s.mu.Unlock()
	return s.do("close", func() {})
}

func (l *lodge) seen() (open bool, shuts, looks int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.shuts, l.looks
}

// holds sets whether a transaction is open that read the gate as open.
func (l *lodge) holds(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
}

// keeper returns a gate that sleeps by that lodge.
func (l *lodge) keeper(calls *troubletest.Calls, log *logtest.Book, other func() *notify.Gate) *notify.Gate {
	return &notify.Gate{Interval: 5 * time.Second, Log: slog.New(log),
		Shutting: func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.looks++
		},
		Connect: func(context.Context) (notify.GateSession, error) {
			return &session{lodge: l, calls: calls, other: other}, calls.Do("connect", func() {})
		}}
}

// keepsGate runs two gates, one of whose calls may meet a trouble, and checks that they do what is wanted within an
// interval.
func keepsGate(t *testing.T, calls *troubletest.Calls) {
	l, log := &lodge{calls: calls}, &logtest.Book{}
	var one, two *notify.Gate
	one = l.keeper(calls, log, func() *notify.Gate { return two })
	two = l.keeper(&troubletest.Calls{}, log, func() *notify.Gate { return one })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- one.Run(ctx) }()
	looptest.Pass(time.Second) // the other must not try to take duty while this one connects again
	go func() { ended <- two.Run(ctx) }()
	within := func() { looptest.Pass(one.Interval + time.Second) }
	sleeps := func(gate, other *notify.Gate) {
		t.Helper()
		within()
		require.True(t, gate.OnDuty() && gate.IsAsleep())
		require.False(t, other.OnDuty() || other.IsAsleep())
		open, _, _ := l.seen()
		require.False(t, open)
	}
	one.Sleep()
	sleeps(one, two)
	two.Sleep()
	sleeps(one, two)
	two.Distrust(2 * two.Interval) // it confirms that the gate is shut, and is not on duty afterwards
	looptest.Pass(2 * two.Interval)
	sleeps(one, two)
	one.Awake()
	within()
	require.False(t, one.IsAsleep())
	open, _, before := l.seen()
	require.True(t, one.OnDuty() && open, "no commit notifies")
	one.Sleep()
	sleeps(one, two)
	_, _, looks := l.seen()
	require.Greater(t, looks, before, "it looks at what was committed meanwhile")
	one.Busy()
	sleeps(two, one)
	one.Sleep()
	two.Busy()
	sleeps(one, two)
	one.Call()
	sleeps(one, two)
	cancel()
	require.NoError(t, notify.Receive(t, ended))
	require.NoError(t, notify.Receive(t, ended))
	require.Nil(t, l.duty)
	require.LessOrEqual(t, len(log.Lines()), 1)
}

func TestWhicheverCallFailsTheGateIsSet(t *testing.T) {
	t.Parallel()
	troubletest.Each(t, keepsGate)
}

func TestAGateThatHasLostDutyLeavesItToTheOneThatWasCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lodge{}
		var gates [2]*notify.Gate
		for n, wish := range []func(*notify.Gate){(*notify.Gate).Awake, (*notify.Gate).Sleep} {
			gates[n] = l.keeper(&troubletest.Calls{}, &logtest.Book{}, nil)
			wish(gates[n])
			go gates[n].Run(t.Context()) //nolint:errcheck // nil
			looptest.Pass(time.Second)
		}
		l.mu.Lock()
		l.duty.ended, l.duty = true, nil
		l.mu.Unlock()
		gates[1].Called()
		synctest.Wait()
		require.True(t, gates[1].OnDuty(), "it has tried at once")
		looptest.Pass(time.Minute)
		require.False(t, gates[0].OnDuty() || l.wrong)
	})
}

func TestAGateThatCannotConnectStopsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := &notify.Gate{Connect: func(context.Context) (notify.GateSession, error) { return nil, troubletest.Err }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		require.NoError(t, gate.Run(ctx))
		require.Equal(t, time.Hour, time.Since(began))
	})
}
