package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/bench/internal/entrant"
	"github.com/pgdispatch/pgdispatch/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/bench/internal/queries"
)

const (
	// drainWorkers is W, and how many workers or goroutines everybody has.
	drainWorkers = 100
	// slowStart is how long the slow frontend takes.
	slowStart = 10 * time.Millisecond
)

// drainEntrant fills the queue first, starts the processes then, and measures from the first start to the last.
func drainEntrant(name string, colour int, c contestant, options frontend.Options, fill func(context.Context, *stage, int) error) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		items := Quickly(t, 20000, 500)
		c := c
		if c.processes == nil {
			c.processes = child(lab.Child{Kind: lab.KindRaw, Workers: drainWorkers, Count: items})
		}
		s, err := t.setUp(ctx, c, options)
		if err != nil {
			return err
		}
		return s.close(s.drain(ctx, t, items, fill))
	}}
}

func (s *stage) drain(ctx context.Context, t *Turn, items int, fill func(context.Context, *stage, int) error) error {
	if fill != nil {
		if err := fill(ctx, s, items); err != nil {
			return err
		}
		if _, err := s.db.Pool.Exec(ctx, "vacuum (analyze)"); err != nil {
			return fmt.Errorf("vacuum: %w", err)
		}
	}
	if err := s.lab.Checkpoint(ctx); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	for s.server.Counts().Starts < items {
		err := sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
		if alive := s.alive(); alive != nil && s.server.Counts().Starts < items {
			err = errors.Join(err, alive)
		}
		if err != nil {
			return fmt.Errorf("%d of %d started: %w", s.server.Counts().Starts, items, err)
		}
	}
	var first, last time.Time
	for _, at := range s.server.Arrivals() {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	t.Figures["rate"] = float64(items-1) / last.Sub(first).Seconds()
	t.Figures["greatest"] = float64(s.server.Counts().Greatest)
	if s.server.Counts().Greatest > drainWorkers {
		return fmt.Errorf("%d starts at once, with W = %d", s.server.Counts().Greatest, drainWorkers)
	}
	if fill == nil { // the stub is done, and has ended
		s.processes = nil
		return s.requireStarts(items)
	}
	if err := s.awaitSettled(ctx); err != nil {
		return err
	}
	t.Figures["settled"] = float64(items) / time.Since(first).Seconds()
	return s.requireStarts(items)
}

func fillOurs(ctx context.Context, s *stage, items int) error {
	for n, team := range s.teams {
		share := items/len(s.teams) + min(1, max(0, items%len(s.teams)-n))
		if _, err := s.db.Pool.Exec(ctx, queries.Get("enqueue_many"), team.Workspace, team.Definition, share, lab.Params); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

func fillRivers(ctx context.Context, s *stage, items int) error {
	client, err := entrant.RiverClient(s.db.Pool, tunedCooldown, 0, nil)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
		for left := items; left > 0; left -= 1000 {
			batch := make([]river.InsertManyParams, min(left, 1000))
			for n := range batch {
				id := uuid.NewString()
				batch[n].Args = entrant.OrderArgs{Execution: id, Workspace: id, Definition: id, Params: []byte(lab.Params)}
			}
			if _, err := client.InsertManyTx(ctx, tx, batch); err != nil {
				return fmt.Errorf("enqueue: %w", err)
			}
		}
		return nil
	})
}

func drainers(options frontend.Options) []Entrant {
	ours := replicas(1, lab.Replica{Workers: drainWorkers}, Alone("enqueue"))
	two := replicas(2, lab.Replica{Workers: drainWorkers / 2}, Alone("enqueue"))
	ours.maxClaims, two.maxClaims = drainWorkers, drainWorkers
	ends := options
	ends.CloseAfter = 0
	limit := contestant{template: lab.Ours, insert: by(nil)}
	return []Entrant{
		drainEntrant("limit: starts, no queue", grey, limit, options, nil),
		drainEntrant("pgdispatch", blue, ours, options, fillOurs),
		drainEntrant("River tuned", yellow, rivers(tunedCooldown), options, fillRivers),
		drainEntrant("pgdispatch, two replicas", green, two, options, fillOurs).slow(),
		drainEntrant("pgdispatch, ends recorded too", green, ours, ends, fillOurs),
	}
}

var drainColumns = []Column{{"rate", "starts/s"}, {"settled", "settled/s"}, {"greatest", "at once"}}

// Drain is how fast a full queue is handed over.
func Drain() *Scenario {
	return &Scenario{
		Name: "drain", Title: "Draining 20,000 items, W = 100",
		Text: "20,000 items wait in 20 workspaces; the frontend answers at once. Starts are counted from the first to the last, settled items until the database " +
			"says that there is nothing left. The limit is 100 goroutines that start as many workflows from no queue at all. `ends recorded too` also " +
			"hears of each workflow's end and records it, which River does not do.",
		Entrants: drainers(frontend.Options{CloseAfter: frontend.Never}),
		Columns:  drainColumns,
		Limit:    4 * time.Minute,
		Charts:   []Chart{{"rate", "Draining 20,000 items, W = 100", "starts/s"}},
		Bars: []Bar{
			{Text: "Drain of 20,000 items, W = 100 / tuned River", Value: Key{"pgdispatch", "rate"}, Against: Key{"River tuned", "rate"}, AtLeast: true, Level: 1.7},
			{Text: "The same / the machine's limit", Value: Key{"pgdispatch", "rate"}, Against: Key{"limit: starts, no queue", "rate"}, AtLeast: true, Level: 0.55},
		},
	}
}

// SlowDrain is Drain with a frontend that takes its time.
func SlowDrain() *Scenario {
	return &Scenario{
		Name: "slowdrain", Title: "Draining with a frontend that takes 10 ms",
		Text:     "The same, but the frontend holds each start for 10 ms: with W = 100 that allows 10,000 starts a second, if no worker ever waits for anything else.",
		Entrants: drainers(frontend.Options{CloseAfter: frontend.Never, StartDelay: slowStart})[:3],
		Columns:  drainColumns,
		Limit:    4 * time.Minute,
		Charts:   []Chart{{"rate", "Draining with a frontend that takes 10 ms: at most 10,000", "starts/s"}},
		Bars: []Bar{
			{Text: "Frontend answers after 10 ms: starts/s against W / 10 ms", Value: Key{"pgdispatch", "rate"}, Constant: drainWorkers / slowStart.Seconds(), AtLeast: true, Level: 0.75},
			{Text: "Tuned River, the same", Value: Key{"River tuned", "rate"}, Constant: drainWorkers / slowStart.Seconds(), Informative: true},
		},
	}
}
