package lab

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
)

// The applications' load.
const (
	// producers is the number of concurrent producers.
	producers = 3
	// pace is the mean pause of a producer between two transactions.
	pace = 130 * time.Millisecond
	// enqueueTimeout bounds one transaction of an application.
	enqueueTimeout = 5 * time.Second
	// enough is the number of waiting items at which the producers pause, so that an outage does not become a backlog
	// for the rest of the run.
	enough = 600
	// steady is the interval of rows for a workspace whose limit, room, is large enough for stalled workflows. It
	// ensures that there is always something to start: if no workflow ends, all other workspaces are full, and a gap
	// in starts would say nothing about the replicas.
	steady, room = 200 * time.Millisecond, 300
)

// The limits of keys at the beginning: of "shared" over all workspaces, of "own" in each, and of "metered" over all, in
// two seconds. They are in audit.sql and workspace.sql.
const Shared, Own, Metered = 6, 2, 8

// Knowledge is what an application knows about the commit of a row.
type Knowledge string

const (
	// Acknowledged means that the database confirmed the commit.
	Acknowledged Knowledge = "acknowledged"
	// Unknown means that the answer was lost: the row was committed or not.
	Unknown Knowledge = "unknown"
	// RolledBack means that the row was never committed.
	RolledBack Knowledge = "rolled back"
	// Lost means that the row was acknowledged by a primary whose standby did not have it when it took over.
	Lost Knowledge = "lost"
)

// Row is a row in the application's own books.
type Row struct {
	// Execution is the execution ID, chosen by the application.
	Execution string `json:"execution"`
	// Workspace is the workspace ID.
	Workspace string `json:"workspace"`
	// Want is the status that the row must end with: COMPLETED, FAILED, or CANCELLED.
	Want string `json:"want"`
	// Or is another allowed status. Empty means none.
	Or string `json:"or,omitempty"`
	// Type is the name of the definition. Kind and Policy are the definition's, and Policy is empty unless the item names
	// its ID.
	Type   string `json:"type"`
	Kind   string `json:"kind"`
	Policy string `json:"policy,omitempty"`
	ID     string `json:"id,omitempty"`
	// Runs is how many runs its workflow has.
	Runs int `json:"runs"`
	// Known is what the application knows of the commit.
	Known Knowledge `json:"known"`
	// MostRuns is how many runs its workflow may have, if that varies.
	MostRuns int `json:"most_runs,omitempty"`
	// Counted allows a counted failure of the row itself. Foreign means that an unrelated workflow has taken its
	// workflow ID.
	Counted bool `json:"counted,omitempty"`
	Foreign bool `json:"foreign,omitempty"`
	// Sent and Answered are when the commit was sent and answered, by this machine's clock.
	Sent     time.Time `json:"sent"`
	Answered time.Time `json:"answered"`
}

// Workspace is a tenant of the run.
type Workspace struct {
	// ID and Name are those of its row.
	ID, Name string
	// Limit is how many workflows it may run at the same time. Elastic means that faults change the limit. Bursts means
	// that Limit is its burst limit, and its limit half of that.
	Limit   int
	Bursts  bool
	Elastic bool
	// Rate is how many items it may start per second. Zero means no limit.
	Rate float64

	weight      int
	definitions map[string]string // IDs by name
}

// Guaranteed returns how many workflows it may run whatever other workspaces do.
func (w *Workspace) Guaranteed() int {
	if w.Bursts {
		return w.Limit / 2
	}
	return w.Limit
}

// Load simulates applications: they enqueue, and keep books.
type Load struct {
	// Workspaces are the tenants.
	Workspaces []*Workspace
	// Roomy is a workspace that the load never fills, so that how long one of its items waits tells of nothing else.
	Roomy *Workspace

	lab    *Lab
	pool   *pgxpool.Pool
	file   *os.File
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	rows     map[string]*Row
	signals  map[string]*Signalled
	calls    []audit.Call
	pushes   []Pushed
	paused   bool
	waiting  int
	underWay int
}

// tenants are the workspaces and their shares of the load.
var tenants = []Workspace{
	{Name: "free-1", Limit: 1, weight: 1}, {Name: "free-2", Limit: 1, weight: 1}, {Name: "free-3", Limit: 1, weight: 1},
	{Name: "pro-1", Limit: 5, weight: 5}, {Name: "pro-2", Limit: 5, weight: 5}, {Name: "pro-3", Limit: 5, weight: 3},
	{Name: "enterprise-1", Limit: 20, weight: 8}, {Name: "enterprise-2", Limit: 20, weight: 3},
	{Name: "rated", Limit: 5, Rate: 5, weight: 2},
	{Name: "elastic", Limit: 4, Elastic: true, weight: 3}, {Name: "bursting", Limit: 6, Bursts: true, weight: 3},
}

