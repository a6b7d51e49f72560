package fault

import (
	"context"
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

// clockFaults are jumps of the database's clock, which measures every lease. The clock of a Go program cannot be
// changed from outside.
func clockFaults() []*Fault {
	s := time.Second
	return []*Fault{
		{Name: "clock-jumps", Matrix: []int{58}, Domain: database,
			How:    "Postgres is restarted with a clock that is an hour ahead: all leases expire at once",
			Lift:   "when nothing is open, it is restarted with the right clock",
			Figure: "from Postgres' return to the first claim, the longer of the two", Limit: postgresBack, Shortest: 3 * s,
			Longest: 4 * s, Alone: true, Inject: clockJumps},
		{Name: "failover-clock", Matrix: []int{59}, Domain: database,
			How:    "failover to a standby whose clock is 90 s ahead",
			Lift:   "when nothing is open, it is restarted with the right clock",
			Figure: "from the promotion to the first claim", Limit: 5, Shortest: s, Longest: 2 * s, Alone: true,
			Inject: failoverClock},
		{Name: "clock-set-back", Matrix: []int{58}, Domain: database,
			How: "Postgres' clock is an hour ahead and is set back while a rate, a key's rate, an unwatched end, a dead " +
				"replica's watch, a refused signal or stop request, a due, debounced, retried or claimed item waits, " +
				"each with nothing else", Lift: "nothing to lift",
			Figure: "the longest wait beyond its own period", Limit: slack.Seconds(), Alone: true, Inject: clockSetBack},
	}
}

// drainTime bounds the wait until nothing is open, on a slow machine.
const drainTime = 4 * time.Minute

// backToNow drains the load and then corrects the clock. It drains first because due times were written with the wrong
// clock.
func backToNow(ctx context.Context, s *Scene) error {
	return errors.Join(s.Load.Drain(ctx, drainTime), s.SetClock(ctx, 0))
}

func clockJumps(ctx context.Context, s *Scene) (Lift, error) {
	if err := s.SetClock(ctx, time.Hour); err != nil {
		return nil, err
	}
	forward := firstMove(s.Lab, "CLAIMED", time.Now())
	return func(ctx context.Context) (Measure, error) {
		defer s.Load.Pause(false)
		first, err := forward(ctx)
		if err = errors.Join(err, backToNow(ctx, s)); err != nil {
			return nil, err
		}
		s.Load.Pause(false)
		backward := firstMove(s.Lab, "CLAIMED", time.Now())
		return func(ctx context.Context) (float64, error) {
			second, err := backward(ctx)
			s.Logf("%.2f s after the jump forward, %.2f s after the jump back", first, second)
			return max(first, second), err
		}, nil
	}, nil
}

func failoverClock(ctx context.Context, s *Scene) (Lift, error) {
	const ahead = 90 * time.Second
	if err := s.StandbyClock(ctx, ahead); err != nil {
		return nil, err
	}
	lift, err := failover(ctx, s)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Measure, error) {
		defer s.Load.Pause(false)
		m, err := lift(ctx)
		if err != nil {
			return nil, err
		}
		value, err := m(ctx)
		err = errors.Join(err, lab.Sleep(ctx, s.Hold), backToNow(ctx, s))
		return func(context.Context) (float64, error) { return value, nil }, err
	}, nil
}
