package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// claimBatch is how many items each measured claim takes.
const claimBatch = 10

// backlog is a database with many waiting items, and a store that claims from it on connections configured like a
// replica's. It is made once and used in every round.
type backlog struct {
	db     *lab.Database
	pool   *pgxpool.Pool
	claims *pgxpool.Pool // the store's
	store  *claim.Store
	teams  []Team
	// statement inserts a measured item. Empty means one without a limit key.
	statement string
}

// openBacklog creates a database and fills it. Its claims commit asynchronously, so that the claims are measured and
// not the disk.
func openBacklog(ctx context.Context, t *Turn, fill func(context.Context, *Turn, *backlog) error) (*backlog, error) {
	db, err := t.Database(ctx, lab.Ours, map[string]string{"synchronous_commit": "off"})
	if err != nil {
		return nil, err
	}
	b := &backlog{db: db, pool: db.Pool}
	if b.claims, err = storePool(ctx, db.URL); err != nil {
		return b, err
	}
	b.store = &claim.Store{Pool: b.claims, Owner: "bench", Lease: 5 * time.Minute}
	if b.teams, err = Teams(ctx, b.pool); err != nil {
		return b, err
	}
	if _, err := b.pool.Exec(ctx, lab.Query("settings"), lab.NoLimit, false); err != nil {
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

// storePool opens a single connection with the settings of a replica's connections.
func storePool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	config.MaxConns = 1
	maps.Copy(config.ConnConfig.RuntimeParams, postgres.Planning)
	config.ConnConfig.RuntimeParams["lock_timeout"] = claim.ClaimLockTimeout.String()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return pool, nil
}

// close drops the database.
func (b *backlog) close() error {
	if b.claims != nil {
		b.claims.Close()
	}
	return b.db.Drop()
}

// backlogs are the backlogs of a scenario, by entrant.
type backlogs map[string]*backlog

// entrant measures against a backlog that it creates in its first turn.
func (all backlogs) entrant(
	name string, colour int, fill func(context.Context, *Turn, *backlog) error,
	measure func(*backlog, context.Context, *Turn) error,
) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		if all[name] == nil {
			b, err := openBacklog(ctx, t, fill)
			if err != nil {
				if b != nil {
					_ = b.close() // the first error is the one to report
				}
				return err
			}
			all[name] = b
		}
		return measure(all[name], ctx, t)
	}}
}

func (all backlogs) close() error {
	var errs []error
	for _, b := range all {
		errs = append(errs, b.close())
	}
	return errors.Join(errs...)
}

// claim reads what has changed, claims once, and returns how long both took.
func (b *backlog) claim(ctx context.Context, atMost int) (claim.Batch, time.Duration, error) {
	began := time.Now()
	batch, err := b.store.Claim(ctx, atMost)
	return batch, time.Since(began), err
}

// hold settles the claimed items as dispatched and leaves their workflows running.
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

// enqueue inserts a batch, one transaction per item.
func (b *backlog) enqueue(ctx context.Context) error {
	for range claimBatch {
		team := b.teams[rand.IntN(len(b.teams))]
		var err error
		if b.statement == "" {
			_, err = b.pool.Exec(ctx, lab.Query("enqueue_many"), team.Workspace, team.Definition, 1, lab.Params)
		} else {
			_, err = b.pool.Exec(ctx, lab.Query(b.statement), team.Workspace, team.Definition, lab.Params)
		}
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}

// cycle enqueues a batch, claims as many items, settles them and ends them: a busy dispatcher's steady state. It
// returns how long each claim took. One claim may return fewer items than requested, because a store may not know how
// many items wait in a workspace; cycle claims until the batch is complete.
func (b *backlog) cycle(ctx context.Context) (took []time.Duration, err error) {
	if err := b.enqueue(ctx); err != nil {
		return nil, err
	}
	for left := claimBatch; left > 0; {
		batch, d, err := b.claim(ctx, left)
		if err != nil {
			return nil, err
		}
		if took = append(took, d); len(took) > claimBatch {
			return nil, fmt.Errorf("%d claims of %d left %d", len(took), claimBatch, left)
		}
		executions, err := b.hold(ctx, batch)
		if err != nil {
			return nil, err
		}
		if _, err := b.pool.Exec(ctx, lab.Query("finish"), executions); err != nil {
			return nil, fmt.Errorf("finish: %w", err)
		}
		left -= len(batch.Items)
	}
	return took, nil
}

// total returns the sum of the claims' durations.
func total(took []time.Duration) (sum time.Duration) {
	for _, d := range took {
		sum += d
	}
	return sum
}
