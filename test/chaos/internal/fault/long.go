package fault

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

const (
	// backlog is how many items wait during a long outage.
	backlog = 10000
	// leasesAway is how many leases the outage lasts. 30 minutes with a lease of 30 s would be 60 leases.
	leasesAway = 30
	// standstill bounds the time to process the next stride items of the backlog.
	standstill, stride = 30 * time.Second, 100
	// undisturbed is how long throughput is measured before the crash loop. crashing is how long the loop lasts.
	undisturbed = 30 * time.Second
	crashing    = 180 * time.Second
	// crashInterval is the time between two kills.
	crashInterval = 2 * time.Second
	// fed is the minimum number of waiting items while throughput is measured.
	fed = 300
)

// longFaults take minutes. They are for runs that have the time.
func longFaults() []*Fault {
	return []*Fault{
		{Name: "long-outage", Matrix: []int{42}, Domain: server, Long: true, Alone: true,
			How: fmt.Sprintf("Temporal is down for %d leases while %d items wait; no failure may be counted",
				leasesAway, backlog), Lift: "Temporal is restarted, and the backlog drains",
			Figure: "from Temporal's return to the first start of a workflow", Limit: temporalBack,
			Shortest: leasesAway * lab.Lease, Longest: leasesAway * lab.Lease, Inject: longOutage},
		{Name: "long-crash-loop", Matrix: []int{11}, Domain: replicas, Long: true, Alone: true,
			How: fmt.Sprintf("kill -9 of a random replica every %s, for %s, with items always waiting",
				crashInterval, crashing),
			Lift:   "the kills stop",
			Figure: "undisturbed throughput, as a multiple of the throughput in the loop", Limit: 2, Unit: "times",
			Shortest: crashing, Longest: crashing, Inject: longCrashLoop},
	}
}

func longOutage(ctx context.Context, s *Scene) (Lift, error) {
	s.Load.Pause(true)
	from := time.Now()
	if err := s.TemporalDown(); err != nil {
		return nil, err
	}
	for _, w := range s.Load.Workspaces {
		if w.Limit >= 20 {
			if err := s.Load.InsertMany(ctx, w, backlog/2, 0); err != nil {
				return nil, err
			}
		}
	}
	return func(ctx context.Context) (Measure, error) {
		defer s.Load.Pause(false)
		var failures, failed, attempts int
		if err := s.Row(ctx, "burnt", []any{from}, &failures, &failed, &attempts); err != nil {
			return nil, err
		}
		s.Logf("after the outage: %d failures counted, %d items failed, %d attempts beyond the first",
			failures, failed, attempts)
		if failures+failed+attempts > 0 {
			return nil, errors.Join(errors.New("failures were counted during the outage"), s.TemporalUp())
		}
		if err := s.TemporalUp(); err != nil {
			return nil, err
		}
		at := time.Now()
		value, err := firstMove(s.Lab, "DISPATCHED", at)(ctx)
		if err != nil {
			return nil, err
		}
		s.Logf("the first workflow was started %.2f s after Temporal's return", value)
		// However low the server's start rate is on this machine, it must not come to a standstill.
		for open := backlog; open > 0; {
			most := max(open-stride, 0)
			err := lab.Await(ctx, standstill,
				fmt.Sprintf("at most %d items of the backlog are left", most), func() (bool, error) {
					var oldest []string
					err := s.Row(ctx, "open_items", nil, &open, &oldest)
					return open <= most, err
				})
			if err != nil {
				return nil, err
			}
		}
		s.Logf("%d items were processed in %.1f s", backlog, time.Since(at).Seconds())
		return func(context.Context) (float64, error) { return value, nil }, nil
	}, nil
}

// longCrashLoop keeps the largest workspaces filled, and measures the rate of completed items without and with the
// kills.
func longCrashLoop(ctx context.Context, s *Scene) (Lift, error) {
	s.Load.Pause(true)
	stopFeeding := background(ctx, func(ctx context.Context) { feed(ctx, s) })
	completed := func(from, to time.Time) (float64, error) {
		var n int
		err := s.Row(ctx, "ended_between", []any{from, to}, &n)
		return float64(n) / to.Sub(from).Seconds(), err
	}
	const warmUp = 3 * time.Second
	err := lab.Sleep(ctx, warmUp)
	before := time.Now()
	err = errors.Join(err, lab.Sleep(ctx, undisturbed))
	began := time.Now()
	var kills atomic.Int64
	stopKilling := background(ctx, func(ctx context.Context) {
		for ctx.Err() == nil {
			r := pick(s)
			if r.Kill() == nil && r.Start() == nil {
				kills.Add(1)
			}
			_ = lab.Sleep(ctx, crashInterval)
		}
	})
	return func(ctx context.Context) (Measure, error) {
		stopKilling()
		ended := time.Now()
		stopFeeding()
		s.Load.Pause(false)
		calm, err := completed(before, began)
		rough, roughErr := completed(began, ended)
		s.Logf("%.1f items/s undisturbed, %.1f items/s with %d kills in %.0f s", calm, rough, kills.Load(),
			ended.Sub(began).Seconds())
		if err = errors.Join(err, roughErr); err == nil && rough == 0 {
			err = errors.New("no item ended in the loop")
		}
		return func(context.Context) (float64, error) { return calm / rough, nil }, err
	}, err
}

// feed keeps enough items waiting.
func feed(ctx context.Context, s *Scene) {
	const interval = 250 * time.Millisecond
	for ctx.Err() == nil {
		var open int
		var oldest []string
		if err := s.Row(ctx, "open_items", nil, &open, &oldest); err == nil && open < fed {
			for _, w := range s.Load.Workspaces {
				if w.Limit >= 5 {
					_ = s.Load.InsertMany(ctx, w, fed/4, 0)
				}
			}
		}
		_ = lab.Sleep(ctx, interval)
	}
}
