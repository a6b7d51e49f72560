package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

const (
	// maxClaims is W, less than all workers together.
	maxClaims = 8
	// pace is the mean time between two items of a producer.
	pace = 160 * time.Millisecond
	// steady is the time between two items of the workspace that is never full.
	steady = 100 * time.Millisecond
	// enough is how many waiting items make the producers pause, so that a slow machine drains them in time.
	enough = 40
	// patience bounds each wait. A workflow task that was frozen with Temporal is repeated after 10 s.
	patience = 2 * time.Minute
)

// tenant is a workspace.
type tenant struct {
	name, plan string
	limit      int    // how many of its items may hold slots
	key        string // limit key of its items, of which at most keyLimit may hold slots
	id         string
}

const keyLimit = 2

func tenants() []*tenant {
	return []*tenant{
		{name: "free", plan: "FREE", limit: 1}, {name: "pro", plan: "PRO", limit: 5}, {name: "enterprise",
			plan: "ENTERPRISE", limit: 20},
		{name: "keyed", plan: "PRO", limit: 5, key: "region"}, {name: "bursting", plan: "FREE", limit: 4},
	}
}

// Workflow types, which are also the names of their definitions.
const (
	work    = "Work"    // takes a while
	fails   = "Fails"   // fails
	again   = "Again"   // continues as a second run, which completes
	collect = "Collect" // returns what its signals bring
	forever = "Forever" // ends when it is cancelled
	late    = "Late"    // has no version at first, so its items fail and are replayed
)

type input struct {
	Params json.RawMessage `json:"params"`
}

var workflows = map[string]any{
	work: func(ctx workflow.Context, _ input) error {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: patience})
		return workflow.ExecuteLocalActivity(ctx, func(ctx context.Context) error {
			return pause(ctx,
				200*time.Millisecond)
		}).Get(ctx, nil)
	},
	fails: func(workflow.Context, input) error {
		return temporal.NewNonRetryableApplicationError("as it should", "Deliberate", errors.New("it is told to"))
	},
	again: func(ctx workflow.Context, in input) error {
		if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
			return workflow.NewContinueAsNewError(ctx, again, in)
		}
		return nil
	},
	collect: func(ctx workflow.Context, _ input) (all []int, err error) {
		for signals := workflow.GetSignalChannel(ctx, "add"); ; {
			var n int
			if signals.Receive(ctx, &n); n < 0 {
				return all, nil
			}
			all = append(all, n)
		}
	},
	forever: func(ctx workflow.Context, _ input) error {
		ctx.Done().Receive(ctx, nil)
		return ctx.Err()
	},
	late: func(workflow.Context, input) error { return nil },
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// item is what an application knows about an item that it has enqueued.
type item struct {
	tenant   *tenant
	workflow string
}

// shop is a database with applications and a Temporal server with their worker.
type shop struct {
	t          *testing.T
	url        string
	dispatcher string // URL for replicas, whose role has no other rights
	dir        string
	db         *pgxpool.Pool
	temporal   *stack.Temporal
	client     client.Client
	tenants    []*tenant
	steady     *tenant

	mu    sync.Mutex
	items map[string]item // by execution ID
}

// newShop opens a shop on a database that the build has created.
func newShop(t *testing.T, b build) *shop {
	t.Helper()
	s := &shop{t: t, url: sqltest.EmptyURL(t), dir: t.TempDir(), tenants: tenants(), items: map[string]item{},
		steady: &tenant{name: "steady", plan: "ENTERPRISE", limit: 1000}}
	require.NoError(t, b.pgdispatch(s.url, "migrate", "up"))
	s.dispatcher = sqltest.Login(t, s.url, "in role pgdispatch_dispatcher")
	s.db = sqltest.Pool(t, s.url+"&pool_max_conns=20")
	audit, err := os.ReadFile(filepath.Join(checkout, "testdata", "audit.sql"))
	require.NoError(t, err)
	s.exec(string(audit))
	s.exec("update pgdispatch.settings set max_claims = $1", maxClaims)

	s.temporal, err = stack.StartTemporal(checkout, s.dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.temporal.Process().Kill() })
	s.client, err = s.temporal.Client()
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	w := worker.New(s.client, "shop", worker.Options{})
	for name, function := range workflows {
		w.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	for _, tenant := range append(s.tenants, s.steady) {
		s.open(tenant)
	}
	return s
}

// open adds a workspace with its definitions and limits.
func (s *shop) open(w *tenant) {
	s.t.Helper()
	w.id = one[string](s, "insert into pgdispatch.workspaces (name, plan) values ($1, $2) returning id::text", w.name,
		w.plan)
	s.exec(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
		select $1, n, n, 'shop' from unnest($2::text[]) n`, w.id, []string{work, fails, again, collect, forever, late})
	s.exec(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select id, 1, '{"nodes": []}' from pgdispatch.workflow_definitions where workspace_id = $1 and name <> $2`, w.id,
		late)
	switch {
	case w.name == "bursting":
		s.exec("update pgdispatch.workspaces set max_burst_workflows = $2 where id = $1", w.id, w.limit)
	case w.key != "":
		s.exec("insert into pgdispatch.limits (workspace_id, key, max_concurrent) values ($1, $2, $3)", w.id, w.key, keyLimit)
	case w == s.steady:
		s.exec("update pgdispatch.workspaces set max_concurrent_workflows = $2 where id = $1", w.id, w.limit)
	}
}

