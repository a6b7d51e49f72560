package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	// costWarmUps is how many claims are not counted. They plan the statements and read the data for the first time.
	costWarmUps = 20
	// backendRests is how long a backend is left idle before its CPU time is read, so that the kernel's count is
	// complete.
	backendRests = 200 * time.Microsecond
)

// ClaimCost measures the CPU time of claims in the backend that executes them.
func ClaimCost() *Scenario {
	return &Scenario{
		Name: "claimcost", Title: "What a claim and a settle cost the database",
		Text: "The CPU time of the backend that claims and settles, by the kernel's count: an insert by another session, a " +
			"claim by the product's own store, which a notification has told of the insert, and a settle of the claimed " +
			"items. Microseconds per item, the median of 1,500 claims of one item and of 60 claims of a hundred.",
		Entrants:  []Entrant{costing("one item", 1, 1500), costing("100 items", 100, 60)},
		Columns:   []Column{{"claim", "claim µs"}, {"settle", "settle µs"}, {"all", "both µs"}},
		MaxRounds: 5,
	}
}

func costing(name string, items, rounds int) Entrant {
	return Entrant{Name: name, Colour: blue, Run: func(ctx context.Context, t *Turn) (err error) {
		c, err := openCosted(ctx, t)
		if c != nil {
			defer func() { err = errors.Join(err, c.close()) }()
		}
		if err != nil {
			return err
		}
		for n := range Quickly(t, rounds, 5) + costWarmUps {
			if err := c.once(ctx, items, n >= costWarmUps); err != nil {
				return fmt.Errorf("claim %d: %w", n, err)
			}
		}
		t.Figures["claim"], t.Figures["settle"], t.Figures["all"] = stat.Median(c.claims), stat.Median(c.settles),
			stat.Median(c.both)
		return nil
	}}
}

// costed is a schema whose claims are measured.
type costed struct {
	db      *lab.Database
	pool    *pgxpool.Pool // one connection, whose backend is counted
	backend uint32
	team    Team

	claim  func(ctx context.Context, items int, since time.Time) (ids, tokens []int64, err error)
	settle func(ctx context.Context, ids, tokens []int64) (settled int, err error)

	claims, settles, both []float64 // µs per item
}

func openCosted(ctx context.Context, t *Turn) (*costed, error) {
	db, err := t.Database(ctx, lab.Ours, nil)
	if err != nil {
		return nil, err
	}
	c := &costed{db: db}
	if c.pool, err = storePool(ctx, db.URL); err != nil {
		return c, err
	}
	err = c.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		c.backend = conn.Conn().PgConn().PID()
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("connect: %w", err)
	}
	teams, err := Teams(ctx, db.Pool)
	if err != nil {
		return c, err
	}
	c.team = teams[0]
	if _, err := db.Pool.Exec(ctx, lab.Query("settings"), lab.NoLimit, false); err != nil {
		return c, fmt.Errorf("set W: %w", err)
	}
	return c, c.byStore(ctx)
}

func (c *costed) close() error {
	if c.pool != nil {
		c.pool.Close()
	}
	return c.db.Drop()
}

// once inserts items, claims them and settles them.
func (c *costed) once(ctx context.Context, items int, counts bool) error {
	since := time.Now().Add(-backendRests) // both times are of this machine's clock
	if _, err := c.db.Pool.Exec(ctx, lab.Query("enqueue_many"), c.team.Workspace, c.team.Definition, items,
		lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	var ids, tokens []int64
	claimed, err := c.counted(func() (err error) {
		ids, tokens, err = c.claim(ctx, items, since)
		return err
	})
	if err != nil {
		return err
	}
	if len(ids) != items {
		return fmt.Errorf("a claim of %d got %d", items, len(ids))
	}
	var settled int
	ended, err := c.counted(func() (err error) {
		settled, err = c.settle(ctx, ids, tokens)
		return err
	})
	if err != nil {
		return err
	}
	if settled != items {
		return fmt.Errorf("a settle of %d settled %d", items, settled)
	}
	if counts {
		each := 1000 * float64(items) // nanoseconds for all items
		c.claims = append(c.claims, float64(claimed)/each)
		c.settles = append(c.settles, float64(ended)/each)
		c.both = append(c.both, float64(claimed+ended)/each)
	}
	return nil
}

// counted returns the CPU time that the backend uses while do runs.
func (c *costed) counted(do func() error) (time.Duration, error) {
	before, err := lab.BackendCPU(c.backend)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	time.Sleep(backendRests)
	after, err := lab.BackendCPU(c.backend)
	return after - before, err
}

// byStore claims and settles as a replica does that sleeps until it is notified.
func (c *costed) byStore(ctx context.Context) error {
	store := &claim.Store{Pool: c.pool, Owner: "bench", Lease: time.Minute, Namespace: "default"}
	var number int64
	if err := c.db.Pool.QueryRow(ctx, lab.Query("wake_number"), c.team.Workspace).Scan(&number); err != nil {
		return fmt.Errorf("read a workspace: %w", err)
	}
	looked := false
	c.claim = func(ctx context.Context, items int, since time.Time) (ids, tokens []int64, err error) {
		batch, _, err := store.SettleAndClaim(ctx, nil, claim.Wanted{AtMost: items, Quiet: true, Look: !looked,
			Named: []string{fmt.Sprintf("%d:0:%d", number, since.UnixMicro())}})
		looked = true
		for _, item := range batch.Items {
			ids, tokens = append(ids, item.ID), append(tokens, item.Token)
		}
		return ids, tokens, err
	}
	c.settle = func(ctx context.Context, ids, tokens []int64) (int, error) {
		settlements := make([]claim.Settlement, len(ids))
		for n := range ids {
			settlements[n] = claim.Settlement{Verb: claim.Dispatched, ID: ids[n], Token: tokens[n], RunID: runID}
		}
		settled, err := store.Settle(ctx, claim.Dispatched, settlements)
		return len(settled), err
	}
	return nil
}

// runID has the length of Temporal's run IDs.
const runID = "0191f3f2-aaaa-7bbb-8ccc-0123456789ab"
