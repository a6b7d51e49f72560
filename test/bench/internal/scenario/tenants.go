package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	quietRate = 20.0
	// noisyTimes is how many times more items the noisy workspace enqueues.
	noisyTimes = 100
	// noisyRows is how many rows each of its statements inserts.
	noisyRows = 20
	// tenantRun is how long each workflow runs.
	tenantRun = 50 * time.Millisecond
)

func tenantEntrant(name string, colour int, beside bool) Entrant {
	c := replicas(1, lab.Replica{}, Alone("enqueue"))
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.run(ctx, c, frontend.Options{CloseAfter: tenantRun}, warmUps(t))
		if err != nil {
			return err
		}
		return s.close(tenants(ctx, t, s, beside))
	}}
}

func tenants(ctx context.Context, t *Turn, s *stage, beside bool) error {
	quiet, err := AddTeams(ctx, s.db.Pool, "quiet", 1, 5)
	if err != nil {
		return err
	}
	noisy, err := AddTeams(ctx, s.db.Pool, "noisy", 1, 20)
	if err != nil {
		return err
	}
	duration := Quickly(t, 15*time.Second, time.Second)
	var sent []Sent
	g, loads := errgroup.WithContext(ctx)
	if beside {
		many := &Load{Pool: s.db.Pool, Teams: noisy, Writers: 4,
			Insert: func(ctx context.Context, conn *pgx.Conn, team Team) (Sent, error) {
				_, err := conn.Exec(ctx, lab.Query("enqueue_many"), team.Workspace, team.Definition, noisyRows, lab.Params)
				return Sent{Done: time.Now()}, err
			}}
		g.Go(func() error {
			_, err := many.Paced(loads, quietRate*noisyTimes/noisyRows, duration+time.Second)
			return err
		})
	}
	g.Go(func() error {
		if err := sleepUntil(loads, time.Now().Add(time.Second)); err != nil { // the noise starts first
			return err
		}
		load := &Load{Pool: s.db.Pool, Teams: quiet, Writers: 1, Insert: s.insert}
		var err error
		sent, err = load.Paced(loads, quietRate, duration)
		return err
	})
	if err := g.Wait(); err != nil {
		return errors.Join(fmt.Errorf("enqueue: %w", err), s.alive())
	}
	took, _, late, err := latencies(ctx, s.server, sent)
	if err != nil {
		return errors.Join(err, s.alive())
	}
	if late > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d of the quiet workspace's items were not started %s after "+
			"the last insert, and are counted with that latency.", late, startsWithin))
	}
	samples := stat.Milliseconds(took)
	t.Figures["p50"], t.Figures["p99"] = stat.Percentile(samples, 0.5), stat.Percentile(samples, 0.99)
	t.Figures["starts"] = float64(s.server.Counts().Starts) / (duration + time.Second).Seconds()
	return nil
}

// Tenants measures how a noisy neighbour affects a quiet workspace.
func Tenants() *Scenario {
	return &Scenario{
		Name: "tenants", Title: "A quiet workspace beside a noisy one",
		Text: "The quiet workspace enqueues 20 items per second; the noisy one 2,000, twenty per statement, with limit " +
			"20 and workflows of 50 ms: it is full from the first moment, and its backlog grows to the end. Measured " +
			"from the quiet workspace's INSERT to its start, with one replica with its defaults.",
		Entrants: []Entrant{tenantEntrant("alone", grey, false), tenantEntrant("beside 100 times its load", blue, true)},
		Columns:  []Column{{"p50", "quiet: p50 ms"}, {"p99", "quiet: p99 ms"}, {"starts", "starts/s, all"}},
		Charts:   []Chart{{"p99", "A quiet workspace's p99", "ms"}},
		Bars: []Bar{
			{Text: "Quiet workspace's p99 beside a noisy one / alone", Value: Key{"beside 100 times its load", "p99"},
				Against: Key{"alone", "p99"}, Level: 3},
		},
	}
}
