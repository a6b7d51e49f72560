package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// costRate is how many items per second are offered while costs are measured.
const costRate = 1000.0

// usage holds a database's counters so far.
type usage struct {
	wal                                        float64
	transactions, updated, heapOnly, deletions int64
	cpu                                        time.Duration
}

func (s *stage) usage(ctx context.Context) (u usage, err error) {
	// A pool of its own, because the load's connections are closed to flush their counters.
	pool, err := pgxpool.New(ctx, s.db.URL)
	if err != nil {
		return u, fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()
	if err := pool.QueryRow(ctx, lab.Query("usage")).Scan(&u.wal, &u.transactions, &u.updated, &u.heapOnly,
		&u.deletions); err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	u.cpu, err = s.lab.ServerCPU()
	return u, err
}

func costEntrant(name string, colour int, c contestant, options frontend.Options, until string) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.run(ctx, c, options, warmUps(t))
		if err != nil {
			return err
		}
		return s.close(cost(ctx, t, s, until))
	}}
}

// cost offers items for a while and divides the database's usage by their number. Backends report their counters when
// they end at the latest, so the load's connections are closed and the contestant is stopped before the counters are
// read.
func cost(ctx context.Context, t *Turn, s *stage, until string) error {
	if err := s.awaitNone(ctx, until); err != nil {
		return err
	}
	if err := s.lab.Checkpoint(ctx); err != nil {
		return err
	}
	before, err := s.usage(ctx)
	if err != nil {
		return err
	}
	sent, err := s.load(pacedWriters).Paced(ctx, Quickly(t, costRate, 300), Quickly(t, 10*time.Second, time.Second))
	if err != nil {
		return errors.Join(err, s.alive())
	}
	if _, _, err := Latencies(ctx, s.server, sent); err != nil {
		return errors.Join(err, s.alive())
	}
	if err := s.awaitNone(ctx, until); err != nil {
		return err
	}
	items := float64(len(sent))
	after, err := s.divide(ctx, t, before, items)
	if err != nil {
		return err
	}
	t.Figures["hot"] = float64(after.heapOnly-before.heapOnly) / items
	t.Figures["cpu"] = float64((after.cpu - before.cpu).Microseconds()) / items
	return nil
}

// divide ends the contestant, whose backends then report their counters, and divides what was written by the items. It
// returns the usage in the end.
func (s *stage) divide(ctx context.Context, t *Turn, before usage, items float64) (after usage, err error) {
	if err := s.endProcesses(); err != nil {
		return after, err
	}
	s.db.Pool.Reset()
	if err := sleepUntil(ctx, time.Now().Add(time.Second)); err != nil {
		return after, err
	}

	if after, err = s.usage(ctx); err != nil {
		return after, err
	}
	t.Figures["wal"] = (after.wal - before.wal) / items
	t.Figures["transactions"] = float64(after.transactions-before.transactions) / items
	t.Figures["dead"] = float64(after.updated+after.deletions-before.updated-before.deletions) / items
	return after, nil
}

