package fault

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

func postgresFaults() []*Fault {
	s := time.Second
	const firstClaim = "from Postgres' return to the first claim"
	return []*Fault{
		{Name: "postgres-kill", Matrix: []int{21}, Domain: database, How: "kill -9 of Postgres", Lift: "it is restarted",
			Figure: firstClaim, Limit: postgresBack, Longest: s, Inject: postgresKill},
		{Name: "postgres-backend-kill", Matrix: []int{22}, Domain: database,
			How:    "kill -9 of one of a replica's server processes: Postgres ends all sessions and recovers",
			Lift:   "it recovers by itself",
			Figure: firstClaim, Limit: postgresBack, Longest: s, Inject: postgresBackendKill},
		{Name: "postgres-stop", Matrix: []int{23}, Domain: database,
			How: "immediate stop of Postgres for longer than a lease", Lift: "it is restarted",
			Figure: firstClaim, Limit: postgresBack, Shortest: lab.Lease + s, Longest: 2 * lab.Lease,
			Inject: postgresStop(syscall.SIGQUIT)},
		{Name: "postgres-restart", Matrix: []int{23}, Domain: database,
			How: "fast stop of Postgres", Lift: "it is restarted",
			Figure: firstClaim, Limit: postgresBack, Longest: 2 * s, Inject: postgresStop(syscall.SIGINT)},
		{Name: "failover", Matrix: []int{32, 33}, Domain: database,
			How: "kill -9 of the primary whose commits wait for the standby; its address leads to the standby, which refuses " +
				"writes, and then it is promoted", Lift: "it has a new standby",
			Figure: "from the promotion to the first claim", Limit: 5, Longest: s / 2, Inject: failover},
		{Name: "failover-lossy", Matrix: []int{32}, Domain: database,
			How: "kill -9 of the primary whose standby has not followed for a while, and promotion: rows, claims and settles " +
				"are lost", Lift: "it has a new standby",
			Figure: "from the promotion to the first claim", Limit: 5, Alone: true, Inject: failoverLossy},
		{Name: "standby-hangs", Matrix: []int{34}, Domain: database,
			How:    "commits wait for a standby that is cut off, for longer than a lease",
			Lift:   "held data is delivered",
			Figure: "from the return to the first claim", Limit: postgresBack, Shortest: lab.Lease + s,
			Longest: lab.Lease + 2*s, Inject: standbyHangs},
	}
}

// back measures the time from the database's first answer to the first claim.
func back(ctx context.Context, s *Scene) (Measure, error) {
	var open int
	var oldest []string
	if err := s.Row(ctx, "open_items", nil, &open, &oldest); err != nil {
		return nil, err
	}
	return firstMove(s.Lab, "CLAIMED", time.Now()), nil
}

func postgresUp(s *Scene) Lift {
	return func(ctx context.Context) (Measure, error) {
		if err := s.Primary().Start(ctx); err != nil {
			return nil, err
		}
		at := time.Now() // the server answers by now
		return firstMove(s.Lab, "CLAIMED", at), nil
	}
}

func postgresKill(_ context.Context, s *Scene) (Lift, error) {
	return postgresUp(s), s.Primary().Kill()
}

func postgresStop(how syscall.Signal) func(context.Context, *Scene) (Lift, error) {
	return func(_ context.Context, s *Scene) (Lift, error) { return postgresUp(s), s.Primary().Stop(how) }
}

func postgresBackendKill(ctx context.Context, s *Scene) (Lift, error) {
	var pid int
	if err := s.Row(ctx, "backend", []any{s.Rand.IntN(100)}, &pid); err != nil {
		return nil, err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("kill server process %d: %w", pid, err)
	}
	return func(ctx context.Context) (Measure, error) { return back(ctx, s) }, nil
}

func failover(ctx context.Context, s *Scene) (Lift, error) {
	if err := s.Synchronous(ctx, true); err != nil {
		return nil, errors.Join(err, s.Synchronous(ctx, false))
	}
	const readOnly = 700 * time.Millisecond
	if err := s.Failover(ctx, readOnly); err != nil {
		return nil, err
	}
	return newStandby(s), nil
}

func failoverLossy(ctx context.Context, s *Scene) (Lift, error) {
	const behind = 1500 * time.Millisecond
	if err := s.FailoverLossy(ctx, behind); err != nil {
		return nil, err
	}
	return newStandby(s), nil
}

// newStandby measures the time to the first claim, and creates a standby for the new primary.
func newStandby(s *Scene) Lift {
	m := firstMove(s.Lab, "CLAIMED", time.Now())
	return func(ctx context.Context) (Measure, error) {
		value, err := m(ctx) // before the copy for the new standby competes with it
		return func(context.Context) (float64, error) { return value, err }, s.AddStandby(ctx)
	}
}

func standbyHangs(ctx context.Context, s *Scene) (Lift, error) {
	off := func(ctx context.Context) error { return s.Synchronous(ctx, false) }
	if err := s.Synchronous(ctx, true); err != nil {
		return nil, errors.Join(err, off(ctx))
	}
	s.Replication.Set(proxy.Policy{Hole: true})
	return func(ctx context.Context) (Measure, error) {
		s.Replication.Set(proxy.Policy{})
		m, err := back(ctx, s)
		return m, errors.Join(err, off(ctx))
	}, nil
}
