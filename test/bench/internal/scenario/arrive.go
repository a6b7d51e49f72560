package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// arriveRate is the quiet workspace's items per second.
const arriveRate = 50.0

// arrival prepares a flood, and returns the function that enqueues it in one transaction. Nothing of it may start.
type arrival func(ctx context.Context, t *Turn, s *stage) (func(context.Context) error, error)

func arriveEntrant(name string, colour int, comes arrival) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.run(ctx, replicas(1, lab.Replica{}, Alone("enqueue")), frontend.Options{CloseAfter: tenantRun},
			warmUps(t))
		if err != nil {
			return err
		}
		return s.close(arrive(ctx, t, s, comes))
	}}
}

func arrive(ctx context.Context, t *Turn, s *stage, comes arrival) error {
	quiet, err := AddTeams(ctx, s.db.Pool, "quiet", 1, 20)
	if err != nil {
		return err
	}
	flood, err := comes(ctx, t, s)
	if err != nil {
		return err
	}
	load := &Load{Pool: s.db.Pool, Teams: quiet, Writers: 1, Insert: s.insert}
	if _, err := load.Paced(ctx, arriveRate, Quickly(t, 2*time.Second, 300*time.Millisecond)); err != nil {
		return errors.Join(err, s.alive())
	}
	during, err := load.beside(ctx, flood)
	if err != nil {
		return errors.Join(err, s.alive())
	}
	after, err := load.Paced(ctx, arriveRate, Quickly(t, 75*time.Second, 2*time.Second)) // a compare comes each minute
	if err != nil {
		return errors.Join(err, s.alive())
	}
	sent := slices.Concat(during, after)
	_, took, err := Latencies(ctx, s.server, sent)
	if err != nil {
		return errors.Join(err, s.alive())
	}
	samples := stat.Milliseconds(took)
	t.Figures["p50"], t.Figures["p99"], t.Figures["max"] = stat.Percentile(samples, 0.5), stat.Percentile(samples, 0.99),
		slices.Max(samples)
	t.Figures["during"] = slices.Max(samples[:len(during)])
	for _, item := range sent {
		t.Figures["insert"] = max(t.Figures["insert"], float64(item.Done.Sub(item.Began))/float64(time.Millisecond))
	}
	return nil
}

// beside inserts at arriveRate until the flood has committed.
func (l *Load) beside(ctx context.Context, flood func(context.Context) error) (sent []Sent, err error) {
	g, ctx := errgroup.WithContext(ctx)
	committed := make(chan struct{})
	g.Go(func() error {
		defer close(committed)
		if err := flood(ctx); err != nil {
			return fmt.Errorf("enqueue the flood: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		for {
			more, err := l.Paced(ctx, arriveRate, time.Second)
			sent = append(sent, more...)
			if err != nil {
				return err
			}
			select {
			case <-committed:
				return nil
			default:
			}
		}
	})
	err = g.Wait()
	return sent, err
}

// Arrive measures what a great transaction of other tenants delays.
func Arrive() *Scenario {
	const alone, keys, workspaces, priorities = "alone", "1,000,000 items of 100,000 full keys",
		"1,000,000 items of 20,000 full workspaces", "300,000 items of a full workspace, at 201 priorities"
	bar := func(of string) Bar {
		return Bar{Text: "Slowest start beside " + of + ", ms", Value: Key{of, "max"}, Level: 100}
	}
	return &Scenario{
		Name: "arrive", Title: "A great transaction of another tenant",
		Text: "A quiet workspace enqueues 50 items per second while other tenants enqueue in one transaction what may " +
			"not start, and for 75 s after its commit. Measured from the quiet workspace's commit to its start, with one " +
			"replica with its defaults. Its own slowest INSERT shows what the disk does meanwhile.",
		Entrants: []Entrant{
			arriveEntrant(alone, grey, func(context.Context, *Turn, *stage) (func(context.Context) error, error) {
				return func(context.Context) error { return nil }, nil
			}),
			arriveEntrant(keys, blue, func(ctx context.Context, t *Turn, s *stage) (func(context.Context) error, error) {
				keyed, err := AddTeams(ctx, s.db.Pool, "keyed", 1, 100_000)
				return func(ctx context.Context) error {
					_, err := s.db.Pool.Exec(ctx, lab.Query("flood_keys"), keyed[0].Workspace, keyed[0].Definition,
						Quickly(t, 100_000, 2000), 10, lab.Params)
					return err
				}, err
			}),
			arriveEntrant(workspaces, green, func(ctx context.Context, t *Turn, s *stage) (func(context.Context) error, error) {
				_, err := AddTeams(ctx, s.db.Pool, "flood", Quickly(t, 20_000, 2000), 0)
				return func(ctx context.Context) error {
					_, err := s.db.Pool.Exec(ctx, lab.Query("flood_workspaces"), "flood", Quickly(t, 50, 5), lab.Params)
					return err
				}, err
			}),
			arriveEntrant(priorities, orange, func(ctx context.Context, t *Turn, s *stage) (func(context.Context) error, error) {
				full, err := AddTeams(ctx, s.db.Pool, "full", 1, 0)
				return func(ctx context.Context) error {
					_, err := s.db.Pool.Exec(ctx, lab.Query("flood_priorities"), full[0].Workspace, full[0].Definition,
						Quickly(t, 300_000, 20_000), lab.Params)
					return err
				}, err
			}),
		},
		Columns: []Column{{"p50", "quiet: p50 ms"}, {"p99", "p99 ms"}, {"during", "slowest before the flood's commit, ms"},
			{"max", "slowest ms"}, {"insert", "its own slowest INSERT, ms"}},
		Bars:  []Bar{bar(keys), bar(workspaces), bar(priorities)},
		Limit: 10 * time.Minute,
	}
}
