package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/entrant"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

const (
	// drainWorkers is W, and the number of workers or goroutines of every contestant.
	drainWorkers = 100
	// slowStart is how long the slow frontend takes to answer a start.
	slowStart = 10 * time.Millisecond
)

// drainEntrant fills the queue, then starts the processes, and measures from the first start to the last.
func drainEntrant(
	name string, colour int, c contestant, options frontend.Options, fill func(context.Context, *stage, int) error,
) Entrant {
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
	used, err := s.fillAndStart(ctx, items, fill)
	if err != nil {
		return err
	}
	if err := s.awaitStarts(ctx, items); err != nil {
		return err
	}
	first, last := ends(s.server.Arrivals())
	t.Figures["rate"] = float64(items-1) / last.Sub(first).Seconds()
	t.Figures["greatest"] = float64(s.server.Counts().Greatest)
	if s.server.Counts().Greatest > drainWorkers {
		return fmt.Errorf("%d starts at once, with W = %d", s.server.Counts().Greatest, drainWorkers)
	}
	if fill == nil { // the raw stub has exited by then
		s.processes = nil
		return s.requireStarts(items)
	}
	if err := s.awaitSettled(ctx); err != nil {
		return err
	}
	t.Figures["settled"] = float64(items) / time.Since(first).Seconds()
	cpu, err := used()
	if err != nil {
		return err
	}
	t.Figures["cpu"] = float64(cpu.Microseconds()) / float64(items)
	return s.requireStarts(items)
}

// fillAndStart fills the queue and starts the processes. used returns the CPU time that the server has taken for the
// inserts, and since the start.
func (s *stage) fillAndStart(ctx context.Context, items int,
	fill func(context.Context, *stage, int) error) (used func() (time.Duration, error), err error) {
	filling, err := s.fill(ctx, items, fill)
	if err != nil {
		return nil, err
	}
	before, err := s.lab.ServerCPU()
	if err != nil {
		return nil, err
	}

	used = func() (time.Duration, error) {
		now, err := s.lab.ServerCPU()
		return filling + now - before, err
	}
	return used, s.start()
}

// fill inserts items and returns the CPU time that the server took for the inserts. The vacuum and checkpoint after
// them are not included.
func (s *stage) fill(
	ctx context.Context, items int, fill func(context.Context, *stage, int) error,
) (time.Duration, error) {
	if fill == nil {
		return 0, s.lab.Checkpoint(ctx)
	}
	before, err := s.lab.ServerCPU()
	if err != nil {
		return 0, err
	}
	if err := fill(ctx, s, items); err != nil {
		return 0, err
	}
	after, err := s.lab.ServerCPU()
	if err != nil {
		return 0, err
	}
	if _, err := s.db.Pool.Exec(ctx, "vacuum (analyze)"); err != nil {
		return 0, fmt.Errorf("vacuum: %w", err)
	}
	return after - before, s.lab.Checkpoint(ctx)
}

// awaitStarts waits until the given number of workflows has been started. It fails if a contestant exits before.
func (s *stage) awaitStarts(ctx context.Context, items int) error {
	for s.server.Counts().Starts < items {
		err := sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
		if alive := s.alive(); alive != nil && s.server.Counts().Starts < items {
			err = errors.Join(err, alive)
		}
		if err != nil {
			return fmt.Errorf("%d of %d started: %w", s.server.Counts().Starts, items, err)
		}
	}
	return nil
}

