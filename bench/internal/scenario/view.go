package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/bench/internal/queries"
	"github.com/pgdispatch/pgdispatch/bench/internal/stat"
	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// lookInterval is how often the measured claims' spectator looks, as a terminal or a browser does.
	lookInterval = time.Second
	// fillBatch is how many finished items are made at once.
	fillBatch = 250_000
)

// fillMuch makes many workspaces, items that have ended, and items that wait in workspaces without room.
func fillMuch(ctx context.Context, t *Turn, b *backlog) error {
	if _, err := AddTeams(ctx, b.pool, "full", Quickly(t, 100_000, 300), 0); err != nil {
		return err
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, queries.Get("triggers_off")); err != nil {
		return fmt.Errorf("switch triggers off: %w", err)
	}
	for all, n := Quickly(t, 5_000_000, 5000), 1; n <= all; n += fillBatch {
		if _, err := conn.Exec(ctx, queries.Get("view_finished"), min(fillBatch, all), n, all); err != nil {
			return fmt.Errorf("make items that have ended: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, queries.Get("triggers_on")); err != nil {
		return fmt.Errorf("switch triggers on: %w", err)
	}
	if _, err := b.pool.Exec(ctx, queries.Get("enqueue_everywhere"), "full", 10, lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	for range 150 { // until every lane knows
		if _, _, err := b.claim(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// View is what those who look on cost.
func View() *Scenario {
	open := map[string]*backlog{}
	entrant := func(name string, colour int, fill func(context.Context, *Turn, *backlog) error) Entrant {
		return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
			b := open[name]
			if b == nil {
				var err error
				if b, err = openBacklog(ctx, t, fill); err != nil {
					if b != nil {
						_ = b.db.Drop() // the error that counts is there
					}
					return err
				}
				open[name] = b
			}
			return b.look(ctx, t)
		}}
	}
	const none, much = "an empty database", "5,000,000 ended, 1,000,000 waiting"
	return &Scenario{
		Name: "view", Title: "What looking on costs",
		Text: "The read model behind `status`, `status --watch` and the web view, beside 100,000 workspaces, 5,000,000 items that have ended (one in a hundred failed) and 1,000,000 that wait: each " +
			"read 20 times, one connection. Then claims of ten as in `claims`, alone and while somebody reads the overview every second.",
		Entrants: []Entrant{entrant(none, grey, nil), entrant(much, blue, fillMuch)},
		Columns: []Column{{"overview", "overview ms"}, {"overview99", "slowest ms"}, {"workspaces", "workspaces ms"}, {"items", "items ms"}, {"dead", "dead letters ms"},
			{"alone", "claim p50 alone ms"}, {"watched", "watched ms"}, {"slower", "watched / alone"}},
		Bars: []Bar{
			{Text: "The overview on 5,000,000 ended and 1,000,000 waiting items, the slowest of 20, ms", Value: Key{much, "overview99"}, Level: 100},
			{Text: "Claim p50 while somebody watches / alone", Value: Key{much, "slower"}, Level: 1.05},
		},
		Limit: 15 * time.Minute,
		Close: func() error {
			for _, b := range open {
				if err := b.db.Drop(); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// look times each read, the slowest variant of each list, and then the claims.
func (b *backlog) look(ctx context.Context, t *Turn) error {
	hour := time.Hour
	reads := map[string][]func() error{
		"overview": {func() error { _, err := b.store.Overview(ctx); return err }},
		"dead":     {func() error { _, err := b.store.DeadGroups(ctx, 50); return err }},
	}
	for _, by := range []claim.WorkspaceOrder{claim.ByName, claim.ByRunning, claim.ByOldest, claim.ByFailures} {
		reads["workspaces"] = append(reads["workspaces"], func() error { _, err := b.store.ListWorkspaces(ctx, "", by, nil, 50); return err })
	}
	for _, status := range []string{"", "PENDING", "DISPATCHED", "COMPLETED", "FAILED"} {
		reads["items"] = append(reads["items"], func() error {
			_, err := b.store.ListItems(ctx, claim.ItemFilter{Error: "nothing like it", Since: claim.Moment{Ago: &hour}}, status, nil, nil, 50)
			return err
		})
	}
	for name, variants := range reads {
		for _, read := range variants {
			samples, err := timed(Quickly(t, 20, 3), read)
			if err != nil {
				return err
			}
			t.Figures[name] = max(t.Figures[name], stat.Percentile(samples, .5))
			if name == "overview" {
				t.Figures["overview99"] = stat.Percentile(samples, 1)
			}
		}
	}
	return b.watched(ctx, t)
}

func timed(times int, read func() error) ([]float64, error) {
	var took []time.Duration
	for range times {
		began := time.Now()
		if err := read(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return stat.Milliseconds(took), nil
}

// watched has claims take turns, alone and watched, so that what changes meanwhile changes both.
func (b *backlog) watched(ctx context.Context, t *Turn) error {
	var took [2][]time.Duration
	for turn := range Quickly(t, 10, 2) {
		watching, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- b.spectate(watching, turn%2 == 1) }()
		var err error
		for began := time.Now(); err == nil && time.Since(began) < Quickly(t, 3*time.Second, 100*time.Millisecond); {
			var d time.Duration
			if d, err = b.cycle(ctx); err == nil {
				took[turn%2] = append(took[turn%2], d)
			}
		}
		stop()
		if err := errors.Join(err, <-done); err != nil {
			return err
		}
	}
	t.Figures["alone"], t.Figures["watched"] = stat.Percentile(stat.Milliseconds(took[0]), .5), stat.Percentile(stat.Milliseconds(took[1]), .5)
	t.Figures["slower"] = t.Figures["watched"] / t.Figures["alone"]
	return nil
}

// spectate reads the overview every second until ctx ends, if it is to.
func (b *backlog) spectate(ctx context.Context, looks bool) error {
	for looks && ctx.Err() == nil {
		if _, err := b.store.Overview(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if sleepUntil(ctx, time.Now().Add(lookInterval)) != nil {
			break
		}
	}
	return nil
}
