package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	// watchedPairs is how many pairs of turns are measured: claims alone, and claims with a spectator.
	watchedPairs = 150
	// watchedTurn is the length of a turn. A watched turn begins with one look, so this is also the interval between
	// looks.
	watchedTurn = time.Second
	// shownWorkspaces is how many workspaces a look shows, as in the web view.
	shownWorkspaces = 10
	// fillBatch is how many finished items one statement inserts.
	fillBatch = 250_000
)

// fillMuch creates many workspaces, finished items, and waiting items in workspaces without room.
func fillMuch(ctx context.Context, t *Turn, b *backlog) error {
	if _, err := AddTeams(ctx, b.pool, "full", Quickly(t, 100_000, 300), 0); err != nil {
		return err
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, lab.Query("triggers_off")); err != nil {
		return fmt.Errorf("switch triggers off: %w", err)
	}
	for all, n := Quickly(t, 5_000_000, 5000), 1; n <= all; n += fillBatch {
		if _, err := conn.Exec(ctx, lab.Query("view_finished"), min(fillBatch, all), n, all); err != nil {
			return fmt.Errorf("make items that have ended: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, lab.Query("triggers_on")); err != nil {
		return fmt.Errorf("switch triggers on: %w", err)
	}
	if _, err := b.pool.Exec(ctx, lab.Query("enqueue_everywhere"), "full", 10, lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return b.claimAll(ctx) // claims nothing, but the store then knows that every workspace is full
}

// View measures what readers of the web view cost.
func View() *Scenario {
	open := backlogs{}
	const none, much = "an empty database", "5,000,000 ended, 1,000,000 waiting"
	return &Scenario{
		Name: "view", Title: "What looking on costs",
		Text: "The read model behind `status`, `status --watch` and the web view, with 100,000 workspaces, 5,000,000 " +
			"ended items (one in a hundred failed) and 1,000,000 waiting ones: each read 20 times, the overview with " +
			"the longest waiting workspaces. A list's figure is the median of its slowest order or filter. Then the " +
			"pages of a replica. Then claims " +
			"of ten as in `claims`, alone and with a look at the overview, one second each, in " + strconv.Itoa(watchedPairs) +
			" pairs, of which every other begins with the look: the median of the pairs' ratios of mean claim times, and " +
			"the interval that contains the true median in 95 of 100 cases. The interval's upper end counts.",
		Entrants: []Entrant{open.entrant(none, grey, nil, (*backlog).look),
			open.entrant(much, blue, fillMuch, (*backlog).look)},
		Columns: []Column{{"overview", "overview ms"}, {"slowest", "slowest ms"}, {"oldest", "longest waiting ms"},
			{"workspaces", "other workspaces ms"}, {"search", "a part of a name ms"},
			{"items", "items ms"}, {"dead", "dead letters ms"}, {"first", "first page ms"}, {"page", "slowest page ms"},
			{"alone", "claim alone ms"}, {"slower", "watched / alone"}, {"least", "from"}, {"most", "to"}},
		Bars: []Bar{
			{Text: "The overview on 5,000,000 ended and 1,000,000 waiting items, the slowest of 20, ms",
				Value: Key{much, "slowest"}, Level: 100},
			{Text: "The overview's page on these until its last byte, after a second without visitors, median, ms",
				Value: Key{much, "first"}, Level: 100},
			{Text: "The slowest other page, median, ms", Value: Key{much, "page"}, Level: 100},
			{Text: "Claims while somebody looks every second / alone, at the most", Value: Key{much, "most"}, Level: 1.05},
		},
		MaxRounds: 2,
		Limit:     15 * time.Minute,
		Close:     open.close,
	}
}

// look measures each read, and then the claims.
func (b *backlog) look(ctx context.Context, t *Turn) error {
	pool, err := openSpectator(ctx, b)
	if err != nil {
		return err
	}
	defer pool.Close()
	spectator := &operate.Store{DB: pool}
	hour := time.Hour
	list := func(search string, by operate.WorkspaceOrder) func() error {
		return func() error { _, err := spectator.ListWorkspaces(ctx, search, by, nil, 50); return err }
	}
	reads := map[string][]func() error{
		"overview":   {func() error { return overview(ctx, spectator) }},
		"oldest":     {list("", operate.ByOldest)},
		"workspaces": {list("", operate.ByName), list("", operate.ByRunning), list("", operate.ByFailures)},
		"search":     {list("nobody", operate.ByName), list("9", operate.ByOldest), list("9", operate.ByFailures)},
		"dead":       {func() error { _, err := spectator.DeadGroups(ctx, 50); return err }},
	}
	for _, status := range []string{"", "PENDING", "DISPATCHED", "COMPLETED", "FAILED"} {
		reads["items"] = append(reads["items"], func() error {
			_, err := spectator.ListItems(ctx,
				operate.ItemFilter{Filter: operate.Filter{Error: "nothing like it", Since: operate.Moment{Ago: &hour}}}, status,
				nil, "", 50)
			return err
		})
	}
	reads["items"] = append(reads["items"], func() error { _, err := spectator.EndedItems(ctx, nil); return err })
	for name, variants := range reads {
		for _, read := range variants {
			samples, err := timed(Quickly(t, 20, 3), read)
			if err != nil {
				return err
			}
			t.Figures[name] = max(t.Figures[name], stat.Percentile(samples, .5))
			if name == "overview" {
				t.Figures["slowest"] = stat.Percentile(samples, 1)
			}
		}
	}
	if err := b.pages(ctx, t); err != nil {
		return err
	}
	return b.watched(ctx, t, spectator)
}

// openSpectator returns a connection pool for a separate store, with the settings of the web view's pool. It takes no
// connections from the claiming store.
func openSpectator(ctx context.Context, b *backlog) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(b.db.URL)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	config.MaxConns = 1
	maps.Copy(config.ConnConfig.RuntimeParams, map[string]string{"jit": "off", "plan_cache_mode": "force_custom_plan"})
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return pool, nil
}

// overview performs the reads of the web view's first page.
func overview(ctx context.Context, spectator *operate.Store) error {
	_, err := spectator.Overview(ctx)
	if err == nil {
		_, err = spectator.ListWorkspaces(ctx, "", operate.ByOldest, nil, shownWorkspaces)
	}
	return err
}

func timed(times int, read func() error) ([]float64, error) {
	var took []time.Duration
	for range times {
		began := time.Now()
		if err := read(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return stat.Milliseconds(took), nil
}

// watched compares claims alone and with a spectator, pair by pair, so that a change during the run affects both.
// Every other pair begins with the watched turn, so that a slowdown from turn to turn is attributed to neither.
func (b *backlog) watched(ctx context.Context, t *Turn, spectator *operate.Store) error {
	var means [2][]float64 // alone, watched
	for pair := range Quickly(t, watchedPairs, 3) {
		for turn := range 2 {
			looks := (pair + turn) % 2
			mean, err := b.turn(ctx, Quickly(t, watchedTurn, 50*time.Millisecond), looks == 1, spectator)
			if err != nil {
				return err
			}
			means[looks] = append(means[looks], mean)
		}
	}
	ratios := stat.Ratios(means[1], means[0])
	t.Figures["alone"], t.Figures["slower"] = stat.Median(means[0]), stat.Median(ratios)
	t.Figures["least"], t.Figures["most"] = stat.MedianWithin(ratios)
	return nil
}

// turn claims for the given time, beside one look or none, and returns the mean time of a claim in milliseconds.
func (b *backlog) turn(
	ctx context.Context, duration time.Duration, looks bool, spectator *operate.Store,
) (float64, error) {
	var g errgroup.Group
	if looks {
		g.Go(func() error { return overview(ctx, spectator) })
	}
	var sum time.Duration
	claims := 0
	var err error
	for began := time.Now(); err == nil && time.Since(began) < duration; claims++ {
		var took []time.Duration
		took, err = b.cycle(ctx)
		sum += total(took)
	}
	return float64(sum.Nanoseconds()) / 1e6 / float64(claims), errors.Join(err, g.Wait())
}