func (s *shop) exec(statement string, args ...any) {
	s.t.Helper()
	_, err := s.db.Exec(context.Background(), statement, args...)
	require.NoError(s.t, err)
}

func one[T any](s *shop, query string, args ...any) (value T) {
	s.t.Helper()
	require.NoError(s.t, s.db.QueryRow(context.Background(), query, args...).Scan(&value))
	return value
}

// eventually polls a condition in the database or in Temporal.
func (s *shop) eventually(condition func() bool, message string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); {
		require.True(s.t, time.Now().Before(deadline), "not within %s: %s", patience, message)
		_ = pause(context.Background(), 10*time.Millisecond)
	}
}

// load produces load until the returned function is called, which returns the first error of an application.
func (s *shop) load() (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	s.t.Cleanup(group.Wait) // if the test fails before the end
	s.t.Cleanup(cancel)
	failed := make(chan error, 1)
	report := func(err error) {
		if err != nil && ctx.Err() == nil {
			select {
			case failed <- err:
			default:
			}
		}
	}
	for _, w := range s.tenants {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if waiting, err := s.waiting(ctx); err != nil || waiting > enough {
					report(err)
				} else {
					report(s.application(ctx, &group, w, n))
				}
				_ = pause(ctx, rand.N(2*pace))
			}
		})
	}
	group.Go(func() {
		for ; ctx.Err() == nil; _ = pause(ctx, steady) {
			_, err := s.enqueue(ctx, s.steady, work, 0)
			report(err)
		}
	})
	return func() error {
		cancel()
		group.Wait()
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	}
}

func (s *shop) waiting(ctx context.Context) (n int, err error) {
	err = s.db.QueryRow(ctx, "select count(*) from pgdispatch.workflow_execution_queue where stage = 'WAITS'").Scan(&n)
	return n, err
}

// application enqueues the nth item of a workspace, and does what belongs to it.
func (s *shop) application(ctx context.Context, group *sync.WaitGroup, w *tenant, n int) error {
	const signals = 4
	switch n % 10 {
	case 2:
		_, err := s.enqueue(ctx, w, fails, 0)
		return err
	case 4:
		_, err := s.enqueue(ctx, w, again, 0)
		return err
	case 6: // signals before its start, in its transaction, and then while it waits or runs
		execution, err := s.enqueue(ctx, w, collect, 2)
		group.Go(func() {
			// Not cancelled with the load: the workflow would wait for ever.
			for n := 2; err == nil && n <= signals; n++ {
				_ = pause(ctx, rand.N(time.Second))
				if n == signals {
					n = -1
				}
				if _, err := s.db.Exec(context.Background(), addSignal, execution, n); err != nil {
					s.t.Error(err)
				}
				if n < 0 {
					return
				}
			}
		})
		return err
	case 8:
		execution, err := s.enqueue(ctx, w, forever, 0)
		if err == nil {
			_, err = s.db.Exec(context.Background(), "select pgdispatch.request_cancel($1, 'enough')", execution)
		}
		return err
	case 9:
		if n < 20 {
			_, err := s.enqueue(ctx, w, late, 0)
			return err
		}
	}
	_, err := s.enqueue(ctx, w, work, 0)
	return err
}

const addSignal = "select pgdispatch.signal($1, 'add', to_jsonb($2::integer))"

// enqueue inserts an item, with so many signals in the same transaction, and returns its execution ID.
func (s *shop) enqueue(ctx context.Context, w *tenant, workflow string, signals int) (execution string, err error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	ctx = context.Background() // whether it commits must be known
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit it does nothing
	const insert = `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key)
		select workspace_id, id, nullif($3, '') from pgdispatch.workflow_definitions where workspace_id = $1 and name = $2
		returning execution_id::text`
	if err := tx.QueryRow(ctx, insert, w.id, workflow, w.key).Scan(&execution); err != nil {
		return "", fmt.Errorf("enqueue: %w", err)
	}
	for n := range signals {
		if _, err := tx.Exec(ctx, addSignal, execution, n); err != nil {
			return "", fmt.Errorf("signal: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[execution] = item{w, workflow}
	return execution, nil
}

// burst enqueues many items at once in the workspace that is never full, so that every replica gets some. It waits for
// those of the last burst.
func (s *shop) burst() {
	s.t.Helper()
	if one[int](s, `select count(*) from pgdispatch.workflow_execution_queue
		where workspace_id = $1 and status not in ('COMPLETED', 'FAILED')`, s.steady.id) > atOnce {
		return
	}
	const insert = `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select d.workspace_id, d.id from pgdispatch.workflow_definitions d, generate_series(1, $3)
		where d.workspace_id = $1 and d.name = $2 returning execution_id::text`
	rows, err := s.db.Query(context.Background(), insert, s.steady.id, work, atOnce)
	require.NoError(s.t, err)
	executions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, execution := range executions {
		s.items[execution] = item{s.steady, work}
	}
}

// replayLate gives the definitions their version and replays their failed items, once there are some. It returns how
// many.
func (s *shop) replayLate() int {
	s.t.Helper()
	s.exec(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select id, 1, '{"nodes": []}' from pgdispatch.workflow_definitions where name = $1`, late)
	replayed := one[int](s, `select count(pgdispatch.replay(d.execution_id, 'test')) from pgdispatch.dead_letters d
		join pgdispatch.workflow_definitions f on f.id = d.workflow_definition_id where f.name = $1`, late)
	require.Positive(s.t, replayed)
	return replayed
}
