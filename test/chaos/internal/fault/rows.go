package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// rowFaults are rows that can only fail, and a machine without CPU time.
func rowFaults() []*Fault {
	s := time.Second
	return []*Fault{
		{Name: "stranger-workflow", Matrix: []int{47}, Domain: server,
			How:    "an unrelated workflow was started under an item's ID before the item was committed",
			Lift:   "nothing to lift",
			Figure: "until the item has failed with this reason", Limit: onePoll, Alone: true, Inject: strangerWorkflow},
		{Name: "poison", Matrix: []int{14}, Domain: replicas,
			How: "kill -9 of every replica that holds a certain item", Lift: "all are restarted",
			Figure: "holders lost until it failed", Limit: 3, Unit: "kills", Alone: true, Inject: poison},
		{Name: "deadlocks", Matrix: []int{27}, Domain: sessions,
			How: "two applications update the same open items in opposite orders", Lift: "they stop",
			Figure: "the longest time without a start", Limit: onePoll, Shortest: 3 * s,
			Longest: 4 * s, Inject: deadlocks},
		{Name: "no-cpu", Matrix: []int{20}, Domain: sessions,
			How: "16 busy loops on each CPU", Lift: "they stop",
			Figure: "expired leases", Limit: 0, Unit: "leases", Shortest: 4 * s, Longest: 5 * s,
			Alone: true, Inject: noCPU},
	}
}

func strangerWorkflow(ctx context.Context, s *Scene) (Lift, error) {
	execution := uuid.NewString()
	_, err := s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "execution-" + execution,
		TaskQueue: temporal.TaskQueue}, temporal.Work, temporal.Input{})
	if err != nil {
		return nil, fmt.Errorf("start the unrelated workflow: %w", err)
	}
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	at := time.Now()
	err = s.Load.InsertDoomed(ctx, conn, s.Load.Roomy, execution, true)
	return once(failed(s, execution, at)), err
}

// failed measures the time from a moment until an execution has failed.
func failed(s *Scene, execution string, from time.Time) Measure {
	return func(ctx context.Context) (float64, error) {
		var at *time.Time
		err := lab.Await(ctx, tolerance, "the item fails", func() (bool, error) {
			err := s.Row(ctx, "failed", []any{execution}, &at)
			return at != nil, err
		})
		if err != nil {
			return 0, err
		}
		return at.Sub(from).Seconds(), nil
	}
}

// poison kills every replica that holds one item. It is the only item in the system, so that no other is affected.
func poison(ctx context.Context, s *Scene) (Lift, error) {
	lift := func(ctx context.Context) (Measure, error) {
		setRule(s, proxy.Rule{})
		s.Load.Pause(false)
		return nil, startAll(ctx, s)
	}
	if err := s.Load.Drain(ctx, drainTime); err != nil {
		return lift, err
	}
	conn, err := s.Session(ctx)
	if err != nil {
		return lift, err
	}
	defer func() { _ = conn.Close(ctx) }()
	setRule(s, proxy.Rule{Method: proxy.Start, Swallow: true})
	execution := uuid.NewString()
	if err := s.Load.InsertDoomed(ctx, conn, s.Load.Roomy, execution, false); err != nil {
		return lift, err
	}
	kills, err := killHolders(ctx, s, execution)
	return func(ctx context.Context) (Measure, error) {
		_, err := lift(ctx)
		return func(context.Context) (float64, error) { return float64(kills), nil }, err
	}, err
}

// killHolders kills each replica that holds an item, until the item has failed.
func killHolders(ctx context.Context, s *Scene, execution string) (kills int, err error) {
	const most = 6
	for kills < most {
		var pid, status string
		err := lab.Await(ctx, tolerance, "the item is claimed, or has failed", func() (bool, error) {
			err := s.Row(ctx, "holder", []any{execution}, &pid, &status)
			return pid != "" || status == "FAILED", err
		})
		if err != nil || status == "FAILED" {
			return kills, err
		}
		for _, r := range s.Replicas {
			if r.PID() != pid {
				continue
			}
			if err := errors.Join(r.Kill(), r.Start(), r.Ready(ctx)); err != nil {
				return kills, err
			}
			kills++
		}
	}
	return kills, fmt.Errorf("the item has crashed %d replicas and is still open", kills)
}

func deadlocks(ctx context.Context, s *Scene) (Lift, error) {
	at := time.Now()
	var stops []func()
	for _, query := range []string{"touch_forwards", "touch_backwards"} {
		stops = append(stops, background(ctx, func(ctx context.Context) {
			for ctx.Err() == nil {
				_ = s.Exec(ctx, query) // the database may abort one of the two
				_ = lab.Sleep(ctx, 5*time.Millisecond)
			}
		}))
	}
	return func(context.Context) (Measure, error) {
		for _, stop := range stops {
			stop()
		}
		return gap(s.Lab, "DISPATCHED", at), nil
	}, nil
}

func noCPU(ctx context.Context, s *Scene) (Lift, error) {
	const each = 16
	at := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	var spinners []*exec.Cmd
	for range each * runtime.NumCPU() {
		spinner := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		spinner.Stderr = os.Stderr
		if err := spinner.Start(); err != nil {
			cancel()
			return nil, fmt.Errorf("start a busy loop: %w", err)
		}
		spinners = append(spinners, spinner)
	}
	return func(ctx context.Context) (Measure, error) {
		cancel()
		for _, spinner := range spinners {
			_ = spinner.Wait()
		}
		return func(ctx context.Context) (float64, error) {
			var expired int
			err := s.Row(ctx, "expired_since", []any{at}, &expired)
			return float64(expired), err
		}, nil
	}, nil
}
