package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// odd is how many odd rows are generated.
const odd = 2000

// refusedFaults are rows that are refused, and a Temporal that has forgotten its runs.
func refusedFaults() []*Fault {
	s := time.Second
	return []*Fault{
		{Name: "odd-rows", Matrix: []int{67}, Domain: limits,
			How:    "2,000 generated rows: columns and values that are valid, invalid, absurd, or not the client's to write",
			Lift:   "nothing to lift",
			Figure: "the longest wait of another tenant's row until it is started", Limit: onePoll,
			Alone: true, Inject: oddRows},
		{Name: "start-refused", Matrix: []int{68}, Domain: server,
			How: "Temporal rejects an item's start with InvalidArgument", Lift: "Temporal accepts others",
			Figure: "attempts until it has failed with this reason", Limit: 1, Unit: "attempts",
			Alone: true, Inject: startRefused},
		{Name: "refusing-trigger", Matrix: []int{67}, Domain: sessions,
			How:    "an application's trigger rejects every update of one item, the first of its workspace",
			Lift:   "the trigger is dropped, and the item retried",
			Figure: "the longest time without a start", Limit: onePoll, Shortest: 4 * s, Longest: 5 * s,
			Alone: true, Inject: refusingTrigger},
		{Name: "empty-store", Matrix: []int{50}, Domain: server,
			How:    "Temporal is restarted without its database, with one workflow running and all others ended",
			Lift:   "its database is restored",
			Figure: "ended items that were started again", Limit: 0, Unit: "workflows", Shortest: 3 * s, Longest: 4 * s,
			Alone: true, Inject: emptyStore},
	}
}

func refusingTrigger(ctx context.Context, s *Scene) (Lift, error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	lift := func(ctx context.Context) error {
		_, err := conn.Exec(ctx, lab.Query("refuse_end"))
		return errors.Join(err, conn.Close(ctx))
	}
	if _, err := conn.Exec(ctx, lab.Query("refuse_begin")); err != nil {
		return nil, errors.Join(fmt.Errorf("create the trigger: %w", err), conn.Close(ctx))
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, errors.Join(err, lift(ctx))
	}
	execution, err := s.Load.Insert(ctx, conn, s.Load.Roomy)
	if err == nil {
		_, err = tx.Exec(ctx, lab.Query("refuse_item"), execution)
	}
	if err = errors.Join(err, tx.Commit(ctx)); err != nil {
		return nil, errors.Join(err, lift(ctx))
	}
	at := time.Now()
	err = lab.Await(ctx, tolerance, "the item is parked", func() (bool, error) {
		var parked *string
		err := s.Row(ctx, "refused_error", []any{execution}, &parked)
		return parked != nil && strings.Contains(*parked, execution), err
	})
	return func(ctx context.Context) (Measure, error) {
		m := gap(s.Lab, "DISPATCHED", at)
		seconds, err := m(ctx)
		err = errors.Join(err, lift(ctx))
		return func(context.Context) (float64, error) { return seconds, nil }, err
	}, err
}

// grammar lists the values that a column may be given.
var grammar = map[string][]string{
	"params": {`'{}'`, `'{"a": 1}'`, `'[]'`, `'1'`, `'null'`, `null`, `'{"a": "\u0000"}'`, `'{"a": "\ud800"}'`,
		`'{"a": 1e400}'`, `'{"a": NaN}'`, `'{"a": '`,
		`'{"a": 1, "a": 2}'`, `(repeat('{"a":', 2000) || '1' || repeat('}', 2000))::jsonb`,
		`(repeat('{"a":', 20000) || '1' || repeat('}', 20000))::jsonb`,
		`jsonb_build_object('a', repeat('x', 1966080))`, `jsonb_build_object(E'\u202e\x1b[2J', E'\n')`},
	"priority": {"0", "100", "-100", "101", "-2147483648", "9999999999", "'NaN'", "null", "1.5"},
	"run_at": {"now()", "now() + interval '300 ms'", "'infinity'", "'-infinity'", "'294276-12-31'",
		"'4713-01-01 BC'", "'2199-01-01'", "'2001-01-01'", "null", "'today'"},
	"idempotency_key": {"gen_random_uuid()::text", "'same'", "''", "null", "repeat('x', 6000)", `E'\u202e\n'`},
	"traceparent": {"'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'", "'x'", "null", `E'00-\n'`,
		"repeat('0', 100000)"},
	"status":           {"'PENDING'", "'CLAIMED'", "'COMPLETED'", "'x'", "null"},
	"claimed_by":       {"'me'", "null"},
	"lease_expires_at": {"now()", "'infinity'"},
	"lease_token":      {"0", "-1", "9223372036854775807"},
	"attempt_count":    {"0", "1", "-1"},
	"created_at":       {"now()", "'infinity'", "now() - interval '1 year'"},
	"outcome_unknown":  {"false", "true"},
	"id":               {"default", "-1", "1"},
}

