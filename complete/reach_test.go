package complete

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// reaching runs a Reach of 10 s; the test answers its probe.
func reaching(t *testing.T, probe func(ctx context.Context, at time.Duration) error,
	test func(r *Reach, log *logtest.Book, found *atomic.Int64)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, log, found := time.Now(), &logtest.Book{}, &atomic.Int64{}
		r := &Reach{Limit: 10 * time.Second, Log: slog.New(log), Found: func() { found.Add(1) },
			Probe: func(ctx context.Context) error { return probe(ctx, time.Since(began)) }}
		looptest.Run(t, r.Run)
		synctest.Wait()
		test(r, log, found)
	})
}

func TestReachIsLostAfterItsLimitAndFoundAtOnce(t *testing.T) {
	reaching(t, func(_ context.Context, at time.Duration) error {
		if at > time.Minute && at < time.Hour {
			return errors.New("connection refused")
		}
		return nil
	}, func(r *Reach, log *logtest.Book, _ *atomic.Int64) {
		require.True(t, r.Reached())
		looptest.Pass(time.Minute + 7*time.Second)
		require.True(t, r.Reached(), "the limit is not reached yet")
		require.False(t, r.Away())
		looptest.Pass(4 * time.Second)
		require.False(t, r.Reached())
		require.True(t, r.Away())
		require.EqualError(t, r.Err(), "connection refused")
		looptest.Pass(50 * time.Minute)
		require.Greater(t, time.Since(r.Answered()), 50*time.Minute)
		looptest.Pass(9 * time.Minute)
		require.True(t, r.Reached())
		require.Equal(t, []string{"Temporal is unreachable; releasing watches to other replicas"}, log.At(slog.LevelWarn),
			"only once")
		require.Equal(t, []string{"connection refused"}, log.Errors(slog.LevelWarn))
		require.Equal(t, []string{"Temporal is reachable again; resuming watches"}, log.At(slog.LevelInfo))
	})
}

func TestBeforeTheFirstAnswerTemporalIsNeitherReachedNorAway(t *testing.T) {
	t.Parallel()
	r := &Reach{}
	require.False(t, r.Reached() || r.Away())
	require.EqualError(t, r.Err(), "it has not answered yet")
	require.Zero(t, r.Answered())
}

func TestReachIsLostWhereNothingIsAnswered(t *testing.T) {
	reaching(t, func(ctx context.Context, at time.Duration) error {
		if at < time.Second {
			return nil
		}
		<-ctx.Done() // an open but dead connection
		return ctx.Err()
	}, func(r *Reach, log *logtest.Book, _ *atomic.Int64) {
		looptest.Pass(12 * time.Second)
		require.False(t, r.Reached())
		require.Equal(t, []string{"probe timed out after 3.333333333s: context deadline exceeded"},
			log.Errors(slog.LevelWarn))
	})
}

func TestReach_FindsTemporalHalfASecondAfterAnOutageInWhichProbesHang(t *testing.T) {
	reaching(t, func(ctx context.Context, at time.Duration) error {
		if at < time.Second || at >= 45*time.Second {
			return nil
		}
		<-ctx.Done() // what was sent during the outage is never answered
		return ctx.Err()
	}, func(r *Reach, _ *logtest.Book, found *atomic.Int64) {
		looptest.Pass(45*time.Second - time.Millisecond)
		require.False(t, r.Reached())
		require.Zero(t, found.Load())
		looptest.Pass(500*time.Millisecond + time.Millisecond)
		require.True(t, r.Reached())
		require.EqualValues(t, 1, found.Load())

		looptest.Pass(time.Second)
		require.NoError(t, r.Err(), "probes of the outage that time out after its end are no failures")
		require.Nil(t, r.failure.Load())
	})
}