func newLoad(ctx context.Context, l *Lab) (*Load, error) {
	o := &Load{lab: l, rows: map[string]*Row{}, signals: map[string]*Signalled{}}
	var err error
	address := postgres.URL(l.App.Address, Database) + "&application_name=application&pool_max_conns=12"
	if o.pool, err = pgxpool.New(ctx, address); err != nil {
		return nil, fmt.Errorf("open applications' pool: %w", err)
	}
	if o.file, err = os.Create(filepath.Join(l.Dir, "rows.jsonl")); err != nil {
		return nil, fmt.Errorf("open applications' books: %w", err)
	}
	for _, tenant := range tenants {
		w := tenant
		plan, override, burst := strings.ToUpper(strings.TrimRight(w.Name, "-0123456789")), any(nil), any(nil)
		rate := any(nil)
		switch {
		case w.Rate > 0:
			plan, rate = "PRO", w.Rate
		case w.Elastic:
			plan, override = "PRO", w.Limit
		case w.Bursts:
			plan, override, burst = "PRO", w.Guaranteed(), w.Limit
		}
		if err := l.Row(ctx, "workspace", []any{w.Name, plan, override, burst, rate}, &w.ID); err != nil {
			return nil, err
		}
		if w.definitions, err = define(ctx, &l.Store, w.ID); err != nil {
			return nil, err
		}
		o.Workspaces = append(o.Workspaces, &w)
	}
	o.Roomy, err = o.AddWorkspace(ctx, "roomy", room)
	return o, err
}

// Begin starts the producers.
func (o *Load) Begin(ctx context.Context, seed uint64) {
	ctx, o.cancel = context.WithCancel(ctx)
	for n := range producers {
		rng := rand.New(rand.NewPCG(seed, uint64(n)+1))
		o.group.Go(func() {
			for ctx.Err() == nil {
				wait := time.Duration(rng.ExpFloat64() * float64(pace))
				if !o.begins(enough) {
					wait = pace
				} else if err := o.ended(o.transaction(ctx, rng)); err != nil {
					wait = 2 * pace
				}
				_ = Sleep(ctx, wait)
			}
		})
	}
	o.group.Go(func() {
		for ; ctx.Err() == nil; _ = Sleep(ctx, steady) {
			if o.begins(math.MaxInt) { // however many wait in the other workspaces
				_ = o.ended(o.InsertMany(ctx, o.Roomy, 1, 0))
			}
		}
	})
	o.group.Go(func() { o.watch(ctx) })
}

// watch polls the number of waiting items, so that the producers know when to pause.
func (o *Load) watch(ctx context.Context) {
	for ctx.Err() == nil {
		var open int
		var oldest []string
		bounded, cancel := context.WithTimeout(ctx, queryTimeout)
		err := o.lab.db.QueryRow(bounded, Query("open_items")).Scan(&open, &oldest)
		cancel()
		if err == nil {
			o.mu.Lock()
			o.waiting = open
			o.mu.Unlock()
		}
		_ = Sleep(ctx, time.Second)
	}
}

// begins reports whether a producer may begin a transaction: while no more than so many items wait. If so, it counts as
// under way until ended is called.
func (o *Load) begins(most int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paused || o.waiting > most {
		return false
	}
	o.underWay++
	return true
}

func (o *Load) ended(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.underWay--
	return err
}

// still reports whether the producers are paused and no transaction is under way that could yet commit.
func (o *Load) still() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paused && o.underWay == 0
}

// Pause pauses or resumes the producers. Transactions that are under way are finished: see Drain.
func (o *Load) Pause(pause bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paused = pause
}

// End stops the producers and waits for their transactions.
func (o *Load) End() {
	if o.cancel != nil {
		o.cancel()
	}
	o.group.Wait()
}

func (o *Load) close() {
	o.End()
	o.pool.Close()
	_ = o.file.Close()
}

// Rows returns the applications' books.
func (o *Load) Rows() []Row {
	o.mu.Lock()
	defer o.mu.Unlock()
	rows := make([]Row, 0, len(o.rows))
	for _, row := range o.rows {
		rows = append(rows, *row)
	}
	return rows
}