// ends returns the first and the last arrival.
func ends(arrivals map[string]time.Time) (first, last time.Time) {
	for _, at := range arrivals {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return first, last
}

func fillOurs(ctx context.Context, s *stage, items int) error {
	for n, team := range s.teams {
		share := items/len(s.teams) + min(1, max(0, items%len(s.teams)-n))
		if _, err := s.db.Pool.Exec(ctx, lab.Query("enqueue_many"), team.Workspace, team.Definition, share,
			lab.Params); err != nil {
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

// Contestants of a drain.
const (
	drainLimit = "limit: starts, no queue"
	drainThree = "pgdispatch, three replicas"
	drainEnds  = "pgdispatch, ends recorded too"
)

// drainers returns the contestants of every drain.
func drainers(options frontend.Options) []Entrant {
	one := replicas(1, lab.Replica{Workers: drainWorkers}, Alone("enqueue"))
	one.maxClaims = drainWorkers
	return []Entrant{
		drainEntrant(drainLimit, grey, contestant{template: lab.Ours, insert: by(nil)}, options, nil),
		drainEntrant(ours, blue, one, options, fillOurs),
		drainEntrant(tuned, yellow, rivers(tunedCooldown), options, fillRivers),
	}
}

var drainColumns = []Column{{"rate", "starts/s"}, {"settled", "settled/s"}, {"cpu", "database CPU µs an item"},
	{"greatest", "at once"}}

// Drain measures how fast a full queue is dispatched.
func Drain() *Scenario {
	never := frontend.Options{CloseAfter: frontend.Never}
	three := each([]lab.Replica{{Workers: 34}, {Workers: 33}, {Workers: 33}}, Alone("enqueue")) // drainWorkers in total
	ended := replicas(1, lab.Replica{Workers: drainWorkers}, Alone("enqueue"))
	three.maxClaims, ended.maxClaims = drainWorkers, drainWorkers
	return &Scenario{
		Name: "drain", Title: "Draining 20,000 items, W = 100",
		Text: "20,000 items wait in 20 workspaces; the frontend answers at once. Starts are counted from the " +
			"first to the last, settled items until the database has none left. The limit is 100 goroutines " +
			"that start as many workflows without a queue. The three replicas have as many workers together as " +
			"the single one. `ends recorded too` also detects and records each workflow's end, which River does " +
			"not do. CPU is the user and system time of the server and all its backends for the inserts, many " +
			"per statement, and from the contestant's start until all are settled.",
		Entrants: append(drainers(never),
			drainEntrant(tunedOff, orange, riverWithoutGzip(), never, fillRivers),
			drainEntrant(drainThree, green, three, never, fillOurs),
			drainEntrant(drainEnds, green, ended, frontend.Options{}, fillOurs)),
		Columns: drainColumns,
		Limit:   4 * time.Minute,
		Charts: []Chart{{"rate", "Draining 20,000 items, W = 100", "starts/s"},
			{"cpu", "Database CPU an item of a drain", "µs"}},
		Bars: []Bar{
			{Text: "Drain of 20,000 items, W = 100 / tuned River", Value: Key{ours, "rate"}, Against: Key{tuned, "rate"},
				AtLeast: true, Level: 1.65},
			{Text: "The same / tuned River, gzip off", Value: Key{ours, "rate"}, Against: Key{tunedOff, "rate"},
				AtLeast: true, Informative: true},
			{Text: "The same / the machine's limit", Value: Key{ours, "rate"}, Against: Key{drainLimit, "rate"},
				AtLeast: true, Informative: true},
			{Text: "Drain with ends recorded / without", Value: Key{drainEnds, "rate"}, Against: Key{ours, "rate"},
				AtLeast: true, Level: 0.65},
			{Text: "Three replicas draining / one with as many workers", Value: Key{drainThree, "rate"},
				Against: Key{ours, "rate"}, AtLeast: true, Level: 0.85},
			{Text: "Database CPU an item of a drain, inserts included / tuned River", Value: Key{ours, "cpu"},
				Against: Key{tuned, "cpu"}, Level: 1.1},
		},
	}
}

// SlowDrain is Drain with a slow frontend.
func SlowDrain() *Scenario {
	atMost := drainWorkers / slowStart.Seconds()
	return &Scenario{
		Name: "slowdrain", Title: "Draining with a frontend that takes 10 ms",
		Text: "The same, but the frontend holds each start for 10 ms: with W = 100 that allows " +
			"10,000 starts per second, if no worker ever waits for anything else.",
		Entrants: drainers(frontend.Options{CloseAfter: frontend.Never, StartDelay: slowStart}),
		Columns:  drainColumns,
		Limit:    4 * time.Minute,
		Charts:   []Chart{{"rate", "Draining with a frontend that takes 10 ms: at most 10,000", "starts/s"}},
		Bars: []Bar{
			{Text: "Frontend answers after 10 ms: starts/s / tuned River", Value: Key{ours, "rate"}, Against: Key{tuned, "rate"},
				AtLeast: true, Level: 1.4},
			{Text: "The same against W / 10 ms", Value: Key{ours, "rate"}, Constant: atMost, AtLeast: true, Informative: true},
			{Text: "Tuned River, the same", Value: Key{tuned, "rate"}, Constant: atMost, AtLeast: true, Informative: true},
		},
	}
}
