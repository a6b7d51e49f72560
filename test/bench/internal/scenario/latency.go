package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	// idleRate is how many items per second an idle system gets: one every 35 ms, with jitter.
	idleRate = 1000.0 / 35.0
	// pacedWriters is the number of writers of a busy system.
	pacedWriters = 16
)

// idleEntrant inserts at a low rate, cycling through the given ways to insert, and takes the percentiles of each way.
func idleEntrant(name string, colour int, c contestant, rate float64, warmUps int, ways map[string]Insert) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.run(ctx, c, frontend.Options{CloseAfter: frontend.Never}, Quickly(t, warmUps, 1))
		if err != nil {
			return err
		}
		return s.close(idleRun(ctx, t, s, rate, ways))
	}}
}

func idleRun(ctx context.Context, t *Turn, s *stage, rate float64, ways map[string]Insert) error {
	if ways == nil {
		ways = map[string]Insert{"tx": s.insert}
	}
	sent := map[string][]Sent{}
	load := s.load(1)
	load.Insert = func(ctx context.Context, conn *pgx.Conn, team Team) (Sent, error) {
		way := slices.MinFunc(slices.Sorted(maps.Keys(ways)), func(a, b string) int { return len(sent[a]) - len(sent[b]) })
		one, err := ways[way](ctx, conn, team)
		sent[way] = append(sent[way], one)
		return one, err
	}
	warm := s.server.Counts().Starts
	all, err := load.Paced(ctx, rate, Quickly(t, 20*time.Second, time.Second))
	if err != nil {
		return errors.Join(err, s.alive())
	}
	for way, items := range sent {
		fromInsert, _, err := Latencies(ctx, s.server, items)
		if err != nil {
			return errors.Join(err, s.alive())
		}
		samples := stat.Milliseconds(fromInsert)
		t.Figures[way+"50"], t.Figures[way+"99"] = stat.Percentile(samples, 0.5), stat.Percentile(samples, 0.99)
	}
	return s.requireStarts(warm + len(all))
}

// asyncClaims is a replica that claims asynchronously, as the floor does. A crash of Postgres may undo its claims, so
// that a workspace may exceed its limit.
var asyncClaims = lab.Replica{Variables: []string{"PGDISPATCH_DURABLE_COMMITS=none"}}

// Idle measures the time from an item's insert to its start when there is nothing else to do.
func Idle() *Scenario {
	both := func(statement string) map[string]Insert {
		return map[string]Insert{"alone": Alone(statement), "tx": Within(statement)}
	}
	return &Scenario{
		Name: "idle", Title: "From insert to start, idle system",
		Text: "One item about every 35 ms (18 to 53), from before the INSERT is sent until the frontend has the start. " +
			"The floor is a hand-written loop: LISTEN, one UPDATE to claim, one start, and no crash safety. `alone` " +
			"is an INSERT that commits by itself; `in a transaction` is an INSERT and a commit, as River's client " +
			"requires; the begin is not counted. The polled design gets one item per second.",
		Entrants: []Entrant{
			idleEntrant("floor", grey, byHand(lab.KindFloor, false), idleRate, 20, both("enqueue_floor")),
			idleEntrant("floor, async claims", grey, byHand(lab.KindFloor, true), idleRate, 20, both("enqueue_floor")),
			idleEntrant("pgdispatch", blue, replicas(1, lab.Replica{}, Alone("enqueue")), idleRate, 20, both("enqueue")),
			idleEntrant("pgdispatch, async claims", blue, replicas(1, asyncClaims, Alone("enqueue")),
				idleRate, 20, both("enqueue")),
			idleEntrant(tuned, yellow, rivers(tunedCooldown), idleRate, 20, nil),
			idleEntrant(tunedOff, orange, riverWithoutGzip(), idleRate, 20, nil),
			idleEntrant("River default", orange, rivers(0), idleRate, 20, nil),
			idleEntrant("polled", violet, byHand(lab.KindPolled, false), 1, 1, both("enqueue_floor")).slow(),
		},
		Columns: []Column{{"alone50", "alone: p50 ms"}, {"alone99", "p99 ms"},
			{"tx50", "in a transaction: p50 ms"}, {"tx99", "p99 ms"}},
		Charts: []Chart{{"tx50", "Idle: insert to start, median", "ms"}, {"tx99", "Idle: insert to start, p99", "ms"}},
		Bars: []Bar{
			{Text: "Idle insert to start, p50 / tuned River", Value: Key{ours, "tx50"},
				Against: Key{tuned, "tx50"}, Level: 0.95},
			{Text: "The same, p99", Value: Key{ours, "tx99"}, Against: Key{tuned, "tx99"}, Level: 1},
			{Text: "Idle insert to start, p50 / tuned River, gzip off", Value: Key{ours, "tx50"},
				Against: Key{tunedOff, "tx50"}, Informative: true},
			{Text: "Idle insert to start, p50 / the floor with synchronous claims", Value: Key{ours, "alone50"},
				Against: Key{"floor", "alone50"}, Level: 1.5},
			{Text: "The same, p99", Value: Key{ours, "alone99"}, Against: Key{"floor", "alone99"}, Informative: true},
			{Text: "Idle insert to start, p50, claims asynchronous / the floor's, too", Informative: true,
				Value: Key{"pgdispatch, async claims", "alone50"}, Against: Key{"floor, async claims", "alone50"}},
		},
	}
}

