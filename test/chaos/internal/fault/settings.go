package fault

import (
	"context"
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

// settingFaults are installations that differ from what the documentation asks for.
func settingFaults() []*Fault {
	s := time.Second
	const longest = "the longest time without a start"
	return []*Fault{
		{Name: "short-timeouts", Matrix: []int{35}, Domain: sessions,
			How: "the replicas' role has timeouts of 50 ms for statements, locks and idle sessions, and their sessions are " +
				"ended", Lift: "the timeouts are removed, and the sessions terminated",
			Figure: longest, Limit: oneReplicaOut, Shortest: 4 * s, Longest: 5 * s, Alone: true, Inject: shortTimeouts},
		{Name: "pooler", Matrix: []int{37}, Domain: replicas,
			How:    "every replica is restarted behind PgBouncer in transaction mode, with LISTEN off",
			Lift:   "they are restarted without it",
			Figure: longest, Limit: onePoll, Shortest: 4 * s, Longest: 5 * s, Alone: true, Inject: pooler},
		{Name: "newer-schema", Matrix: []int{41}, Domain: replicas,
			How:    "the schema is one version ahead of the replicas, and each in turn is restarted",
			Lift:   "the schema has their version again",
			Figure: longest, Limit: onePoll, Alone: true, Inject: newerSchema},
	}
}

func shortTimeouts(ctx context.Context, s *Scene) (Lift, error) {
	var ended int
	if err := errors.Join(s.Script(ctx, "timeouts_short"),
		s.Row(ctx, "terminate", []any{"pgdispatch%"}, &ended)); err != nil {
		return nil, errors.Join(err, s.Script(ctx, "timeouts_none"))
	}
	at := time.Now()
	return func(ctx context.Context) (Measure, error) {
		value, err := gap(s.Lab, "DISPATCHED", at)(ctx) // while the settings are in effect
		err = errors.Join(err, s.Script(ctx, "timeouts_none"), s.Row(ctx, "terminate", []any{"pgdispatch%"}, &ended))
		return func(context.Context) (float64, error) { return value, nil }, err
	}, nil
}

// replace stops each replica in turn, changes it, and starts it again.
func replace(ctx context.Context, s *Scene, change func(*lab.Replica)) error {
	for _, r := range s.Replicas {
		if _, err := r.Stop(); err != nil {
			return err
		}
		change(r)
		if err := errors.Join(r.Start(), r.Ready(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func pooler(ctx context.Context, s *Scene) (Lift, error) {
	address, stop, err := s.Pooler(ctx)
	if err != nil {
		return nil, err
	}
	err = replace(ctx, s, func(r *lab.Replica) {
		r.Postgres.SetTarget(address)
		r.Env = []string{"PGDISPATCH_LISTEN=off"}
	})
	at := time.Now()
	return func(ctx context.Context) (Measure, error) {
		value, err := gap(s.Lab, "DISPATCHED", at)(ctx)
		err = errors.Join(err, replace(ctx, s, func(r *lab.Replica) {
			r.Postgres.SetTarget(s.Primary().Address())
			r.Env = nil
		}), stop())
		return func(context.Context) (float64, error) { return value, nil }, err
	}, err
}

func newerSchema(ctx context.Context, s *Scene) (Lift, error) {
	if err := s.Insist(ctx, "schema_version", 1); err != nil {
		return nil, err
	}
	at := time.Now()
	err := replace(ctx, s, func(*lab.Replica) {})
	return func(ctx context.Context) (Measure, error) {
		return gap(s.Lab, "DISPATCHED", at), s.Exec(ctx, "schema_version", -1)
	}, err
}