// Cost measures what an item costs the database.
func Cost() *Scenario {
	never := frontend.Options{CloseAfter: frontend.Never}
	return &Scenario{
		Name: "cost", Title: "What an item costs the database",
		Text: "1,000 items per second for 10 s, from the insert (begin, INSERT, commit) until all are settled, " +
			"starting at a checkpoint. Dead tuples are updates and deletes; heap-only updates touch no index. " +
			"CPU is the user and system time of the server and all its backends. River's jobs end with the " +
			"start; the product's second line also detects and records the workflows' ends.",
		Entrants: []Entrant{
			costEntrant("pgdispatch", blue, busy(), never, "unsettled"),
			costEntrant("pgdispatch, ends recorded too", green, busy(), frontend.Options{}, "unended"),
			costEntrant("River tuned", yellow, rivers(tunedCooldown), never, "river_unsettled"),
			costEntrant("River default", orange, rivers(0), never, "river_unsettled"),
		},
		Columns: []Column{{"wal", "WAL bytes"}, {"dead", "dead tuples"}, {"hot", "of them heap-only"},
			{"transactions", "transactions"}, {"cpu", "database CPU µs"}},
		Charts: []Chart{{"cpu", "Database CPU an item", "µs"}, {"wal", "WAL an item", "bytes"}},
		Bars: []Bar{
			{Text: "WAL bytes an item / tuned River", Value: Key{"pgdispatch", "wal"},
				Against: Key{"River tuned", "wal"}, Informative: true},
			{Text: "Dead tuples an item / tuned River", Value: Key{"pgdispatch", "dead"},
				Against: Key{"River tuned", "dead"}, Informative: true},
			{Text: "Transactions an item / tuned River", Value: Key{"pgdispatch", "transactions"},
				Against: Key{"River tuned", "transactions"}, Informative: true},
			{Text: "Database CPU an item / tuned River", Value: Key{"pgdispatch", "cpu"},
				Against: Key{"River tuned", "cpu"}, Informative: true},
		},
	}
}

// Herd measures how many claims one item causes with many replicas.
func Herd() *Scenario {
	return &Scenario{
		Name: "herd", Title: "Twenty replicas, one item a second",
		Text: "Claims are counted by the server (`track_functions`), from the replicas' start to their end. Claims in as " +
			"many seconds without any item are subtracted, because every replica also looks once per poll " +
			"interval.",
		Entrants:  []Entrant{{Name: "pgdispatch", Colour: blue, Run: herdRun}},
		Columns:   []Column{{"claims", "claims an item"}, {"idle", "claims/s without items"}},
		MaxRounds: 3,
		Limit:     4 * time.Minute,
		Bars: []Bar{
			{Text: "20 replicas, one insert a second: claims an item", Value: Key{"pgdispatch", "claims"}, Level: 3},
		},
	}
}

const herdReplicas = 20

func herdRun(ctx context.Context, t *Turn) error {
	seconds := Quickly(t, 30, 1)
	idle, err := herdClaims(ctx, t, 0, seconds)
	if err != nil {
		return err
	}
	busy, err := herdClaims(ctx, t, seconds, seconds)
	if err != nil {
		return err
	}
	t.Figures["idle"] = float64(idle) / float64(seconds)
	// The number of claims at startup varies, so the difference may be negative.
	t.Figures["claims"] = max(float64(busy-idle)/float64(seconds), 0)
	return nil
}

// herdClaims counts the claims of all replicas over some seconds with the given number of items.
func herdClaims(ctx context.Context, t *Turn, items, seconds int) (claims int64, err error) {
	c := replicas(Quickly(t, herdReplicas, 3), lab.Replica{}, Alone("enqueue"))
	c.settings = map[string]string{"track_functions": "all"}
	s, err := t.run(ctx, c, frontend.Options{CloseAfter: frontend.Never}, 5)
	if err != nil {
		return 0, err
	}
	err = func() error {
		// All replicas are up by then.
		if err := sleepUntil(ctx, time.Now().Add(Quickly(t, 2*time.Second, 500*time.Millisecond))); err != nil {
			return err
		}
		end := time.Now().Add(time.Duration(seconds) * time.Second)
		if items > 0 {
			sent, err := s.load(1).Paced(ctx, float64(items)/float64(seconds), time.Duration(seconds)*time.Second)
			if err != nil {
				return err
			}
			if _, _, err := Latencies(ctx, s.server, sent); err != nil {
				return err
			}
		}
		if err := errors.Join(sleepUntil(ctx, end), s.endProcesses()); err != nil {
			return err
		}
		// Backends report their counters when they end.
		if err := sleepUntil(ctx, time.Now().Add(time.Second)); err != nil {
			return err
		}
		return s.db.Pool.QueryRow(ctx, lab.Query("claim_calls")).Scan(&claims)
	}()
	return claims, s.close(err)
}
