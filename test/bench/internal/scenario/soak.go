package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	// DefaultSoak is how long scenario soak offers its load by default.
	DefaultSoak = time.Hour
	soakRate    = 1000.0
	// longest is the maximum time that an enqueuing transaction stays open.
	longest = 15 * time.Second
	// soakStable is the time after which memory and tables should have reached their final size.
	soakStable = 10 * time.Minute
	soakSample = 10 * time.Second
)

// Soak measures how memory, connections and tables develop over a long time.
func Soak(length time.Duration) *Scenario {
	return &Scenario{
		Name: "soak", Title: "A long time under load",
		Text: fmt.Sprintf("%.0f items per second for %s; the frontend reports each workflow's end half a second after "+
			"its start, and finished items are deleted after a minute. Meanwhile one transaction after "+
			"another enqueues, stays open for up to %s, and commits. Memory and goroutines are one "+
			"replica's, tables and indexes all of pgdispatch's. `early` is the maximum of the second half "+
			"of the first ten minutes (or of the first quarter, if that is less), `late` that of the last "+
			"tenth. Errors are lines of Postgres' log at ERROR or above.", soakRate, inMinutes(length), longest),
		Entrants: []Entrant{{Name: ours, Colour: blue, Run: func(ctx context.Context, t *Turn) error {
			s, err := t.run(ctx, replicas(1, lab.Replica{Workers: 100}, Alone("enqueue")),
				frontend.Options{CloseAfter: 500 * time.Millisecond}, warmUps(t))
			if err != nil {
				return err
			}
			return s.close(s.soak(ctx, t, Quickly(t, length, 10*time.Second)))
		}}},
		Columns: []Column{{"items", "items"}, {"p99", "p99 ms, last tenth"}, {"memoryEarly", "memory MiB, early"},
			{"memoryLate", "late"}, {"goroutinesEarly", "goroutines, early"}, {"goroutinesLate", "late"},
			{"tablesEarly", "tables MiB, early"}, {"tablesLate", "late"}, {"indexesEarly", "indexes MiB, early"},
			{"indexesLate", "late"},
			{"connections", "connections, most"}, {"queue", "notification queue %, most"}, {"open", "open items, most"},
			{"errors", "errors in Postgres' log"}, {"stalls", "stalls per 1,000 items"}},
		MaxRounds: 1,
		Limit:     length + 5*time.Minute,
		Bars: []Bar{
			stays("memory"), stays("goroutines"), stays("tables"), stays("indexes"),
			{Text: "Soak: errors in Postgres' log", Value: Key{ours, "errors"}, Level: 0},
			{Text: "Soak: claims that stopped for over 50 ms, per 1,000 items", Value: Key{ours, "stalls"}, Level: 0.2},
		},
	}
}

// stays sets the target that a figure does not grow between early and late.
func stays(what string) Bar {
	return Bar{Text: "Soak: " + what + " late / early", Value: Key{ours, what + "Late"},
		Against: Key{ours, what + "Early"}, Level: 1.15}
}

// sample holds the readings at one moment.
type sample struct{ memory, goroutines, tables, indexes, connections, queue, open float64 }

func (s *stage) soak(ctx context.Context, t *Turn, length time.Duration) error {
	if _, err := s.db.Pool.Exec(ctx, lab.Query("soak_settings")); err != nil {
		return fmt.Errorf("set the retention: %w", err)
	}
	before, err := s.logged()
	if err != nil {
		return err
	}
	began := time.Now()
	beside, stop := context.WithCancel(ctx)
	defer stop()
	g, beside := errgroup.WithContext(beside)
	held := 0
	g.Go(func() (err error) {
		held, err = s.holdOpen(beside)
		return err
	})
	var samples []sample
	g.Go(func() (err error) {
		samples, err = s.samples(beside, Quickly(t, soakSample, time.Second))
		return err
	})
	sent, err := s.load(pacedWriters).Paced(ctx, soakRate, length)
	stop()
	if err = errors.Join(err, g.Wait()); err != nil {
		return errors.Join(err, s.alive())
	}
	if err := s.awaitNone(ctx, "unended"); err != nil {
		return err
	}
	after, err := s.logged()
	if err != nil {
		return err
	}
	last := sent[:0]
	for _, one := range sent {
		if one.Done.Sub(began) > length*9/10 {
			last = append(last, one)
		}
	}
	fromInsert, _, err := Latencies(ctx, s.server, last)
	if err != nil {
		return err
	}
	t.Figures["p99"] = stat.Percentile(stat.Milliseconds(fromInsert), 0.99)
	t.Figures["items"] = float64(s.server.Counts().Starts)
	t.Figures["errors"] = float64(after - before)
	counts, err := s.claimCounts(ctx)
	if err != nil {
		return err
	}
	t.Figures["stalls"] = 1000 * counts.stalls / max(t.Figures["items"], 1)
	t.Notes = append(t.Notes, fmt.Sprintf("%d transactions stayed open for up to %s.", held, longest))
	t.develop(samples, length)
	return nil
}