// offered is the result of offering items at a rate.
type offered struct {
	milliseconds []float64 // from commit to start
	kept         float64   // the rate that the writers achieved
	late         int       // items that were not started in time
}

func pacedOnce(ctx context.Context, s *stage, rate float64, duration time.Duration) (o offered, err error) {
	sent, err := s.load(pacedWriters).Paced(ctx, rate, duration)
	if err != nil {
		return o, errors.Join(err, s.alive())
	}
	_, fromCommit, late, err := latencies(ctx, s.server, sent)
	return offered{stat.Milliseconds(fromCommit), Rate(sent), late}, errors.Join(err, s.alive())
}

func pacedEntrant(name string, colour int, c contestant, offers float64) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.run(ctx, c, frontend.Options{CloseAfter: frontend.Never}, warmUps(t))
		if err != nil {
			return err
		}
		rate := Quickly(t, offers, min(offers, 400))
		warm, err := pacedOnce(ctx, s, rate, Quickly(t, 2*time.Second, 300*time.Millisecond))
		if err != nil {
			return s.close(err)
		}
		before := s.server.Counts().Starts
		o, err := pacedOnce(ctx, s, rate, Quickly(t, 10*time.Second, 500*time.Millisecond))
		if err != nil {
			return s.close(err)
		}
		t.Figures["p50"], t.Figures["p99"] = stat.Percentile(o.milliseconds, 0.5), stat.Percentile(o.milliseconds, 0.99)
		t.Figures["rate"] = o.kept
		if o.late+warm.late > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s did not keep up: items that were not started %s after "+
				"the last insert are counted with that latency.", name, startsWithin))
		} else {
			err = s.requireStarts(before + len(o.milliseconds))
		}
		return s.close(err)
	}}
}

// busy is the product configured like River: the same number of workers, and each row inserted between a begin and a
// commit.
func busy() contestant { return replicas(1, lab.Replica{Workers: riverWorkers}, Within("enqueue")) }

// pacedRates are the offered rates, each with the maximum ratios of p50 and p99. Zero means that the ratio has no
// target.
var pacedRates = []struct{ rate, p50, p99 float64 }{{rate: 100}, {300, 1.1, 1.3}, {1000, 1.2, 1.1},
	{2000, 0.9, 1.2}, {rate: 4000}}

// Paced measures the time from an item's commit to its start in a busy system.
func Paced() *Scenario {
	s := &Scenario{
		Name: "paced", Title: "From commit to start, by the rate that is offered",
		Text: "16 writers together offer this many items per second, with gaps of 0.5 to 1.5 of the mean, for 2 s of " +
			"warm-up and then for 10 s; from before the commit is sent until the frontend has the start. All have 100 " +
			"workers in one process. The contestants take turns at each rate before the next rate begins.",
		Columns: []Column{{"p50", "p50 ms"}, {"p99", "p99 ms"}, {"rate", "items/s kept"}},
		Charts: []Chart{{"p50", "Commit to start by offered rate, median", "ms"},
			{"p99", "Commit to start by offered rate, p99", "ms"}},
		Limit: 4 * time.Minute,
	}
	for _, r := range pacedRates {
		shown := r.p50 == 0
		offered := grouped(r.rate) + "/s"
		for _, e := range []Entrant{
			pacedEntrant(offered+": "+ours, blue, busy(), r.rate),
			pacedEntrant(offered+": "+tuned, yellow, rivers(tunedCooldown), r.rate),
			pacedEntrant(offered+": "+tunedOff, orange, riverWithoutGzip(), r.rate),
		} {
			e.Slow = shown
			s.Entrants = append(s.Entrants, e)
		}
		against := func(figure string, level float64) Bar {
			return Bar{Text: "Offered " + offered + ": commit to start " + figure + " / tuned River",
				Value:   Key{offered + ": " + ours, figure},
				Against: Key{offered + ": " + tuned, figure}, Level: level, Informative: shown}
		}
		s.Bars = append(s.Bars, against("p50", r.p50), against("p99", r.p99))
	}
	return s
}

// grouped formats a whole number of at most six digits, with a comma before the last three.
func grouped(n float64) string {
	if n < 1000 {
		return strconv.Itoa(int(n))
	}
	return fmt.Sprintf("%d,%03d", int(n)/1000, int(n)%1000)
}