func oddRows(ctx context.Context, s *Scene) (Lift, error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	var names []string
	for name := range grammar {
		names = append(names, name)
	}
	slices.Sort(names)
	w, err := s.Load.AddWorkspace(ctx, "odd", quiet)
	if err != nil {
		return nil, err
	}
	taken, worst := 0, 0.0
	var worstErr error
	var others sync.WaitGroup
	others.Go(func() { worst, worstErr = longestWait(ctx, s) })
	defer others.Wait()
	for range odd {
		var columns, values strings.Builder
		for _, n := range s.Rand.Perm(len(names))[:s.Rand.IntN(3)] {
			choices := grammar[names[n]]
			columns.WriteString(", " + names[n])
			values.WriteString(", " + choices[s.Rand.IntN(len(choices))])
		}
		ok, err := s.Load.InsertOdd(ctx, conn, w, columns.String(), values.String())
		if err != nil {
			return nil, err
		}
		if ok {
			taken++
		}
	}
	s.Logf("%d rows of %d were accepted, the others rejected", taken, odd)
	return once(func(context.Context) (float64, error) { return worst, worstErr }), nil
}

func startRefused(ctx context.Context, s *Scene) (Lift, error) {
	const reason = "not with this task queue"
	lift := func(context.Context) (Measure, error) {
		setRule(s, proxy.Rule{})
		s.Load.Pause(false)
		return nil, nil
	}
	if err := s.Load.Drain(ctx, drainTime); err != nil {
		return lift, err
	}
	setRule(s, proxy.Rule{Method: proxy.Start, Refuse: status.Error(codes.InvalidArgument, reason)})
	conn, err := s.Session(ctx)
	if err != nil {
		return lift, err
	}
	defer func() { _ = conn.Close(ctx) }()
	execution, at := uuid.NewString(), time.Now()
	if err := s.Load.InsertDoomed(ctx, conn, s.Load.Roomy, execution, false); err != nil {
		return lift, err
	}
	if _, err := failed(s, execution, at)(ctx); err != nil {
		return lift, err
	}
	var attempts int
	var text string
	err = s.Row(ctx, "attempts", []any{execution}, &attempts, &text)
	if !strings.Contains(text, reason) {
		err = errors.Join(err, fmt.Errorf("it failed for %q", text))
	}
	return func(ctx context.Context) (Measure, error) {
		_, err := lift(ctx)
		return func(context.Context) (float64, error) { return float64(attempts), nil }, err
	}, err
}

func emptyStore(ctx context.Context, s *Scene) (Lift, error) {
	if err := s.Load.Drain(ctx, drainTime); err != nil {
		return nil, err
	}
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	at := time.Now()
	forgotten, err := s.Load.InsertForgotten(ctx, conn, s.Load.Roomy)
	if err != nil {
		return nil, err
	}
	if _, err := started(s.Lab, forgotten, at)(ctx); err != nil {
		return nil, err
	}
	if err := s.TemporalDown(); err != nil {
		return nil, err
	}
	s.TemporalEmpty(true)
	err = s.TemporalUp()
	return func(ctx context.Context) (Measure, error) {
		defer s.Load.Pause(false)
		var failedAt *time.Time
		err := lab.Await(ctx, 2*tolerance, "the item of the forgotten workflow fails", func() (bool, error) {
			err := s.Row(ctx, "failed", []any{forgotten}, &failedAt)
			return failedAt != nil, err
		})
		runs, runsErr := s.Lister().Runs(ctx, "")
		for _, run := range runs {
			s.Logf("%s was started in the empty store at %s", run.ID, run.Start.Format(time.TimeOnly))
		}
		err = errors.Join(err, runsErr, s.TemporalDown())
		s.TemporalEmpty(false)
		err = errors.Join(err, s.TemporalUp(), s.EndForgotten(ctx, forgotten))
		return func(context.Context) (float64, error) { return float64(len(runs)), nil }, err
	}, err
}
