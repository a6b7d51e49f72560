package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	// openExecutions is how many workflows are open at the same time.
	openExecutions = 5000
	// watchIdle is how long they stay open while requests are counted. It is the duration of a long poll.
	watchIdle = 20 * time.Second
	// watchSteady is the time over which half of them are closed one by one.
	watchSteady = 15 * time.Second
	// soon is the maximum delay, in milliseconds, until the last end is detected.
	soon = 3000
)

func watchEntrant(name string, colour, watches int) Entrant {
	c := replicas(1, lab.Replica{Workers: 50, Variables: []string{"PGDISPATCH_MAX_WATCHES=" + strconv.Itoa(watches)}},
		Alone("enqueue"))
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.run(ctx, c, frontend.Options{CloseAfter: frontend.Never}, 5)
		if err != nil {
			return err
		}
		return s.close(watch(ctx, t, s))
	}}
}

// watch opens all workflows, measures what it costs to wait for them, and closes them: half one by one, the others at
// once.
func watch(ctx context.Context, t *Turn, s *stage) error {
	before, err := s.processes[0].Memory()
	if err != nil {
		return err
	}
	open := Quickly(t, openExecutions, 200)
	if err := s.enqueueMany(ctx, open); err != nil {
		return err
	}
	if err := s.awaitSettled(ctx); err != nil {
		return err
	}
	if err := s.cost(ctx, t, before); err != nil {
		return err
	}
	ids := slices.Collect(maps.Keys(s.server.Arrivals()))
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	half := len(ids) / 2
	closed := map[string]time.Time{}
	began, steady := time.Now(), Quickly(t, watchSteady, time.Second)
	for n, id := range ids[:half] {
		if err := sleepUntil(ctx, began.Add(steady*time.Duration(n)/time.Duration(half))); err != nil {
			return err
		}
		closed[id] = s.server.Close(id)
	}
	if err := sleepUntil(ctx, time.Now().Add(soon*time.Millisecond)); err != nil {
		return errors.Join(err, s.alive())
	}
	for _, id := range ids[half:] {
		closed[id] = s.server.Close(id)
	}
	if err := s.awaitNone(ctx, "unended"); err != nil {
		return err
	}
	ended, err := s.ended(ctx)
	if err != nil {
		return err
	}
	late := func(ids []string) []float64 {
		var took []time.Duration
		for _, id := range ids {
			took = append(took, ended[id].Sub(closed[id]))
		}
		return stat.Milliseconds(took)
	}
	one, all := late(ids[:half]), late(ids[half:])
	t.Figures["p50"], t.Figures["p99"] = stat.Percentile(one, 0.5), stat.Percentile(one, 0.99)
	t.Figures["last"], t.Figures["burst"] = slices.Max(one), slices.Max(all)
	return nil
}

// cost measures a replica's requests to Temporal while nothing ends, and its memory.
func (s *stage) cost(ctx context.Context, t *Turn, before float64) error {
	idle := Quickly(t, watchIdle, time.Second)
	// All first polls were sent together, and end together.
	if err := sleepUntil(ctx, time.Now().Add(Quickly(t, 2*time.Second, 200*time.Millisecond))); err != nil {
		return err
	}
	from := s.server.Counts()
	if err := sleepUntil(ctx, time.Now().Add(idle)); err != nil {
		return errors.Join(err, s.alive())
	}
	to := s.server.Counts()
	memory, err := s.processes[0].Memory()
	if err != nil {
		return err
	}
	t.Figures["held"] = float64(to.Held)
	t.Figures["memory"] = memory / (1 << 20)
	if to.Held > 0 {
		t.Figures["watch"] = (memory - before) / float64(to.Held) / 1024
	}
	t.Figures["polls"] = float64(to.Polls-from.Polls) / idle.Seconds()
	t.Figures["lists"] = float64(to.Lists-from.Lists) / idle.Seconds()
	t.Figures["others"] = float64(to.Others-from.Others) / idle.Seconds()
	return nil
}

// enqueueMany enqueues the given number of items, evenly over the workspaces.
func (s *stage) enqueueMany(ctx context.Context, items int) error {
	for _, team := range s.teams {
		if _, err := s.db.Pool.Exec(ctx, lab.Query("enqueue_many"), team.Workspace, team.Definition, items/len(s.teams),
			lab.Params); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

// ended reads when each end was recorded. The database uses this machine's clock.
func (s *stage) ended(ctx context.Context) (map[string]time.Time, error) {
	rows, err := s.db.Pool.Query(ctx, lab.Query("ended"))
	if err != nil {
		return nil, fmt.Errorf("read ends: %w", err)
	}
	ended := map[string]time.Time{}
	var id string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		ended[id] = at
		return nil
	})
	return ended, err
}

// Watches measures the delay until ends are detected with very many open workflows, and its cost.
func Watches() *Scenario {
	all, some, none := "5,000 watched", "800 watched, the default", "none watched"
	return &Scenario{
		Name: "watches", Title: "5,000 open workflows, one replica",
		Text: "The frontend holds long polls for 20 s and lists closed workflows one second late, like Elasticsearch. " +
			"No workflow ends for 20 s, in which requests are counted; then half of the workflows close, evenly " +
			"over 15 s in random order, and then all others at once. Measured from a workflow's close until its end " +
			"is recorded. Unwatched ends are found by lists. Memory is the process's resident set; a watch's memory " +
			"is the growth since before the items came, divided by the long polls.",
		Entrants: []Entrant{watchEntrant(all, blue, openExecutions+100), watchEntrant(some, green, 800),
			watchEntrant(none, grey, 0)},
		Columns: []Column{{"held", "long polls"}, {"memory", "memory MB"}, {"watch", "kB a watch"}, {"polls", "polls/s"},
			{"lists", "lists/s"}, {"others", "other requests/s"},
			{"p50", "noticed: p50 ms"}, {"p99", "p99 ms"}, {"last", "the last ms"}, {"burst", "2,500 at once: the last ms"}},
		Bars: []Bar{
			{Text: "5,000 open, all watched: the last end noticed, ms", Value: Key{all, "last"}, Level: soon},
			{Text: "5,000 open, 800 watched: the last end noticed, ms", Value: Key{some, "last"}, Level: soon},
			{Text: "5,000 open, none watched: the last end noticed, ms", Value: Key{none, "last"}, Level: soon},
			{Text: "Lists of closed workflows a second, with 4,200 of 5,000 not watched", Value: Key{some, "lists"}, Level: 10},
		},
		MaxRounds: 2,
		Limit:     3 * time.Minute,
	}
}
