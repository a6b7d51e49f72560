package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/queries"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

// How much applications do.
const (
	// producers is how many enqueue at the same time.
	producers = 3
	// pace is how long a producer waits between two transactions, on average.
	pace = 130 * time.Millisecond
	// enqueueTimeout bounds one transaction of an application.
	enqueueTimeout = 5 * time.Second
	// enough is how many items may wait before the producers pause: an outage must not become a backlog for the rest of the run.
	enough = 600
	// steady is how often a row comes of a workspace that has room for what stalls, so that there is always something to start:
	// where no workflow ends, all others are full, and that nothing starts is then nobody's fault.
	steady, room = 200 * time.Millisecond, 300
)

// Knowledge is what an application knows of a row that it inserted.
type Knowledge string

const (
	// Acknowledged rows were committed, says the database.
	Acknowledged Knowledge = "acknowledged"
	// Unknown rows were committed or not: the answer was lost.
	Unknown Knowledge = "unknown"
	// RolledBack rows were never committed.
	RolledBack Knowledge = "rolled back"
	// Lost rows were acknowledged by a primary whose standby did not have them when it took over.
	Lost Knowledge = "lost"
)

// Row is a row in the application's own books.
type Row struct {
	// Execution is its execution ID, chosen by the application.
	Execution string `json:"execution"`
	// Workspace is whose it is.
	Workspace string `json:"workspace"`
	// Want is how it must end: COMPLETED, FAILED, or CANCELLED.
	Want string `json:"want"`
	// Or is how it may end as well, where a cancellation was not answered; empty: no other way.
	Or string `json:"or,omitempty"`
	// Type is its workflow's.
	Type string `json:"type"`
	// Known is what the application knows of its commit.
	Known Knowledge `json:"known"`
	// Counted: a failure of its own is right. Foreign: its workflow ID is taken by a stranger's workflow.
	Counted bool `json:"counted,omitempty"`
	Foreign bool `json:"foreign,omitempty"`
	// Sent and Answered are when the commit was sent and answered, by this machine's clock.
	Sent     time.Time `json:"sent"`
	Answered time.Time `json:"answered"`
}

// Workspace is a tenant of the run.
type Workspace struct {
	// ID and Name are its row's.
	ID, Name string
	// Limit is how many workflows it may run at once. Elastic: the faults change it.
	Limit   int
	Elastic bool

	weight      int
	definitions map[string]string // name -> ID
}

// Load is what applications do: they enqueue, and keep books.
type Load struct {
	// Workspaces are the tenants.
	Workspaces []*Workspace

	lab    *Lab
	spare  *Workspace
	pool   *pgxpool.Pool
	file   *os.File
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	rows     map[string]*Row
	paused   bool
	waiting  int
	underWay int
}

// tenants are the workspaces, and how much of the load is whose.
var tenants = []Workspace{
	{Name: "free-1", Limit: 1, weight: 1}, {Name: "free-2", Limit: 1, weight: 1}, {Name: "free-3", Limit: 1, weight: 1},
	{Name: "pro-1", Limit: 5, weight: 5}, {Name: "pro-2", Limit: 5, weight: 5}, {Name: "pro-3", Limit: 5, weight: 3},
	{Name: "enterprise-1", Limit: 20, weight: 8}, {Name: "enterprise-2", Limit: 20, weight: 3},
	{Name: "elastic", Limit: 4, Elastic: true, weight: 3},
}

func newLoad(ctx context.Context, l *Lab) (*Load, error) {
	o := &Load{lab: l, rows: map[string]*Row{}}
	var err error
	if o.pool, err = pgxpool.New(ctx, postgres.URL(l.App.Address, Database)+"&application_name=application&pool_max_conns=12"); err != nil {
		return nil, fmt.Errorf("open applications' pool: %w", err)
	}
	if o.file, err = os.Create(filepath.Join(l.Dir, "rows.jsonl")); err != nil {
		return nil, fmt.Errorf("open applications' books: %w", err)
	}
	for _, tenant := range tenants {
		w := tenant
		plan, override := strings.ToUpper(strings.TrimRight(w.Name, "-0123456789")), any(nil)
		if w.Elastic {
			plan, override = "PRO", w.Limit
		}
		if err := l.Row(ctx, "workspace", []any{w.Name, plan, override}, &w.ID); err != nil {
			return nil, err
		}
		if err := o.define(ctx, &w); err != nil {
			return nil, err
		}
		o.Workspaces = append(o.Workspaces, &w)
	}
	o.spare, err = o.AddWorkspace(ctx, "spare", room)
	return o, err
}

// timesOut is a definition whose workflow ends by its execution timeout, and probe one whose workflow ends when told to.
const (
	timesOut = "TimesOut"
	probe    = "Probe"
)

func (o *Load) define(ctx context.Context, w *Workspace) error {
	w.definitions = map[string]string{}
	for _, d := range []struct {
		name, workflow string
		timeout        any
	}{
		{temporal.Work, temporal.Work, nil}, {temporal.Fail, temporal.Fail, nil}, {temporal.Again, temporal.Again, nil},
		{temporal.Any, temporal.Any, nil},
		{timesOut, temporal.Hold, "1 second"}, {probe, temporal.Hold, nil},
	} {
		var id string
		if err := o.lab.Row(ctx, "definition", []any{w.ID, d.name, d.workflow, temporal.TaskQueue, d.timeout}, &id); err != nil {
			return err
		}
		w.definitions[d.name] = id
	}
	return nil
}

