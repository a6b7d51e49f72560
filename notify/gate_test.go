package notify_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/troubletest"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// gated is a gate on a real database that counts how often it was shut.
type gated struct {
	*notify.Gate
	shutting chan struct{}
}

func newGate(t *testing.T, url, name string) gated {
	t.Helper()
	return newGateEvery(t, url, name, 50*time.Millisecond)
}

// newGateEvery returns a gate that sets itself again at an interval.
func newGateEvery(t *testing.T, url, name string, interval time.Duration) gated {
	t.Helper()
	g := gated{shutting: make(chan struct{}, 100)}
	g.Gate = &notify.Gate{
		Connect: func(ctx context.Context) (notify.GateSession, error) {
			config, err := pgx.ParseConfig(url)
			if err != nil {
				return nil, err
			}
			config.RuntimeParams["application_name"] = name
			conn, err := pgx.ConnectConfig(ctx, config)
			if err != nil {
				return nil, err
			}
			return &notify.Session{Conn: conn}, nil
		},
		Interval: interval,
		Shutting: func() { g.shutting <- struct{}{} },
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	looptest.Run(t, g.Run)
	return g
}

// fallAsleep has the replica sleep, and waits until the gate is shut.
func (g gated) fallAsleep(t *testing.T) {
	t.Helper()
	g.Sleep()
	notify.Receive(t, g.shutting)
}

// database creates a database, and lets its test run beside others.
func database(t *testing.T) (url string, pool *pgxpool.Pool) {
	t.Helper()
	t.Parallel()
	url = sqltest.URL(t)
	return url, sqltest.Pool(t, url)
}

func within(t *testing.T, condition func() bool, message string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			require.FailNow(t, "timeout", message)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// wakes reports whether a transaction that commits now would notify.
func wakes(t *testing.T, pool *pgxpool.Pool) bool {
	t.Helper()
	var awake bool
	require.NoError(t,
		pool.QueryRow(t.Context(), "select coalesce(pg_sequence_last_value('pgdispatch.gate'), 2) = 2").Scan(&awake))
	return !awake
}

func TestASleeperWaitsForWhoeverWasToldThatNobodySleeps(t *testing.T) {
	url, pool := database(t)
	_, err := pool.Exec(t.Context(), "select setval('pgdispatch.gate', 2)") // a replica is awake
	require.NoError(t, err)
	inFlight := must.Get(pool.Begin(t.Context())).In(t)
	t.Cleanup(func() { _ = inFlight.Rollback(context.Background()) }) // closing the pool would wait for it
	must.Get(inFlight.Exec(t.Context(), "select pgdispatch.wake()")).In(t)

	gate := newGate(t, url, "one")
	gate.Sleep()
	within(t, func() bool { return wakes(t, pool) }, "transactions notify while the sleeper waits for the lock")
	require.False(t, gate.IsAsleep())
	require.Empty(t, gate.shutting)

	require.NoError(t, inFlight.Commit(t.Context()))
	notify.Receive(t, gate.shutting)
	require.True(t, gate.IsAsleep())
	require.True(t, wakes(t, pool))
}

func TestOneIsOnDutyAndABusyOneHandsItOver(t *testing.T) {
	url, pool := database(t)
	listener := must.Get(pool.Acquire(t.Context())).In(t)
	defer listener.Release()
	must.Get(listener.Exec(t.Context(), "listen "+notify.HelpChannel)).In(t)
	first := newGate(t, url, "first")
	first.fallAsleep(t)
	second := newGate(t, url, "second")
	second.Sleep()
	within(t, func() (tried bool) {
		require.NoError(t, pool.QueryRow(t.Context(), `select exists (select from pg_stat_activity where application_name =
			'second' and datname = current_database() and position('gate_key() + 1' in query) > 0)`).Scan(&tried))
		return tried
	}, "the second tries to take duty")
	second.Call()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must.Get(listener.Conn().WaitForNotification(ctx)).In(t) // without duty it calls
	require.False(t, second.OnDuty())

	first.Busy()
	notify.Receive(t, second.shutting)
	within(t, func() bool { return !first.OnDuty() }, "the first has left")
	require.True(t, second.OnDuty())

	first.Sleep()
	must.Get(pool.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity "+
		"where application_name = 'second' and datname = current_database()")).In(t)
	within(t, func() bool {
		return first.OnDuty() != second.OnDuty() && (first.IsAsleep() || second.IsAsleep())
	}, "one is on duty again after the death of its holder, and the gate is shut")
}

func TestWhoeverDistrustsIsWokenBesideTheOneOnDuty(t *testing.T) {
	url, pool := database(t)
	frozen, err := pool.Acquire(t.Context()) // on duty, awake, and hangs
	require.NoError(t, err)
	defer frozen.Release()
	must.Get(frozen.Exec(t.Context(), "select pg_advisory_lock(pgdispatch.gate_key() + 1)")).In(t)

	gate := newGateEvery(t, url, "one", time.Hour)
	gate.Sleep()
	gate.Distrust(time.Hour)
	notify.Receive(t, gate.shutting)
	require.True(t, gate.OnDuty())
	require.True(t, wakes(t, pool))

	must.Get(frozen.Exec(t.Context(), "select setval('pgdispatch.gate', 2), "+
		"pg_advisory_unlock(pgdispatch.gate_key() + 1)")).In(t) // it has opened the gate and leaves duty
	gate.Called()
	notify.Receive(t, gate.shutting)
	require.True(t, wakes(t, pool), "whoever takes duty asleep shuts the gate again")
}

// The effects of another session moving the gate last for at most an interval.
func TestAGateThatAnotherMovedIsSetAgain(t *testing.T) {
	url, pool := database(t)
	gate := newGate(t, url, "one")
	move := func(to int) {
		must.Get(pool.Exec(t.Context(), "select setval('pgdispatch.gate', $1)", to)).In(t)
	}
	gate.fallAsleep(t)
	move(2)
	within(t, func() bool { return wakes(t, pool) }, "the replica sleeps and is notified again")
	gate.Awake()
	within(t, func() bool { return !wakes(t, pool) }, "the gate opens")
	move(1)
	within(t, func() bool { return !wakes(t, pool) }, "the replica is awake and not notified any more")
	gate.fallAsleep(t)
	gate.Busy()
	within(t, func() bool { return !wakes(t, pool) }, "no replica is on duty")
}

func TestAnErrorOfTheGateSaysWhatWasTried(t *testing.T) {
	t.Parallel()
	conn := must.Get(pgx.Connect(t.Context(), sqltest.URL(t))).In(t)
	session := &notify.Session{Conn: conn}
	require.NoError(t, session.Ping(t.Context()))
	require.NoError(t, session.Close(t.Context()))
	require.ErrorContains(t, session.Ping(t.Context()), "ping gate: ")
	_, err := session.Shut(t.Context())
	require.ErrorContains(t, err, "shut gate: ")
}

func TestALongTransactionIsAskedAboutEverMoreRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lodge{held: true}
		gate := l.keeper(&troubletest.Calls{}, &logtest.Book{}, nil)
		looptest.Run(t, gate.Run)
		looptest.Pass(time.Millisecond)
		gate.Sleep()
		looptest.Pass(4 * time.Second)
		_, shuts, _ := l.seen()
		require.Positive(t, shuts, "it does not wait for the next interval")
		looptest.Pass(11 * time.Second)
		_, shuts, _ = l.seen()
		require.Less(t, shuts, 40, "few tries in 15 s")
		looptest.Pass(time.Hour)
		_, shuts, _ = l.seen()
		require.InDelta(t, 2*time.Hour/(2*5*time.Second), shuts, 80, "then one per interval")
		require.False(t, gate.IsAsleep())

		gate.Awake() // work arrived; the next tries start with short pauses
		looptest.Pass(time.Second)
		gate.Sleep()
		looptest.Pass(100 * time.Millisecond)
		l.holds(false)
		looptest.Pass(60 * time.Millisecond)
		require.True(t, gate.IsAsleep(), "the pauses are short again")
		_, _, looks := l.seen()
		require.Equal(t, 1, looks)
	})
}
