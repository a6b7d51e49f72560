package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	// lifeTime is how long each workflow runs, and drainLifeTime how long in a drain, where a longer one would measure how
	// many workflows a contestant watches at once.
	lifeTime, drainLifeTime = 500 * time.Millisecond, 50 * time.Millisecond
	// lifeTenants is the number of workspaces, and lifeLimit the limit of each.
	lifeTenants, lifeLimit = 1000, 20
	// waitingWorkers is the number of River's workers that start a workflow and wait for its end.
	waitingWorkers = 2000
)

// tenancy is how the items of a life are spread over workspaces.
type tenancy struct {
	name string
	many bool // lifeTenants workspaces; otherwise a single one without a limit that matters
}

var tenancies = []tenancy{{"1,000 workspaces", true}, {"one workspace", false}}

// lifeColumns are the figures of lives that are offered at a rate.
var lifeColumns = []Column{{"p50", "p50 ms"}, {"p99", "p99 ms"}, {"rate", "items/s taken in"},
	{"core", "Postgres, % of a core"}, {"wal", "WAL bytes"}, {"transactions", "transactions"}, {"dead", "row versions"}}

// lifeRates are the offered rates, each with the maximum ratios to River for many workspaces and for one.
var lifeRates = []struct{ rate, many, one, cpu float64 }{{50, 0, 0, 1.4}, {300, 1.3, 1.2, 1.4}, {1000, 2.5, 1.5, 0}}

// waitingRivers is River whose job starts a workflow and waits for its end, as one would write it to hold a slot.
func waitingRivers(workers int) contestant {
	c := rivers(tunedCooldown)
	c.processes = child(lab.Child{Kind: lab.KindRiver, Cooldown: tunedCooldown, Workers: workers, Waits: true})
	return c
}

// livingReplicas is the product, whose items count as settled when their workflows' ends are recorded.
func livingReplicas(count, workers int) contestant {
	c := replicas(count, lab.Replica{Workers: workers}, Within("enqueue"))
	c.unsettled = "unended"
	return c
}

// Lives measures the whole life of items: they belong to many tenants, their workflows end, and a slot is held until
// then.
func Lives() *Scenario {
	s := &Scenario{
		Name: "lives", Title: "Whole lives: from commit to start, with ends",
		Text: fmt.Sprintf("16 writers offer items for 30 s, and each workflow runs for %s. The items belong to %s "+
			"workspaces of %d slots, or to a single one. River's job starts the workflow and waits for its end, which is what "+
			"holds a slot without pgdispatch; it knows no tenants. `Postgres` is the CPU of the server and all its backends, "+
			"in percent of a core; WAL, transactions and row versions (updates and deletes) are of an item's whole life, its "+
			"insert included. The frontend is a stub that accepts starts and reports ends.",
			lifeTime, grouped(lifeTenants), lifeLimit),
		Columns: lifeColumns,
		Charts: []Chart{{"p50", "Commit to start, with ends, median", "ms"},
			{"core", "CPU of Postgres, with ends", "% of a core"}},
		Limit: 4 * time.Minute,
	}
	for _, tenants := range tenancies {
		for _, r := range lifeRates {
			offered := tenants.name + ", " + grouped(r.rate) + "/s"
			own, other := offered+": "+ours, offered+": River that waits"
			s.Entrants = append(s.Entrants,
				lifeEntrant(own, blue, livingReplicas(1, riverWorkers), tenants, r.rate),
				lifeEntrant(other, yellow, waitingRivers(waitingWorkers), tenants, r.rate))

			against := func(figure string, level float64) Bar {
				return Bar{Text: "Lives, " + offered + ": " + figure + " / River that waits",
					Value: Key{own, figure}, Against: Key{other, figure}, Level: level, Informative: level == 0}
			}
			if tenants.many {
				s.Bars = append(s.Bars, against("p50", r.many), against("p99", 0), against("core", 0))
			} else {
				s.Bars = append(s.Bars, against("p50", r.one), against("p99", 1.3), against("core", r.cpu))
			}
		}
	}
	return s
}

// slowFlushes is how much longer a flush takes in SlowLives: what managed Postgres takes, or a synchronous standby.
const slowFlushes = 3 * time.Millisecond

