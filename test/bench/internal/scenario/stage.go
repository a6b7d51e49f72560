package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/entrant"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// tunedCooldown is the minimum that River allows.
const tunedCooldown = time.Millisecond

// riverWorkers is the number of workers that River's documentation recommends to begin with.
const riverWorkers = 100

// contestant is a contestant's setup: its database, its way to insert, and its processes.
type contestant struct {
	template string
	settings map[string]string
	// W, for the product only; zero means the default
	maxClaims int
	insert    func(*pgxpool.Pool) (Insert, error)
	processes func(l *lab.Lab, database *lab.Database, address string) ([]*lab.Process, error)
	// unsettled names the query for items that are not settled yet. Empty means that the contestant never settles.
	unsettled string
}

func by(insert Insert) func(*pgxpool.Pool) (Insert, error) {
	return func(*pgxpool.Pool) (Insert, error) { return insert, nil }
}

// replicas is the product with the given number of processes.
func replicas(count int, options lab.Replica, insert Insert) contestant {
	return each(slices.Repeat([]lab.Replica{options}, count), insert)
}

// each is the product with one process for each of the given options.
func each(replicas []lab.Replica, insert Insert) contestant {
	return contestant{
		template: lab.Ours, insert: by(insert), unsettled: "unsettled",
		processes: func(l *lab.Lab, database *lab.Database, address string) ([]*lab.Process, error) {
			var processes []*lab.Process
			for _, options := range replicas {
				p, err := l.Replica(database, address, options)
				if err != nil {
					return processes, err
				}
				processes = append(processes, p)
			}
			return processes, nil
		},
	}
}

func child(describe lab.Child) func(*lab.Lab, *lab.Database, string) ([]*lab.Process, error) {
	return func(l *lab.Lab, database *lab.Database, address string) ([]*lab.Process, error) {
		describe.URL, describe.Frontend = database.URL, address
		p, err := l.Child(describe)
		if err != nil {
			return nil, err
		}
		return []*lab.Process{p}, nil
	}
}

func byHand(kind string, async bool) contestant {
	return contestant{template: lab.Ours, insert: by(Alone("enqueue_floor")),
		processes: child(lab.Child{Kind: kind, Async: async})}
}

func rivers(cooldown time.Duration) contestant {
	return contestant{
		template: lab.Rivers, unsettled: "river_unsettled",
		insert: func(pool *pgxpool.Pool) (Insert, error) {
			client, err := entrant.RiverClient(pool, cooldown, 0, nil)
			if err != nil {
				return nil, err
			}
			return ByRiver(client), nil
		},
		processes: child(lab.Child{Kind: lab.KindRiver, Cooldown: cooldown, Workers: riverWorkers}),
	}
}

// riverWithoutGzip is tuned River with a Temporal client that does not compress.
func riverWithoutGzip() contestant {
	c := rivers(tunedCooldown)
	c.processes = child(lab.Child{Kind: lab.KindRiver, Cooldown: tunedCooldown, Workers: riverWorkers, GzipOff: true})
	return c
}

// Contestants used by several scenarios.
const (
	ours     = "pgdispatch"
	tuned    = "River tuned"
	tunedOff = "River tuned, gzip off"
)

// stage is a contestant set up for one turn.
type stage struct {
	contestant
	lab       *lab.Lab
	db        *lab.Database
	server    *frontend.Server
	insert    Insert
	teams     []Team
	processes []*lab.Process
}

// setUp creates the database and the frontend. It starts no processes.
func (t *Turn) setUp(ctx context.Context, c contestant, options frontend.Options) (*stage, error) {
	s := &stage{contestant: c, lab: t.Lab}
	var err error
	if s.db, err = t.Database(ctx, c.template, c.settings); err != nil {
		return nil, err
	}
	if s.server, err = frontend.Start(options); err != nil {
		return nil, errors.Join(err, s.db.Drop())
	}
	if s.insert, err = c.insert(s.db.Pool); err == nil && c.template == lab.Ours {
		s.teams, err = Teams(ctx, s.db.Pool)
	}
	if err == nil && c.maxClaims > 0 {
		_, err = s.db.Pool.Exec(ctx, lab.Query("settings"), c.maxClaims, false)
	}
	if err != nil {
		return nil, s.close(err)
	}
	return s, nil
}

// start starts the processes.
func (s *stage) start() (err error) {
	s.processes, err = s.contestant.processes(s.lab, s.db, s.server.Address())
	return err
}

// run calls setUp and start, and inserts some warm-up items. After it the contestant is known to work.
func (t *Turn) run(ctx context.Context, c contestant, options frontend.Options, warmUps int) (*stage, error) {
	s, err := t.setUp(ctx, c, options)
	if err != nil {
		return nil, err
	}
	if err = s.start(); err == nil {
		err = s.warmUp(ctx, warmUps)
	}
	if err != nil {
		return nil, s.close(err)
	}
	return s, nil
}

// warmUps returns how many items precede a measurement.
func warmUps(t *Turn) int { return Quickly(t, 20, 3) }

// warmUp inserts items one after another, each after the previous one has been started.
func (s *stage) warmUp(ctx context.Context, items int) error {
	load := s.load(1)
	conn, err := s.db.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	for n := range items {
		sent, err := s.insert(ctx, conn.Conn(), load.team(n))
		if err != nil {
			return err
		}
		if _, _, err := Latencies(ctx, s.server, []Sent{sent}); err != nil {
			return fmt.Errorf("warm up: %w", errors.Join(err, s.alive()))
		}
	}
	return nil
}

func (s *stage) load(writers int) *Load {
	return &Load{Pool: s.db.Pool, Insert: s.insert, Teams: s.teams, Writers: writers}
}

func (s *stage) alive() error {
	var errs []error
	for _, p := range s.processes {
		errs = append(errs, p.Alive())
	}
	return errors.Join(errs...)
}

// awaitSettled waits until the database has no unsettled items.
func (s *stage) awaitSettled(ctx context.Context) error { return s.awaitNone(ctx, s.unsettled) }

func (s *stage) awaitNone(ctx context.Context, query string) error {
	if query == "" {
		return nil
	}
	for {
		var left int
		if err := s.db.Pool.QueryRow(ctx, lab.Query(query)).Scan(&left); err != nil {
			return fmt.Errorf("count what is left: %w", err)
		}
		if left == 0 {
			return nil
		}
		if err := errors.Join(s.alive(), sleepUntil(ctx, time.Now().Add(20*time.Millisecond))); err != nil {
			return fmt.Errorf("%d items are left: %w", left, err)
		}
	}
}

// endProcesses ends the contestant's processes. It is an error if one had exited by itself.
func (s *stage) endProcesses() error {
	errs := []error{s.alive()}
	for _, p := range s.processes {
		errs = append(errs, p.Kill())
	}
	s.processes = nil
	return errors.Join(errs...)
}

// close ends everything. It fails if a workflow was started twice, because figures of an incorrect run are worthless.
func (s *stage) close(err error) error {
	err = errors.Join(err, s.endProcesses())
	if duplicates := s.server.Counts().Duplicates; duplicates > 0 {
		err = errors.Join(err, fmt.Errorf("%d workflows were started twice", duplicates))
	}
	s.server.Stop()
	return errors.Join(err, s.db.Drop())
}

// requireStarts fails unless exactly the given number of workflows was started.
func (s *stage) requireStarts(want int) error {
	if got := s.server.Counts().Starts; got != want {
		return fmt.Errorf("%d workflows were started for %d items", got, want)
	}
	return nil
}
