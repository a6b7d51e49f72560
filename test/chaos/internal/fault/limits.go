package fault

import (
	"context"
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

func limitFaults() []*Fault {
	s := time.Second
	return []*Fault{
		{Name: "cap-lowered", Matrix: []int{63}, Domain: limits,
			How: "W goes from 20 to 3 and 10 and 2, every half second", Lift: "W is 20 again",
			Figure: "from the raise to the first claim", Limit: onePoll, Shortest: 2 * s, Longest: 3 * s, Inject: capLowered},
		{Name: "limit-lowered", Matrix: []int{63}, Domain: limits,
			How: "a workspace's limit goes from 4 to 1 and 6 and 2 and 0, every half second", Lift: "the limit is 4 again",
			Figure: "from the raise to the first claim", Limit: onePoll, Shortest: 2 * s, Longest: 3 * s, Inject: limitLowered},
		{Name: "key-limits", Matrix: []int{63}, Domain: limits,
			How: "the limits of a key over all workspaces and in one, and a key's rate are lowered, raised, deleted and made " +
				"again, every half second", Lift: "they are as before",
			Figure: "from then to the first claim", Limit: onePoll, Shortest: 4 * s, Longest: 6 * s, Inject: keyLimits},
		{Name: "rate-changed", Matrix: []int{63}, Domain: limits,
			How: "a workspace's rate goes from 5 to 1 and 40 and none and 0.5, every half second", Lift: "the rate is 5 again",
			Figure: "from the raise to the first claim", Limit: onePoll, Shortest: 4 * s, Longest: 6 * s, Inject: rateChanged},
		{Name: "pause", Matrix: []int{63}, Domain: limits, How: "all workspaces are paused", Lift: "resumed",
			Figure: "from the resumption to the first claim", Limit: 1, Shortest: s, Longest: 3 * s, Inject: pause},
		{Name: "workspace-pause", Matrix: []int{63}, Domain: limits, How: "one workspace is paused", Lift: "resumed",
			Figure: "the longest time without a start in other workspaces", Limit: onePoll, Shortest: s,
			Longest: 3 * s, Inject: workspacePause},
	}
}

// cycle sets one value after another until it is lifted.
func cycle(ctx context.Context, s *Scene, query string, values []any, last any, before ...any) Lift {
	const interval = 500 * time.Millisecond
	stop := background(ctx, func(ctx context.Context) {
		for n := 0; ctx.Err() == nil; n++ {
			_ = s.Exec(ctx, query, append(append([]any{}, before...), values[n%len(values)])...)
			_ = lab.Sleep(ctx, interval)
		}
	})
	return func(ctx context.Context) (Measure, error) {
		stop()
		at := time.Now()
		err := s.Insist(ctx, query, append(append([]any{}, before...), last)...)
		return firstMove(s.Lab, "CLAIMED", at), err
	}
}

func capLowered(ctx context.Context, s *Scene) (Lift, error) {
	return cycle(ctx, s, "set_cap", []any{3, 10, 2}, lab.Cap), nil
}

func limitLowered(ctx context.Context, s *Scene) (Lift, error) {
	for _, w := range s.Load.Workspaces {
		if w.Elastic {
			return cycle(ctx, s, "set_limit", []any{1, 6, 2, 0}, w.Limit, w.ID), nil
		}
	}
	return nil, errors.New("there is no workspace whose limit may be changed")
}

func keyLimits(ctx context.Context, s *Scene) (Lift, error) {
	w := s.Load.Workspaces[s.Rand.IntN(len(s.Load.Workspaces))]
	lifts := []Lift{
		cycle(ctx, s, "set_key", []any{1, 9, nil, 0, 3}, lab.Shared, nil, "shared"),
		cycle(ctx, s, "set_key", []any{0, 4, nil, 1}, lab.Own, w.ID, "own"),
		cycle(ctx, s, "set_key", []any{2, nil, 20, 0, 4}, lab.Metered, nil, "metered"),
	}
	return func(ctx context.Context) (m Measure, err error) {
		for _, lift := range lifts {
			var liftErr error
			m, liftErr = lift(ctx)
			err = errors.Join(err, liftErr)
		}
		return m, err
	}, nil
}

func rateChanged(ctx context.Context, s *Scene) (Lift, error) {
	for _, w := range s.Load.Workspaces {
		if w.Rate > 0 {
			return cycle(ctx, s, "set_rate", []any{1, 40, nil, 0.5}, w.Rate, w.ID), nil
		}
	}
	return nil, errors.New("there is no workspace with a rate")
}

func pause(ctx context.Context, s *Scene) (Lift, error) {
	if err := s.Insist(ctx, "set_pause", true); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Measure, error) {
		at := time.Now()
		return firstMove(s.Lab, "CLAIMED", at), s.Insist(ctx, "set_pause", false)
	}, nil
}

func workspacePause(ctx context.Context, s *Scene) (Lift, error) {
	w := s.Load.Workspaces[s.Rand.IntN(len(s.Load.Workspaces))]
	at := time.Now()
	if err := s.Insist(ctx, "set_workspace_pause", w.ID, true); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Measure, error) {
		m := gap(s.Lab, "DISPATCHED", at)
		return m, s.Insist(ctx, "set_workspace_pause", w.ID, false)
	}, nil
}
