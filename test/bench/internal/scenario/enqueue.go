package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// Colours of the contestants, the same in every plot.
const (
	blue   = iota // the product
	grey          // floor and limit
	yellow        // River
	orange        // River with its defaults
	violet        // naive and polled
	green         // the product in a second way
)

const enqueueWriters = 32

const withKey = "pgdispatch, with a limit key"

// slowFlush delays each WAL flush by 4 ms, however many sessions are active. It simulates a slow disk.
var slowFlush = map[string]string{"commit_delay": "4000", "commit_siblings": "0"}

// flood is an entrant that inserts as fast as 32 writers can, into a database that is not drained.
func flood(name string, colour int, c contestant, settings map[string]string) Entrant {
	c.settings = settings
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.setUp(ctx, c, frontend.Options{})
		if err != nil {
			return err
		}
		rate, _, err := s.load(enqueueWriters).Flood(ctx, Quickly(t, time.Second, 50*time.Millisecond),
			Quickly(t, 5*time.Second, 200*time.Millisecond))
		if err == nil {
			t.Figures["rate"] = rate
		}
		return s.close(err)
	}}
}

func table(statement string) contestant {
	return contestant{template: lab.Ours, insert: by(Alone(statement)), processes: nobody}
}

func nobody(*lab.Lab, *lab.Database, string) ([]*lab.Process, error) { return nil, nil }

func enqueueEntrants(settings map[string]string) []Entrant {
	inside := table("enqueue")
	inside.insert = by(Within("enqueue"))
	return []Entrant{
		flood("no trigger", grey, table("enqueue_plain"), settings),
		flood("pgdispatch", blue, table("enqueue"), settings),
		flood(withKey, green, table("enqueue_keyed"), settings),
		flood("naive NOTIFY", violet, table("enqueue_naive"), settings),
		flood("pgdispatch, begin/commit", green, inside, settings),
		flood("River, begin/commit", yellow, rivers(tunedCooldown), settings),
	}
}

// Enqueue measures how fast rows can be inserted.
func Enqueue() *Scenario {
	return &Scenario{
		Name: "enqueue", Title: "Enqueue throughput",
		Text: "32 writers, one row per commit, no replica. `no trigger` and `naive NOTIFY` are the product's own table, " +
			"with all its indexes and checks, without a trigger and with an AFTER INSERT trigger that notifies. River inserts " +
			"through its client, with its cooldown at 1 ms.",
		Entrants: enqueueEntrants(nil),
		Columns:  []Column{{"rate", "items/s"}},
		Charts:   []Chart{{"rate", "Enqueue: 32 writers, one row a commit", "items/s"}},
		Bars: []Bar{
			{Text: "Enqueue with the whole trigger / without a trigger", Value: Key{"pgdispatch", "rate"},
				Against: Key{"no trigger", "rate"}, AtLeast: true, Level: 0.7},
			{Text: "Enqueue with a limit key / without", Value: Key{withKey, "rate"}, Against: Key{"pgdispatch", "rate"},
				AtLeast: true, Level: 0.95},
			{Text: "Enqueue with a naive NOTIFY / without a trigger", Value: Key{"naive NOTIFY", "rate"},
				Against: Key{"no trigger", "rate"}, Informative: true},
			{Text: "Enqueue between begin and commit / River's insert", Value: Key{"pgdispatch, begin/commit", "rate"},
				Against: Key{"River, begin/commit", "rate"}, Informative: true},
		},
	}
}

// SlowFlush is Enqueue on a slow disk.
func SlowFlush() *Scenario {
	return &Scenario{
		Name: "slowflush", Title: "Enqueue throughput with a flush of 4 ms",
		Text: "The same with `commit_delay = 4000` and `commit_siblings = 0`, as on a disk or a synchronous standby " +
			"that takes 4 ms: a contestant whose commits are serialized pays this time for each commit.",
		Entrants: enqueueEntrants(slowFlush),
		Columns:  []Column{{"rate", "items/s"}},
		Charts:   []Chart{{"rate", "Enqueue with a flush of 4 ms", "items/s"}},
		Bars: []Bar{
			{Text: "The same with a flush of 4 ms", Value: Key{"pgdispatch", "rate"}, Against: Key{"no trigger", "rate"},
				AtLeast: true, Level: 0.9},
			{Text: "A naive NOTIFY with a flush of 4 ms / without a trigger", Value: Key{"naive NOTIFY", "rate"},
				Against: Key{"no trigger", "rate"}, Informative: true},
		},
	}
}

// Draining measures how fast rows can be inserted while replicas dispatch them.
func Draining() *Scenario {
	drained := func(name string, colour int, deaf bool) Entrant {
		c := replicas(2, lab.Replica{Workers: 50, Deaf: deaf, Poll: poll(deaf)}, Alone("enqueue"))
		return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
			s, err := t.run(ctx, c, frontend.Options{CloseAfter: frontend.Never}, warmUps(t))
			if err != nil {
				return err
			}
			duration := Quickly(t, 6*time.Second, 500*time.Millisecond)
			before := s.server.Counts().Starts
			rate, _, err := s.load(enqueueWriters).Flood(ctx, Quickly(t, time.Second, 200*time.Millisecond), duration)
			if err == nil {
				t.Figures["rate"] = rate
				t.Figures["starts"] = float64(s.server.Counts().Starts-before) / duration.Seconds()
			}
			return s.close(errors.Join(err, s.alive()))
		}}
	}
	return &Scenario{
		Name: "draining", Title: "Enqueue throughput while two replicas drain",
		Text: "32 writers, one row per commit, as fast as they can, while two replicas of 50 workers dispatch " +
			"as fast as they can. It shows what listening costs the writers. Without LISTEN the replicas " +
			"poll every 100 ms. The starts show how much of the machine the replicas used.",
		Entrants: []Entrant{drained(listening, blue, false), drained(deafened, grey, true)},
		Columns:  []Column{{"rate", "items/s inserted"}, {"starts", "starts/s meanwhile"}},
		Bars: []Bar{
			{Text: "Enqueue while two replicas drain: LISTEN on / off", Value: Key{listening, "rate"},
				Against: Key{deafened, "rate"}, AtLeast: true, Level: 0.9},
		},
	}
}

// poll returns a replica's poll interval. A deaf replica polls often, because otherwise its warm-up would take
// minutes.
func poll(deaf bool) time.Duration {
	if deaf {
		return 100 * time.Millisecond
	}
	return 0
}

const (
	listening = "PGDISPATCH_LISTEN=on"
	deafened  = "PGDISPATCH_LISTEN=off"
)
