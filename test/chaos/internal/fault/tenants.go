package fault

import (
	"context"
	"errors"
	"time"
)

const (
	// noisy is how many rows a tenant inserts at once. ahead is how many rows of a full tenant precede all others.
	noisy, ahead = 1500, 20000
	// spread is how many workspaces have one row each.
	spread = 1000
	// quiet is how many rows a quiet tenant inserts one after another.
	quiet = 6
)

// tenantFaults are loads of other tenants.
func tenantFaults() []*Fault {
	const longest = "the longest wait of another tenant's row until it is started"
	return []*Fault{
		{Name: "noisy-tenant", Matrix: []int{60}, Domain: limits,
			How:    "one workspace inserts 1,500 rows in one statement, and a quiet one a row now and then",
			Lift:   "nothing to lift",
			Figure: longest, Limit: onePoll, Alone: true, Inject: noisyTenant},
		{Name: "full-tenant", Matrix: []int{62}, Domain: limits,
			How:    "20,000 rows of a workspace with limit 0 have a higher priority than all others",
			Lift:   "they are withdrawn",
			Figure: longest, Limit: onePoll, Alone: true, Inject: fullTenant},
		{Name: "many-tenants", Matrix: []int{61}, Domain: limits,
			How: "1,000 new workspaces have a row each", Lift: "all are processed",
			Figure: "the longest time without a start", Limit: onePoll, Shortest: 4 * time.Second,
			Longest: 5 * time.Second, Alone: true, Inject: manyTenants},
		{Name: "cold-start", Matrix: []int{66}, Domain: replicas,
			How: "1,500 rows wait, and all replicas are started", Lift: "nothing to lift",
			Figure: "from the start of the replicas to the first start of a workflow", Limit: 5, Alone: true, Inject: coldStart},
	}
}

// longestWait inserts rows of a tenant of its own one after another, and returns the longest time from insert to
// start.
func longestWait(ctx context.Context, s *Scene) (worst float64, err error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	w, err := s.Load.AddWorkspace(ctx, "quiet", quiet)
	if err != nil {
		return 0, err
	}
	for range quiet {
		at := time.Now()
		execution, err := s.Load.Insert(ctx, conn, w)
		if err != nil {
			return 0, err
		}
		took, err := started(s.Lab, execution, at)(ctx)
		if err != nil {
			return 0, err
		}
		worst = max(worst, took)
	}
	return worst, nil
}

func noisyTenant(ctx context.Context, s *Scene) (Lift, error) {
	if err := s.Load.InsertMany(ctx, s.Load.Workspaces[6], noisy, 0); err != nil {
		return nil, err
	}
	worst, err := longestWait(ctx, s)
	return once(func(context.Context) (float64, error) { return worst, nil }), err
}

func fullTenant(ctx context.Context, s *Scene) (Lift, error) {
	w, err := s.Load.AddWorkspace(ctx, "full", 0)
	if err != nil {
		return nil, err
	}
	if err := s.Load.InsertWithdrawn(ctx, w, ahead); err != nil {
		return nil, err
	}
	worst, err := longestWait(ctx, s)
	return func(ctx context.Context) (Measure, error) {
		var err error
		// In batches: in a single transaction, each cancellation would step over all before it.
		for left := 1; left > 0 && err == nil; {
			err = s.Row(ctx, "cancel_some", []any{w.ID}, &left)
		}
		return func(context.Context) (float64, error) { return worst, nil }, err
	}, err
}

func manyTenants(ctx context.Context, s *Scene) (Lift, error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	if err := errors.Join(s.Load.InsertSpread(ctx, conn, spread), conn.Close(ctx)); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Measure, error) {
		value, err := gap(s.Lab, "DISPATCHED", at)(ctx)
		// Otherwise the applications would pause, and the next figure would measure their pause.
		err = errors.Join(err, s.Load.Drain(ctx, drainTime))
		s.Load.Pause(false)
		return func(context.Context) (float64, error) { return value, nil }, err
	}, nil
}

func coldStart(ctx context.Context, s *Scene) (Lift, error) {
	var err error
	for _, r := range s.Replicas {
		err = errors.Join(err, r.Kill())
	}
	for _, w := range s.Load.Workspaces[6:8] {
		err = errors.Join(err, s.Load.InsertMany(ctx, w, noisy/2, 0))
	}
	return func(ctx context.Context) (Measure, error) {
		at := time.Now()
		err := startAll(ctx, s)
		value, moveErr := firstMove(s.Lab, "DISPATCHED", at)(ctx)
		drainErr := s.Load.Drain(ctx, drainTime)
		s.Load.Pause(false)
		return func(context.Context) (float64, error) { return value, nil }, errors.Join(err, moveErr, drainErr)
	}, err
}
