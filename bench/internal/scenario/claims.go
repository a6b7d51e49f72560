package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/bench/internal/queries"
	"github.com/pgdispatch/pgdispatch/bench/internal/stat"
	"github.com/pgdispatch/pgdispatch/claim"
)

// claimBatch is how many items each measured claim takes.
const claimBatch = 10

// backlog is a database with so much waiting, and a store to claim from it. It is made once and used in every round.
type backlog struct {
	db    *lab.Database
	pool  *pgxpool.Pool
	store *claim.Store
	teams []Team
}

// openBacklog makes a database and fills it. Claims commit without waiting for the disk, so that they are measured and it
// is not.
func openBacklog(ctx context.Context, t *Turn, fill func(context.Context, *Turn, *backlog) error) (*backlog, error) {
	db, err := t.Database(ctx, lab.Ours, map[string]string{"synchronous_commit": "off"})
	if err != nil {
		return nil, err
	}
	b := &backlog{db: db, pool: db.Pool, store: &claim.Store{Pool: db.Pool, Owner: "bench", Lease: 5 * time.Minute}}
	if b.teams, err = Teams(ctx, b.pool); err != nil {
		return b, err
	}
	if _, err := b.pool.Exec(ctx, queries.Get("settings"), lab.NoLimit, false); err != nil {
		return b, fmt.Errorf("set W: %w", err)
	}
	if fill != nil {
		if err := fill(ctx, t, b); err != nil {
			return b, err
		}
	}
	if _, err := b.pool.Exec(ctx, "vacuum (analyze)"); err != nil {
		return b, fmt.Errorf("vacuum: %w", err)
	}
	return b, t.Checkpoint(ctx)
}

// claim claims once and says how long it took.
func (b *backlog) claim(ctx context.Context, atMost int) (claim.Batch, time.Duration, error) {
	began := time.Now()
	batch, err := b.store.Claim(ctx, atMost)
	return batch, time.Since(began), err
}

// hold settles what was claimed as dispatched, and leaves it running.
func (b *backlog) hold(ctx context.Context, batch claim.Batch) (executions []string, err error) {
	settlements := make([]claim.Settlement, len(batch.Items))
	for n, item := range batch.Items {
		settlements[n] = claim.Settlement{Verb: claim.Dispatched, ID: item.ID, Token: item.Token, RunID: "run"}
		executions = append(executions, item.ExecutionID)
	}
	if len(settlements) == 0 {
		return nil, nil
	}
	_, err = b.store.Settle(ctx, claim.Dispatched, settlements)
	return executions, err
}