// develop computes the figures of a turn of the given length from its samples.
func (t *Turn) develop(samples []sample, length time.Duration) {
	early := min(soakStable, length/4)
	stretch := func(from, to time.Duration) []sample {
		n := float64(len(samples)) / float64(length)
		return samples[int(n*float64(from)):max(int(n*float64(to)), int(n*float64(from))+1)]
	}
	for name, of := range map[string]func(sample) float64{
		"memory":     func(s sample) float64 { return s.memory / (1 << 20) },
		"goroutines": func(s sample) float64 { return s.goroutines },
		"tables":     func(s sample) float64 { return s.tables / (1 << 20) },
		"indexes":    func(s sample) float64 { return s.indexes / (1 << 20) },
	} {
		t.Figures[name+"Early"] = greatestOf(stretch(early/2, early), of)
		t.Figures[name+"Late"] = greatestOf(stretch(length*9/10, length), of)
	}
	t.Figures["connections"] = greatestOf(samples, func(s sample) float64 { return s.connections })
	t.Figures["queue"] = 100 * greatestOf(samples, func(s sample) float64 { return s.queue })
	t.Figures["open"] = greatestOf(samples, func(s sample) float64 { return s.open })
}

func greatestOf(samples []sample, of func(sample) float64) (most float64) {
	for _, s := range samples {
		most = max(most, of(s))
	}
	return most
}

// holdOpen enqueues in one transaction after another, each of which stays open for a while, until ctx is cancelled. It
// returns the number of transactions.
func (s *stage) holdOpen(ctx context.Context) (held int, err error) {
	for ; ctx.Err() == nil; held++ {
		tx, err := s.db.Pool.Begin(context.WithoutCancel(ctx))
		if err != nil {
			return held, fmt.Errorf("begin: %w", err)
		}
		team := s.teams[held%len(s.teams)]
		if _, err := Alone("enqueue")(context.WithoutCancel(ctx), tx.Conn(), team); err != nil {
			return held, err
		}
		_ = sleepUntil(ctx, time.Now().Add(rand.N(longest))) // on cancellation the transaction commits at once
		if err := tx.Commit(context.WithoutCancel(ctx)); err != nil {
			return held, fmt.Errorf("commit: %w", err)
		}
	}
	return held, nil
}

// samples takes a sample every interval until ctx is cancelled.
func (s *stage) samples(ctx context.Context, interval time.Duration) (all []sample, err error) {
	p := s.processes[0]
	for ctx.Err() == nil {
		var one sample
		if one.memory, err = p.Memory(); err != nil {
			return all, err
		}
		metrics, err := p.Metrics(context.WithoutCancel(ctx))
		if err != nil {
			return all, err
		}
		one.goroutines = metrics["go_goroutines"]
		row := s.db.Pool.QueryRow(context.WithoutCancel(ctx), lab.Query("soak"))
		if err := row.Scan(&one.tables, &one.indexes, &one.connections, &one.queue, &one.open); err != nil {
			return all, fmt.Errorf("look at the database: %w", err)
		}
		all = append(all, one)
		_ = sleepUntil(ctx, time.Now().Add(interval)) // on cancellation the loop ends
	}
	return all, nil
}

// logged returns the number of errors in Postgres' log.
func (s *stage) logged() (errors int, err error) {
	text, err := os.ReadFile(s.lab.Cluster.LogPath())
	if err != nil {
		return 0, fmt.Errorf("read Postgres' log: %w", err)
	}
	for _, level := range []string{"ERROR:", "FATAL:", "PANIC:"} {
		errors += bytes.Count(text, []byte(level))
	}
	return errors, nil
}