// Begin starts the producers.
func (o *Load) Begin(ctx context.Context, seed uint64) {
	ctx, o.cancel = context.WithCancel(ctx)
	for n := range producers {
		rng := rand.New(rand.NewPCG(seed, uint64(n)+1))
		o.group.Go(func() {
			for ctx.Err() == nil {
				wait := time.Duration(rng.ExpFloat64() * float64(pace))
				if !o.begins() {
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
			if o.begins() {
				_ = o.ended(o.InsertMany(ctx, o.spare, 1, 0))
			}
		}
	})
	o.group.Go(func() { o.watch(ctx) })
}

// watch looks how much waits, so that the producers know when it is enough.
func (o *Load) watch(ctx context.Context) {
	for ctx.Err() == nil {
		var open int
		var oldest []string
		bounded, cancel := context.WithTimeout(ctx, queryTimeout)
		err := o.lab.db.QueryRow(bounded, queries.Get("open_items")).Scan(&open, &oldest)
		cancel()
		if err == nil {
			o.mu.Lock()
			o.waiting = open
			o.mu.Unlock()
		}
		_ = Sleep(ctx, time.Second)
	}
}

// begins says whether a producer may begin a transaction. If so, it is under way until it has ended.
func (o *Load) begins() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paused || o.waiting > enough {
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

// still says that the producers are paused, and none has a transaction that could yet be committed.
func (o *Load) still() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paused && o.underWay == 0
}

// Pause has the producers begin nothing more, or go on. What they have under way they finish: see Drain.
func (o *Load) Pause(pause bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paused = pause
}

// End stops the producers and waits for what they have under way.
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

// Rows are the applications' books.
func (o *Load) Rows() []Row {
	o.mu.Lock()
	defer o.mu.Unlock()
	rows := make([]Row, 0, len(o.rows))
	for _, row := range o.rows {
		rows = append(rows, *row)
	}
	return rows
}

// How a transaction ends.
type ending int

const (
	autocommit ending = iota
	commit
	rollBack
)

// batch is what one transaction inserts.
type batch struct {
	load       *Load
	workspace  *Workspace
	definition string
	items      int
	priority   int
	delay      time.Duration
	millis     int
	executions []string
	params     string // empty: how long the workflow takes
}

// enqueue inserts the batch, stays open for a while where it is told to, and keeps the books.
func (b *batch) enqueue(ctx context.Context, how ending, open time.Duration) error {
	// What has begun is finished: a producer that is told to stop must still learn how its commit ended.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), enqueueTimeout+open, errors.New("enqueueing took too long"))
	defer cancel()
	for range b.items {
		b.executions = append(b.executions, uuid.NewString())
	}
	params := cmp.Or(b.params, fmt.Sprintf(`{"ms": %d}`, b.millis))
	arguments := []any{b.workspace.ID, b.workspace.definitions[b.definition], b.executions, params, b.priority, b.delay}
	sent := time.Now()
	if how == autocommit {
		_, err := b.load.pool.Exec(ctx, queries.Get("enqueue"), arguments...)
		b.note(sent, outcome(err))
		return err
	}
	tx, err := b.load.pool.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, queries.Get("enqueue"), arguments...); err == nil && open > 0 {
		err = Sleep(ctx, open)
	}
	if err != nil || how == rollBack {
		b.note(sent, RolledBack)
		return errors.Join(err, tx.Rollback(ctx))
	}
	sent = time.Now()
	err = tx.Commit(ctx)
	b.note(sent, outcome(err))
	return err
}

// outcome is what an error of a commit says about it. A refusal says that it did not happen; anything else, also that the
// session was ended, says nothing.
func outcome(err error) Knowledge {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return Acknowledged
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return RolledBack
	case errors.As(err, &refused) && !strings.HasPrefix(refused.Code, "57") && !strings.HasPrefix(refused.Code, "08"):
		return RolledBack
	default:
		return Unknown
	}
}

func (b *batch) note(sent time.Time, known Knowledge) {
	o := b.load
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, execution := range b.executions {
		row := &Row{Execution: execution, Workspace: b.workspace.ID, Want: wants(b.definition), Type: b.definition,
			Known: known, Sent: sent, Answered: time.Now()}
		o.rows[execution] = row
		if line, err := json.Marshal(row); err == nil {
			_, _ = o.file.Write(append(line, '\n'))
		}
	}
}

// withdraw cancels an item, if it is not too late.
func (o *Load) withdraw(ctx context.Context, execution string) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), enqueueTimeout, errors.New("cancelling took too long"))
	defer cancel()
	var done bool
	err := o.pool.QueryRow(ctx, queries.Get("cancel"), execution).Scan(&done)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch row := o.rows[execution]; {
	case err != nil:
		row.Or = "CANCELLED"
	case done:
		row.Want = "CANCELLED"
	}
	return err
}
