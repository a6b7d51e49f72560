package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// fillFull creates one workspace with a huge backlog and many with a small one, and claims until all are full.
func fillFull(ctx context.Context, t *Turn, b *backlog) error {
	huge, err := AddTeams(ctx, b.pool, "huge", 1, 1)
	if err != nil {
		return err
	}
	if _, err := AddTeams(ctx, b.pool, "full", Quickly(t, 10000, 300), 1); err != nil {
		return err
	}
	if _, err := b.pool.Exec(ctx, lab.Query("enqueue_many"), huge[0].Workspace, huge[0].Definition,
		Quickly(t, 1000000, 5000), lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	if _, err := b.pool.Exec(ctx, lab.Query("enqueue_everywhere"), "full", 3, lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	if err := b.claimAll(ctx); err != nil {
		return err
	}
	for _, name := range []string{"huge", "full"} {
		var waiting, open int
		if err := b.pool.QueryRow(ctx, lab.Query("workspaces_full"), name).Scan(&waiting, &open); err != nil {
			return fmt.Errorf("look at the backlog: %w", err)
		}
		if waiting == 0 || open > 0 {
			return fmt.Errorf("the backlog of %s is not what it should be: %d items wait, %d workspaces have room", name,
				waiting, open)
		}
	}
	return nil
}

// claimAll claims until the store knows that no workspace has room, and leaves the claimed items running.
func (b *backlog) claimAll(ctx context.Context) error {
	for {
		batch, _, err := b.claim(ctx, 1000)
		if err != nil {
			return err
		}
		if _, err := b.hold(ctx, batch); err != nil {
			return err
		}
		if len(batch.Items) == 0 && !batch.More {
			return nil
		}
	}
}

// fillWide creates many workspaces with one claimable item each.
func fillWide(ctx context.Context, t *Turn, b *backlog) error {
	if _, err := AddTeams(ctx, b.pool, "single", Quickly(t, 100000, 500), 5); err != nil {
		return err
	}
	if _, err := b.pool.Exec(ctx, lab.Query("enqueue_everywhere"), "single", 1, lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	_, _, err := b.claim(ctx, 0) // loads the waiting items
	return err
}

// Claims measures what a claim costs with a large backlog.
func Claims() *Scenario {
	open := backlogs{}
	const none, full = "nothing else waits", "1,000,000 in one full, 10,000 other full"
	const wide = "100,000 workspaces, one item each"
	return &Scenario{
		Name: "claims", Title: "What a claim costs, by what is waiting",
		Text: "Ten inserts into 20 workspaces, then a look and a claim of ten (only these are timed; one connection, " +
			"the product's own store), a settle, and the ends. If a claim returns less than ten, the following ones " +
			"are added until there are ten. `full` workspaces are at their limit; those with one item each are not, " +
			"and take their turns. Claims commit asynchronously, so that the disk hides nothing.",
		Entrants: []Entrant{open.entrant(none, grey, nil, (*backlog).measure),
			open.entrant(full, blue, fillFull, (*backlog).measure), open.entrant(wide, green, fillWide, (*backlog).measure)},
		Columns: []Column{{"p50", "ten items: p50 ms"}, {"p99", "p99 ms"}, {"claims", "claims for ten"},
			{"one", "one claim: p50 ms"}},
		Charts: []Chart{{"p50", "A claim of ten items, median", "ms"}},
		Bars: []Bar{
			{Text: "Claim p50 beside 1,000,000 items in a full workspace and 10,000 other full ones / none",
				Value: Key{full, "p50"}, Against: Key{none, "p50"}, Level: 1.1},
			{Text: "Claim p50 beside 100,000 workspaces of one item each / none", Value: Key{wide, "p50"},
				Against: Key{none, "p50"}, Level: 1.2},
			{Text: "One claim of as many as it takes, the same", Value: Key{wide, "one"},
				Against: Key{none, "one"}, Informative: true},
		},
		Limit: 6 * time.Minute,
		Close: open.close,
	}
}

func (b *backlog) measure(ctx context.Context, t *Turn) error {
	var ten, each []time.Duration
	for n := range Quickly(t, 330, 30) {
		took, err := b.cycle(ctx)
		if err != nil {
			return err
		}
		if n >= Quickly(t, 30, 10) {
			ten, each = append(ten, total(took)), append(each, took...)
		}
	}
	samples := stat.Milliseconds(ten)
	t.Figures["p50"], t.Figures["p99"] = stat.Percentile(samples, 0.5), stat.Percentile(samples, 0.99)
	t.Figures["one"] = stat.Percentile(stat.Milliseconds(each), 0.5)
	t.Figures["claims"] = float64(len(each)) / float64(len(ten))
	return nil
}