// enqueue inserts a batch, each item by a transaction of its own.
func (b *backlog) enqueue(ctx context.Context) error {
	for range claimBatch {
		team := b.teams[rand.IntN(len(b.teams))]
		if _, err := b.pool.Exec(ctx, queries.Get("enqueue_many"), team.Workspace, team.Definition, 1, lab.Params); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

// cycle enqueues a batch, claims as many, settles them and ends them: what a busy dispatcher does all day. It returns how
// long the claim took.
func (b *backlog) cycle(ctx context.Context) (time.Duration, error) {
	if err := b.enqueue(ctx); err != nil {
		return 0, err
	}
	batch, took, err := b.claim(ctx, claimBatch)
	if err != nil {
		return 0, err
	}
	if len(batch.Items) != claimBatch {
		return 0, fmt.Errorf("a claim of %d got %d", claimBatch, len(batch.Items))
	}
	executions, err := b.hold(ctx, batch)
	if err != nil {
		return 0, err
	}
	if _, err := b.pool.Exec(ctx, queries.Get("finish"), executions); err != nil {
		return 0, fmt.Errorf("finish: %w", err)
	}
	return took, nil
}

// fillFull makes one workspace with a huge backlog and many with a small one, and claims until all of them are full.
func fillFull(ctx context.Context, t *Turn, b *backlog) error {
	huge, err := AddTeams(ctx, b.pool, "huge", 1, 1)
	if err != nil {
		return err
	}
	if _, err := AddTeams(ctx, b.pool, "full", Quickly(t, 10000, 300), 1); err != nil {
		return err
	}
	if _, err := b.pool.Exec(ctx, queries.Get("enqueue_many"), huge[0].Workspace, huge[0].Definition, Quickly(t, 1000000, 5000), lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	if _, err := b.pool.Exec(ctx, queries.Get("enqueue_everywhere"), "full", 3, lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	for {
		batch, _, err := b.claim(ctx, 1000)
		if err != nil {
			return err
		}
		if _, err := b.hold(ctx, batch); err != nil {
			return err
		}
		if len(batch.Items) == 0 && !batch.More {
			break
		}
	}
	for _, name := range []string{"huge", "full"} {
		var waiting, open int
		if err := b.pool.QueryRow(ctx, queries.Get("lanes_full"), name).Scan(&waiting, &open); err != nil {
			return fmt.Errorf("look at the backlog: %w", err)
		}
		if waiting == 0 || open > 0 {
			return fmt.Errorf("the backlog of %s is not what it should be: %d items wait, %d workspaces have room", name, waiting, open)
		}
	}
	return nil
}

// fillWide makes many workspaces with one item each, all of which may be claimed.
func fillWide(ctx context.Context, t *Turn, b *backlog) error {
	if _, err := AddTeams(ctx, b.pool, "single", Quickly(t, 100000, 500), 5); err != nil {
		return err
	}
	if _, err := b.pool.Exec(ctx, queries.Get("enqueue_everywhere"), "single", 1, lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	for range 20 { // until every hint is folded
		batch, _, err := b.claim(ctx, claimBatch)
		if err != nil {
			return err
		}
		if _, err := b.hold(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// Claims is what a claim costs beside a large backlog.
func Claims() *Scenario {
	open := map[string]*backlog{}
	entrant := func(name string, colour int, fill func(context.Context, *Turn, *backlog) error) Entrant {
		return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
			b := open[name]
			if b == nil {
				var err error
				if b, err = openBacklog(ctx, t, fill); err != nil {
					if b != nil {
						_ = b.db.Drop() // the error that counts is there
					}
					return err
				}
				open[name] = b
			}
			return b.measure(ctx, t)
		}}
	}
	const none, full, wide = "nothing else waits", "1,000,000 in one full, 10,000 other full", "100,000 workspaces, one item each"
	return &Scenario{
		Name: "claims", Title: "What a claim costs, by what is waiting",
		Text: "Ten inserts into 20 workspaces, then a claim of ten (the only thing timed; one connection, the product's own store), a settle, and the ends. `full` workspaces " +
			"are at their limit; those with one item each are not, and take their turns. Claims commit asynchronously here, so that the disk hides nothing.",
		Entrants: []Entrant{entrant(none, grey, nil), entrant(full, blue, fillFull), entrant(wide, green, fillWide)},
		Columns:  []Column{{"p50", "claim p50 ms"}, {"p99", "p99 ms"}},
		Charts:   []Chart{{"p50", "A claim of ten items, median", "ms"}},
		Bars: []Bar{
			{Text: "Claim p50 beside 1,000,000 items in a full workspace and 10,000 other full ones / none", Value: Key{full, "p50"}, Against: Key{none, "p50"}, Level: 2},
			{Text: "Claim p50 beside 100,000 workspaces of one item each / none", Value: Key{wide, "p50"}, Against: Key{none, "p50"}, Level: 2},
		},
		Limit: 6 * time.Minute,
		Close: func() error {
			for _, b := range open {
				if err := b.db.Drop(); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (b *backlog) measure(ctx context.Context, t *Turn) error {
	var took []time.Duration
	for n := range Quickly(t, 330, 30) {
		d, err := b.cycle(ctx)
		if err != nil {
			return err
		}
		if n >= Quickly(t, 30, 10) {
			took = append(took, d)
		}
	}
	samples := stat.Milliseconds(took)
	t.Figures["p50"], t.Figures["p99"] = stat.Percentile(samples, 0.5), stat.Percentile(samples, 0.99)
	return nil
}

// Snapshot is what claims cost after minutes of load with an old snapshot held open, which keeps every dead row.
func Snapshot() *Scenario {
	return &Scenario{
		Name: "snapshot", Title: "Claims beside an old snapshot",
		Text: "1,000 items a second are enqueued one by one, claimed and settled ten at a time, and ended: a minute as it is, five minutes while a transaction elsewhere holds a snapshot " +
			"(the last minute counts), and a minute after it has ended (the last 15 s count).",
		Entrants:  []Entrant{{Name: "pgdispatch", Colour: blue, Run: snapshotRun}},
		Columns:   []Column{{"fresh", "fresh: claim p99 ms"}, {"held", "snapshot held: p99 ms"}, {"after", "a minute after: p99 ms"}, {"rate", "items/s kept"}},
		MaxRounds: 1,
		Limit:     10 * time.Minute,
		Bars: []Bar{
			{Text: "Claim p99 after 5 minutes at 1,000 items/s beside an old snapshot / fresh", Value: Key{"pgdispatch", "held"}, Against: Key{"pgdispatch", "fresh"}, Level: 5},
			{Text: "The same a minute after the snapshot's end", Value: Key{"pgdispatch", "after"}, Against: Key{"pgdispatch", "fresh"}, Level: 1.5},
		},
	}
}

func snapshotRun(ctx context.Context, t *Turn) error {
	b, err := openBacklog(ctx, t, nil)
	if err != nil {
		if b != nil {
			_ = b.db.Drop() // the error that counts is there
		}
		return err
	}
	err = b.beside(ctx, t)
	if dropErr := b.db.Drop(); err == nil {
		err = dropErr
	}
	return err
}

func (b *backlog) beside(ctx context.Context, t *Turn) error {
	minute := Quickly(t, time.Minute, 700*time.Millisecond)
	fresh, rate, err := b.busy(ctx, minute, minute*3/4)
	if err != nil {
		return err
	}
	t.Figures["fresh"] = fresh
	tx, err := b.pool.BeginTx(ctx, repeatable)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // or the pool would wait for it for ever
	if _, err := tx.Exec(ctx, queries.Get("snapshot")); err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	held, rateHeld, err := b.busy(ctx, Quickly(t, 5*minute, minute), minute)
	if err != nil {
		return err
	}
	t.Figures["held"], t.Figures["rate"] = held, min(rate, rateHeld)
	if err := tx.Rollback(ctx); err != nil {
		return fmt.Errorf("end the snapshot: %w", err)
	}
	t.Figures["after"], _, err = b.busy(ctx, minute, minute/4)
	return err
}

// busy enqueues, claims, settles and ends a hundred batches a second, each of the three by a session of its own as in a system
// that runs, and returns the p99 of the claims in the last part of the time.
func (b *backlog) busy(ctx context.Context, duration, last time.Duration) (p99, rate float64, err error) {
	const most = 1 << 16 // batches that can wait for the next session, so that a slow one holds no other up
	enqueued, running := make(chan struct{}, most), make(chan []string, most)
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(enqueued)
		for due := began; due.Sub(began) < duration && time.Since(began) < duration; due = due.Add(10 * time.Millisecond) {
			if err := errors.Join(sleepUntil(ctx, due), b.enqueue(ctx)); err != nil {
				return err
			}
			enqueued <- struct{}{}
		}
		return nil
	})
	var took []time.Duration
	claimed, ended := 0, began
	g.Go(func() error {
		defer close(running)
		for range enqueued {
			if time.Since(began) > duration {
				return nil // what a machine that is too slow for the load has left waits on
			}
			batch, d, err := b.claim(ctx, claimBatch)
			if err != nil {
				return err
			}
			executions, err := b.hold(ctx, batch)
			if err != nil {
				return err
			}
			running <- executions
			claimed, ended = claimed+len(executions), time.Now()
			if time.Since(began) > duration-last {
				took = append(took, d)
			}
		}
		return nil
	})
	g.Go(func() error {
		for executions := range running {
			if _, err := b.pool.Exec(ctx, queries.Get("finish"), executions); err != nil {
				return fmt.Errorf("finish: %w", err)
			}
		}
		return nil
	})
	err = g.Wait()
	return stat.Percentile(stat.Milliseconds(took), 0.99), float64(claimed) / ended.Sub(began).Seconds(), err
}
