package fault

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

func networkFaults() []*Fault {
	s := time.Second
	const longest = "the longest time without a start"
	return []*Fault{
		{Name: "answer-lost-postgres", Matrix: []int{3, 56}, Domain: database,
			How:    "Postgres' answers to the replicas are dropped one at a time, after the commit",
			Lift:   "it stops",
			Figure: longest, Limit: postgresBack, Shortest: 3 * s, Longest: 4 * s, Inject: answersLost},
		{Name: "commit-lost-application", Matrix: []int{56}, Domain: database,
			How: "Postgres' answers to applications are dropped one at a time", Lift: "it stops",
			Figure: longest, Limit: onePoll, Shortest: 2 * s, Longest: 3 * s, Inject: commitsLost},
		{Name: "latency-postgres", Matrix: []int{51}, Domain: database,
			How: "20 to 60 ms on every piece between replicas and Postgres", Lift: "it stops",
			Figure: longest, Limit: onePoll, Shortest: 3 * s, Longest: 5 * s,
			Inject: postgresPolicy(proxy.Policy{Delay: 20 * time.Millisecond, Jitter: 40 * time.Millisecond}, false)},
		{Name: "half-open-listener", Matrix: []int{52}, Domain: database,
			How: "every listener's connection goes silent and stays open", Lift: "held data is delivered",
			Figure: "until every replica listens on another connection", Limit: 9, Alone: true, Inject: halfOpenListener},
		{Name: "half-open-pool", Matrix: []int{53}, Domain: database,
			How: "every pooled connection goes silent and stays open; new ones work", Lift: "held data is delivered",
			Figure: longest, Limit: 15, Shortest: 12 * s, Longest: 12 * s, Alone: true, Inject: halfOpenPool},
		{Name: "postgres-partition-one", Matrix: []int{54}, Domain: database,
			How:    "nothing passes between the busiest replica and Postgres for longer than a lease",
			Lift:   "held data is delivered",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: lab.Lease + s,
			Longest: lab.Lease + 2*s, Inject: postgresPartition},
		{Name: "postgres-partition-all", Matrix: []int{53, 54}, Domain: database,
			How:    "nothing passes between the replicas and Postgres for longer than a lease",
			Lift:   "held data is delivered",
			Figure: "from the end to the first claim", Limit: postgresBack, Shortest: lab.Lease + s, Longest: lab.Lease + 2*s,
			Inject: postgresPolicy(proxy.Policy{Hole: true}, true)},
		{Name: "postgres-one-way", Matrix: []int{56}, Domain: database,
			How:    "Postgres' answers do not arrive for longer than a lease; requests do",
			Lift:   "held data is delivered",
			Figure: "from the end to the first claim", Limit: postgresBack, Shortest: lab.Lease + s, Longest: lab.Lease + 2*s,
			Inject: postgresPolicy(proxy.Policy{OneWay: true}, true)},
		{Name: "postgres-slices", Matrix: []int{56}, Domain: database,
			How: "every connection to Postgres passes 10 bytes at a time, and all are cut every half second", Lift: "it stops",
			Figure: longest, Limit: postgresBack, Shortest: 3 * s, Longest: 4 * s, Inject: sliced},
	}
}

// postgresPolicy sets a policy for all replicas. With outage, nothing works while it lasts, so the recovery is
// measured.
func postgresPolicy(policy proxy.Policy, outage bool) func(context.Context, *Scene) (Lift, error) {
	return func(_ context.Context, s *Scene) (Lift, error) {
		at := time.Now()
		for _, r := range s.Replicas {
			r.Postgres.Set(policy)
		}
		return func(context.Context) (Measure, error) {
			end := time.Now()
			for _, r := range s.Replicas {
				r.Postgres.Set(proxy.Policy{})
			}
			if outage {
				return firstMove(s.Lab, "CLAIMED", end), nil
			}
			return gap(s.Lab, "DISPATCHED", at), nil
		}, nil
	}
}

// repeatedly applies do to a proxy until the fault is lifted, and measures the longest time without a start.
func repeatedly(ctx context.Context, s *Scene, interval time.Duration, do, undo func()) Lift {
	at := time.Now()
	stop := background(ctx, func(ctx context.Context) {
		for ctx.Err() == nil {
			do()
			_ = lab.Sleep(ctx, interval)
		}
	})
	return func(context.Context) (Measure, error) {
		stop()
		undo()
		return gap(s.Lab, "DISPATCHED", at), nil
	}
}

func answersLost(ctx context.Context, s *Scene) (Lift, error) {
	const interval = 150 * time.Millisecond
	before := dropped(s)
	lift := repeatedly(ctx, s, interval, func() {
		pick(s).Postgres.Set(proxy.Policy{DropReplies: 1})
	}, func() {
		for _, r := range s.Replicas {
			r.Postgres.Set(proxy.Policy{})
		}
		s.Logf("%d answers dropped", dropped(s)-before)
	})
	return lift, nil
}

func dropped(s *Scene) (n int) {
	for _, r := range s.Replicas {
		n += r.Postgres.Dropped()
	}
	return n
}

func commitsLost(ctx context.Context, s *Scene) (Lift, error) {
	const interval = 100 * time.Millisecond
	before := s.App.Dropped()
	return repeatedly(ctx, s, interval, func() { s.App.Set(proxy.Policy{DropReplies: 1}) }, func() {
		s.App.Set(proxy.Policy{})
		s.Logf("%d answers dropped", s.App.Dropped()-before)
	}), nil
}

func sliced(ctx context.Context, s *Scene) (Lift, error) {
	const interval, bytes = 500 * time.Millisecond, 10
	for _, r := range s.Replicas {
		r.Postgres.Set(proxy.Policy{Slice: bytes})
	}
	return repeatedly(ctx, s, interval, func() {
		for _, r := range s.Replicas {
			r.Postgres.Cut()
		}
	}, func() {
		for _, r := range s.Replicas {
			r.Postgres.Set(proxy.Policy{})
		}
	}), nil
}

func halfOpenListener(ctx context.Context, s *Scene) (Lift, error) {
	at := time.Now()
	for _, r := range s.Replicas {
		r.Postgres.Set(proxy.Policy{Hole: true, Label: "listener", Present: true})
	}
	err := lab.Await(ctx, 2*tolerance, "every replica listens on another connection", func() (bool, error) {
		var all, listeners int
		err := s.Row(ctx, "sessions", []any{at}, &all, &listeners)
		return listeners >= len(s.Replicas), err
	})
	took := time.Since(at)
	return func(context.Context) (Measure, error) {
		for _, r := range s.Replicas {
			r.Postgres.Set(proxy.Policy{})
		}
		return func(context.Context) (float64, error) { return took.Seconds(), nil }, nil
	}, err
}

func halfOpenPool(ctx context.Context, s *Scene) (Lift, error) {
	pools := proxy.Policy{Hole: true, Label: "pgdispatch", Except: "pgdispatch ", Present: true}
	return postgresPolicy(pools, false)(ctx, s)
}

func postgresPartition(ctx context.Context, s *Scene) (Lift, error) {
	r, err := holding(ctx, s)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	r.Postgres.Set(proxy.Policy{Hole: true})
	held, err := itemsOf(ctx, s, r.PID())
	s.Logf("replica %d holds %d items", r.N, len(held))
	return func(context.Context) (Measure, error) {
		r.Postgres.Set(proxy.Policy{})
		r.Frontend.Set(proxy.Rule{})
		return reclaimed(s.Lab, held, at), nil
	}, err
}