// SlowLives is Lives on a slow disk, in many workspaces.
func SlowLives() *Scenario {
	s := &Scenario{
		Name: "slowlives", Title: "Whole lives on a slow disk",
		Text: fmt.Sprintf("The same in %s workspaces, with flushes that take %s longer: a library in the server waits after "+
			"each fdatasync. A contestant whose commits are serialized takes in what one flush after the other allows.",
			grouped(lifeTenants), slowFlushes),
		Columns: lifeColumns,
		Charts: []Chart{{"p50", "Commit to start on a slow disk, with ends, median", "ms"},
			{"rate", "Taken in on a slow disk", "items/s"}},
		Limit: 6 * time.Minute,
	}
	for _, rate := range []float64{150, 300, 1000} {
		offered := grouped(rate) + "/s"
		own, other := offered+": "+ours, offered+": River that waits"
		s.Entrants = append(s.Entrants, slowly(lifeEntrant(own, blue, livingReplicas(1, riverWorkers), tenancies[0], rate)),
			slowly(lifeEntrant(other, yellow, waitingRivers(waitingWorkers), tenancies[0], rate)))
		s.Bars = append(s.Bars,
			Bar{Text: "Slow disk, " + offered + ": p50 / River that waits", Value: Key{own, "p50"},
				Against: Key{other, "p50"}, Level: 1.4},
			Bar{Text: "Slow disk, " + offered + ": taken in / River that waits", Value: Key{own, "rate"},
				Against: Key{other, "rate"}, AtLeast: true, Level: 2.8, Informative: rate < 1000})
	}
	return s
}

// slowly runs an entrant on a slow disk.
func slowly(e Entrant) Entrant {
	run := e.Run
	e.Run = func(ctx context.Context, t *Turn) error {
		restore, err := t.SlowDown(ctx, slowFlushes)
		if err == nil {
			err = run(ctx, t)
		}
		if restore != nil {
			err = errors.Join(err, restore())
		}
		return err
	}
	return e
}

func lifeEntrant(name string, colour int, c contestant, tenants tenancy, rate float64) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.live(ctx, c, tenants, frontend.Options{CloseAfter: lifeTime})
		if err != nil {
			return err
		}
		if err = s.start(); err == nil {
			err = s.warmUp(ctx, warmUps(t))
		}
		if err == nil {
			err = s.lives(ctx, t, rate)
		}
		return s.close(err)
	}}
}

// live sets a contestant up with the given tenants.
func (t *Turn) live(ctx context.Context, c contestant, tenants tenancy, options frontend.Options) (*stage, error) {
	s, err := t.setUp(ctx, c, options)
	if err != nil || c.template != lab.Ours {
		return s, err
	}

	if !tenants.many {
		s.teams = s.teams[:1]
		return s, nil
	}
	if s.teams, err = AddTeams(ctx, s.db.Pool, "tenant", Quickly(t, lifeTenants, 50), lifeLimit); err != nil {
		return nil, s.close(err)
	}
	return s, nil
}

// lives offers items at a rate, and measures their starts and what their lives cost.
func (s *stage) lives(ctx context.Context, t *Turn, rate float64) error {
	rate = Quickly(t, rate, min(rate, 200))
	if _, err := pacedOnce(ctx, s, rate, Quickly(t, 2*time.Second, 300*time.Millisecond)); err != nil {
		return err
	}
	if err := errors.Join(s.awaitSettled(ctx), s.lab.Checkpoint(ctx)); err != nil {
		return err
	}
	before, err := s.usage(ctx)
	if err != nil {
		return err
	}

	began := time.Now()
	o, err := pacedOnce(ctx, s, rate, Quickly(t, 30*time.Second, time.Second))
	if err != nil {
		return err
	}
	cpu, err := s.lab.ServerCPU()
	if err != nil {
		return err
	}
	t.Figures["core"] = 100 * float64(cpu-before.cpu) / float64(time.Since(began))
	if err := s.awaitSettled(ctx); err != nil {
		return err
	}

	t.Figures["p50"], t.Figures["p99"] = stat.Percentile(o.milliseconds, 0.5), stat.Percentile(o.milliseconds, 0.99)
	t.Figures["rate"] = o.kept
	if o.late > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Items that were not started %s after the last insert are counted with that "+
			"latency.", startsWithin))
	}
	_, err = s.divide(ctx, t, before, float64(len(o.milliseconds)))
	return err
}

// LifeDrain measures how fast a full queue is worked off if workflows end and are waited for.
func LifeDrain() *Scenario {
	s := &Scenario{
		Name: "lifedrain", Title: "Draining with ends",
		Text: fmt.Sprintf("20,000 items wait, spread as in the scenario before; each workflow runs for %s. The rate is that "+
			"of items whose ends are recorded, from the first start to the last end.", drainLifeTime),
		Columns: []Column{{"rate", "lives/s"}, {"cpu", "database CPU µs an item"}},
		Charts:  []Chart{{"rate", "Draining with ends", "lives/s"}},
		Limit:   4 * time.Minute,
	}
	for _, tenants := range tenancies {
		own, three := tenants.name+": "+ours, tenants.name+": three replicas"
		other := tenants.name + ": River that waits"
		s.Entrants = append(s.Entrants,
			lifeDrainEntrant(own, blue, livingReplicas(1, drainWorkers), tenants, fillOurs),
			lifeDrainEntrant(three, green, livingReplicas(3, drainWorkers/3), tenants, fillOurs),
			lifeDrainEntrant(other, yellow, waitingRivers(waitingWorkers), tenants, fillRivers))
		level := 1.0
		if !tenants.many {
			level = 1.4
		}
		s.Bars = append(s.Bars,
			Bar{Text: "Drain with ends, " + tenants.name + " / River that waits", Value: Key{own, "rate"},
				Against: Key{other, "rate"}, AtLeast: true, Level: level},
			Bar{Text: "Drain with ends, " + tenants.name + ": three replicas / one", Value: Key{three, "rate"},
				Against: Key{own, "rate"}, AtLeast: true, Level: 0.7})
	}
	return s
}