func TestARefusedNamespaceIsNoOutageAndIsLoggedOnce(t *testing.T) {
	const missing = temporal.NamespaceError("Temporal has no namespace")
	reaching(t, func(_ context.Context, at time.Duration) error {
		if at < time.Hour {
			return missing
		}
		return nil
	}, func(r *Reach, log *logtest.Book, _ *atomic.Int64) {
		require.Equal(t, missing, r.Refused(), "at once, if it was never accepted")
		looptest.Pass(59 * time.Minute)
		require.Equal(t, missing, r.Refused())
		require.True(t, r.Reached(), "other namespaces may be served")
		require.NoError(t, r.Err())
		require.Less(t, time.Since(r.Answered()), 3*time.Second)
		looptest.Pass(time.Minute + 3*time.Second)
		require.NoError(t, r.Refused())
		require.Equal(t,
			[]string{"Temporal refuses this replica's namespace; its items wait, and the replica is not ready"},
			log.At(slog.LevelError))
		require.Equal(t, []string{string(missing)}, log.Errors(slog.LevelError))
		require.Equal(t, []string{"Temporal accepts this replica's namespace"}, log.At(slog.LevelInfo))
		require.Empty(t, log.At(slog.LevelWarn))
	})
}

func TestANamespaceIsRefusedForAWhileBeforeItCounts(t *testing.T) {
	reaching(t, func(_ context.Context, at time.Duration) error {
		if at > time.Minute && at < 65*time.Second || at > time.Hour {
			return temporal.NamespaceError("Request unauthorized.")
		}
		return nil
	}, func(r *Reach, _ *logtest.Book, _ *atomic.Int64) {
		for range 2 * 60 {
			looptest.Pass(time.Second)
			require.NoError(t, r.Refused())
		}
		looptest.Pass(58*time.Minute + 9*time.Second)
		require.NoError(t, r.Refused())
		looptest.Pass(4 * time.Second)
		require.EqualError(t, r.Refused(), "Request unauthorized.")
	})
}

func TestOneFailedProbeIsNoOutage(t *testing.T) {
	probes := 0
	reaching(t, func(context.Context, time.Duration) error {
		if probes++; probes%2 == 0 {
			return errors.New("connection reset")
		}
		return nil
	}, func(r *Reach, log *logtest.Book, _ *atomic.Int64) {
		for range 100 {
			looptest.Pass(time.Second)
			require.True(t, r.Reached())
		}
		require.Empty(t, log.At(slog.LevelWarn))
	})
}

func TestReplicaThatDoesNotReachTemporalGivesUpItsWatchesAndAdoptsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		var reached atomic.Bool
		reached.Store(true)
		p.Reached = reached.Load
		p.onWait = forever
		p.onGiveUp = func([]string) error {
			if len(p.seen().givenUp) < 3 {
				return errors.New("connection refused")
			}
			return nil
		}
		p.run()
		p.Watch("e1", "run-1")
		p.Watch("e2", "run-2")
		looptest.Pass(500 * time.Millisecond)
		reached.Store(false)
		looptest.Pass(10 * time.Minute)
		require.Zero(t, p.seen().now)
		require.Equal(t, giveUpCall{time.Second, nil}, p.seen().givenUp[0])
		require.Len(t, p.seen().givenUp, 3, "it is repeated until the database knows, and then not for the same outage")
		require.Equal(t, []string{"Cannot release watches", "Cannot release watches"}, p.log.At(slog.LevelError))
		require.Len(t, p.seen().adopts, 1, "only the adoption at the start")

		p.Watch("e3", "run-3") // its start was answered just before
		looptest.Pass(10 * time.Minute)
		require.Len(t, p.seen().givenUp, 4)
		require.Zero(t, p.seen().now)
		require.Empty(t, p.log.At(slog.LevelWarn))

		p.onAdopt = func(int, []string) ([]temporal.Execution, error) {
			return []temporal.Execution{{ID: "e1", RunID: "run-1"}}, nil
		}
		reached.Store(true)
		looptest.Pass(time.Second)
		require.Len(t, p.seen().adopts, 2)
		require.Equal(t, 1, p.seen().now)
	})
}
