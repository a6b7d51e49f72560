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

// stopFaults freeze replicas, or end them in order.
func stopFaults() []*Fault {
	s := time.Second
	return []*Fault{
		{Name: "freeze", Matrix: []int{15}, Domain: replicas,
			How: "SIGSTOP of the busiest replica for longer than its leases", Lift: "SIGCONT",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: lab.Lease + s,
			Longest: lab.Lease + 2*s, Inject: freeze(holding)},
		{Name: "freeze-in-start", Matrix: []int{16}, Domain: replicas,
			How: "SIGSTOP of a replica with Temporal's answers in flight, for longer than its leases", Lift: "SIGCONT",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: lab.Lease + s,
			Longest: lab.Lease + 2*s,
			Inject:  freeze(inStart(proxy.Rule{Delay: answerLate}))},
		{Name: "freeze-all", Matrix: []int{18}, Domain: replicas,
			How: "SIGSTOP of all replicas for longer than their leases", Lift: "SIGCONT",
			Figure: "from SIGCONT to the first start of a workflow", Limit: 5, Shortest: lab.Lease + s/2,
			Longest: lab.Lease + s, Inject: freezeAll},
		{Name: "terminate", Matrix: []int{71}, Domain: replicas,
			How: "SIGTERM to a replica under load; it must leave no item leased", Lift: "it is restarted",
			Figure: "until it has exited with 0", Limit: lab.DrainTimeout.Seconds(), Shortest: s / 2, Longest: s,
			Inject: terminate(busiest)},
		{Name: "terminate-hung", Matrix: []int{71}, Domain: replicas,
			How: "SIGTERM to a replica with unanswered starts; it must leave no item leased", Lift: "it is restarted",
			Figure: "until it has exited with 0", Limit: (lab.DrainTimeout + 5*s).Seconds(), Shortest: s / 2, Longest: s,
			Inject: terminate(inStart(proxy.Rule{Void: true}))},
		{Name: "terminate-twice", Matrix: []int{71}, Domain: replicas,
			How: "SIGTERM twice to a replica with unanswered starts", Lift: "it is restarted",
			Figure: "from the second signal to its end", Limit: 1, Shortest: s / 2, Longest: s, Inject: terminateTwice},
		{Name: "rolling-restart", Matrix: []int{72}, Domain: replicas,
			How: "each replica in turn: SIGTERM, then a new one", Lift: "nothing to lift",
			Figure: "the longest time without a start", Limit: onePoll, Inject: rolling},
		{Name: "crash-loop", Matrix: []int{11}, Domain: replicas,
			How: "kill -9 of a random replica every 2 s, each restarted at once", Lift: "the kills stop",
			Figure: "from the last kill to the first start of a workflow", Limit: 5, Inject: crashLoop},
	}
}

// freeze stops the chosen replica with SIGSTOP. It should hold items.
func freeze(choose func(context.Context, *Scene) (*lab.Replica, error)) func(context.Context, *Scene) (Lift, error) {
	return func(ctx context.Context, s *Scene) (Lift, error) {
		r, err := choose(ctx, s)
		if err != nil {
			return nil, err
		}
		at := time.Now()
		if err := r.Process().Signal(syscall.SIGSTOP); err != nil {
			return nil, err
		}
		held, err := itemsOf(ctx, s, r.PID())
		s.Logf("replica %d holds %d items", r.N, len(held))
		return func(context.Context) (Measure, error) {
			err := r.Process().Signal(syscall.SIGCONT)
			r.Frontend.Set(proxy.Rule{})
			return reclaimed(s.Lab, held, at), err
		}, err
	}
}

func freezeAll(_ context.Context, s *Scene) (Lift, error) {
	signal := func(signal syscall.Signal) (err error) {
		for _, r := range s.Replicas {
			err = errors.Join(err, r.Process().Signal(signal))
		}
		return err
	}
	return func(context.Context) (Measure, error) {
		at := time.Now()
		return firstMove(s.Lab, "DISPATCHED", at), signal(syscall.SIGCONT)
	}, signal(syscall.SIGSTOP)
}

// terminate sends SIGTERM to the chosen replica.
func terminate(choose func(context.Context, *Scene) (*lab.Replica, error)) func(context.Context, *Scene) (Lift, error) {
	return func(ctx context.Context, s *Scene) (Lift, error) {
		r, err := choose(ctx, s)
		if err != nil {
			return nil, err
		}
		pid := r.PID()
		took, err := r.Stop()
		held, heldErr := itemsOf(ctx, s, pid)
		if err = errors.Join(err, heldErr); err == nil && len(held) > 0 {
			err = fmt.Errorf("replica %d ended and left %d items leased", r.N, len(held))
		}
		return restart(r, func(context.Context) (float64, error) { return took.Seconds(), nil }), err
	}
}

func terminateTwice(ctx context.Context, s *Scene) (Lift, error) {
	r, err := caught(ctx, s, proxy.Rule{Void: true})
	if err != nil {
		return nil, err
	}
	p := r.Process()
	err = errors.Join(p.Signal(syscall.SIGTERM), lab.Sleep(ctx, 1100*time.Millisecond)) // earlier, it is the same signal
	at := time.Now()
	err = errors.Join(err, p.Signal(syscall.SIGTERM))
	if !p.EndsWithin(lab.DrainTimeout) {
		err = errors.Join(err, fmt.Errorf("replica %d ignores the second signal", r.N), r.Kill())
	}
	took := time.Since(at)
	return restart(r, func(context.Context) (float64, error) { return took.Seconds(), nil }), err
}

func rolling(ctx context.Context, s *Scene) (Lift, error) {
	from := time.Now()
	var err error
	for _, r := range s.Replicas {
		_, stopErr := r.Stop()
		err = errors.Join(err, stopErr, r.Start(), r.Ready(ctx))
	}
	return once(gap(s.Lab, "DISPATCHED", from)), err
}

// crashLoop kills repeatedly for a while. The interval is the matrix's. The number of kills depends on the run's time.
func crashLoop(ctx context.Context, s *Scene) (Lift, error) {
	const interval, kills = 2 * time.Second, 5
	var err error
	at := time.Now()
	for range kills {
		r := pick(s)
		at = time.Now()
		err = errors.Join(err, r.Kill(), r.Start(), lab.Sleep(ctx, interval))
	}
	return once(firstMove(s.Lab, "DISPATCHED", at)), err
}