func lifeDrainEntrant(name string, colour int, c contestant, tenants tenancy,
	fill func(context.Context, *stage, int) error) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		c := c
		if c.template == lab.Ours {
			c.maxClaims = drainWorkers
		}
		s, err := t.live(ctx, c, tenants, frontend.Options{CloseAfter: drainLifeTime})
		if err != nil {
			return err
		}
		return s.close(s.lifeDrain(ctx, t, Quickly(t, 20000, 500), fill))
	}}
}

func (s *stage) lifeDrain(ctx context.Context, t *Turn, items int,
	fill func(context.Context, *stage, int) error) error {
	used, err := s.fillAndStart(ctx, items, fill)
	if err != nil {
		return err
	}
	if err := errors.Join(s.awaitStarts(ctx, items), s.awaitSettled(ctx)); err != nil {
		return err
	}
	first, _ := ends(s.server.Arrivals())
	t.Figures["rate"] = float64(items) / time.Since(first).Seconds()

	cpu, err := used()
	if err != nil {
		return err
	}
	t.Figures["cpu"] = float64(cpu.Microseconds()) / float64(items)
	return s.requireStarts(items)
}

// turns are full workspaces: how many slots there are, and how long each workflow holds one.
var turns = []struct {
	slots int
	holds time.Duration
	level float64
}{{1, 20 * time.Millisecond, 0.95}, {5, 50 * time.Millisecond, 1}, {20, 100 * time.Millisecond, 1.05}}

// Turns measures how soon a full workspace's freed slot is used again.
func Turns() *Scenario {
	s := &Scenario{
		Name: "turns", Title: "A full workspace: how often its slots turn",
		Text: "A workspace has more items than slots for 10 s, so that each end lets the next item start. River has as " +
			"many workers as there are slots, and its job waits for the end. `ideal` would be slots divided by the time that " +
			"a workflow runs.",
		Columns: []Column{{"turns", "starts/s"}, {"ideal", "ideal"}},
		Limit:   2 * time.Minute,
	}
	for _, turn := range turns {
		slots := fmt.Sprintf("%d slots of %s", turn.slots, turn.holds)
		own, other := slots+": "+ours, slots+": River that waits"
		s.Entrants = append(s.Entrants,
			turnEntrant(own, blue, livingReplicas(1, riverWorkers), turn.slots, turn.holds, fillOurs),
			turnEntrant(other, yellow, waitingRivers(turn.slots), turn.slots, turn.holds, fillRivers))
		s.Bars = append(s.Bars, Bar{Text: "Turns of " + slots + " / River that waits", Value: Key{own, "turns"},
			Against: Key{other, "turns"}, AtLeast: true, Level: turn.level})
	}
	return s
}

func turnEntrant(name string, colour int, c contestant, slots int, holds time.Duration,
	fill func(context.Context, *stage, int) error) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.setUp(ctx, c, frontend.Options{CloseAfter: holds})
		if err != nil {
			return err
		}
		return s.close(s.turn(ctx, t, slots, holds, fill))
	}}
}

func (s *stage) turn(ctx context.Context, t *Turn, slots int, holds time.Duration,
	fill func(context.Context, *stage, int) error) (err error) {
	ideal := float64(slots) / holds.Seconds()
	length := Quickly(t, 10*time.Second, time.Second)
	if s.template == lab.Ours {
		if s.teams, err = AddTeams(ctx, s.db.Pool, "full", 1, slots); err != nil {
			return err
		}
	}
	if _, err := s.fill(ctx, int(ideal*(length.Seconds()+2)), fill); err != nil {
		return err
	}

	if err := s.start(); err != nil {
		return err
	}
	if err := s.awaitStarts(ctx, slots); err != nil {
		return err
	}
	from := s.server.Counts().Starts
	began := time.Now()
	if err := sleepUntil(ctx, began.Add(length)); err != nil {
		return err
	}
	t.Figures["turns"] = float64(s.server.Counts().Starts-from) / time.Since(began).Seconds()
	t.Figures["ideal"] = ideal
	return s.alive()
}
