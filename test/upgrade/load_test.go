package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
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
	pace = 80 * time.Millisecond
	// steady is the time between two items of the workspace that is never full.
	steady = 50 * time.Millisecond
	// enough is how many waiting items make the producers pause, so that a slow machine drains them in time.
	enough = 100
	// patience bounds each wait.
	patience = time.Minute
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
		{name: "free", plan: "FREE", limit: 1}, {name: "pro", plan: "PRO", limit: 5}, {name: "enterprise", plan: "ENTERPRISE", limit: 20},
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
		return workflow.ExecuteLocalActivity(ctx, func(ctx context.Context) error { return pause(ctx, 200*time.Millisecond) }).Get(ctx, nil)
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
	t        *testing.T
	url, dir string
	db       *pgxpool.Pool
	temporal *stack.Temporal
	client   client.Client
	tenants  []*tenant
	steady   *tenant

	mu    sync.Mutex
	items map[string]item // by execution ID
}

// newShop opens a shop on a database that the build has created.
func newShop(t *testing.T, b build) *shop {
	t.Helper()
	s := &shop{t: t, url: sqltest.EmptyURL(t), dir: t.TempDir(), tenants: tenants(), items: map[string]item{},
		steady: &tenant{name: "steady", plan: "ENTERPRISE", limit: 1000}}
	require.NoError(t, b.pgdispatch(s.url, "migrate", "up"))
	s.db = sqltest.Pool(t, s.url+"&pool_max_conns=20")
	audit, err := os.ReadFile(filepath.Join(checkout, "testdata", "audit.sql"))
	require.NoError(t, err)
	s.exec(string(audit))
	s.exec("update pgdispatch.settings set max_claims = $1", maxClaims)

	s.temporal = &stack.Temporal{Binary: filepath.Join(checkout, "bin", "devstack"), LogPath: filepath.Join(s.dir, "temporal.log")}
	require.NoError(t, s.temporal.Start(), "run `make devstack`")
	t.Cleanup(func() { _ = s.temporal.Process().Kill() })
	s.client, err = client.Dial(client.Options{HostPort: s.temporal.Address(), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
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
	w.id = one[string](s, "insert into pgdispatch.workspaces (name, plan) values ($1, $2) returning id::text", w.name, w.plan)
	s.exec(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
		select $1, n, n, 'shop' from unnest($2::text[]) n`, w.id, []string{work, fails, again, collect, forever, late})
	s.exec(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select id, 1, '{"nodes": []}' from pgdispatch.workflow_definitions where workspace_id = $1 and name <> $2`, w.id, late)
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

// open produces load until the returned function is called, which returns the first error of an application.
func (s *shop) load() (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
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

// checkEnds checks that each item has ended as it should, and that each workflow has read its signals once and in order.
func (s *shop) checkEnds(replayed int) {
	s.t.Helper()
	s.eventually(func() bool {
		return one[int](s, `select count(*) from pgdispatch.workflow_execution_queue
			where status not in ('COMPLETED', 'FAILED', 'CANCELLED')`) == 0
	}, "everything ends")
	require.Equal(s.t, len(s.items)+replayed, one[int](s, "select count(*) from pgdispatch.workflow_execution_queue"))
	ends := map[string]map[string]int{}
	for execution, it := range s.items {
		end := one[string](s, `select coalesce(e.status, q.status) || coalesce(' ' || e.result::text, '')
			from pgdispatch.workflow_execution_queue q left join pgdispatch.workflow_executions e on e.id = q.execution_id
			where q.execution_id = $1`, execution)
		if ends[it.workflow] == nil {
			ends[it.workflow] = map[string]int{}
		}
		ends[it.workflow][end]++
	}
	s.t.Logf("%d items: %v", len(s.items), ends)
	for workflow, allowed := range map[string][]string{
		work: {"COMPLETED"}, fails: {"FAILED"}, again: {"COMPLETED"}, collect: {"COMPLETED [0, 1, 2, 3]"},
		forever: {"CANCELED", "CANCELLED"}, late: {"FAILED", "COMPLETED"},
	} {
		require.NotEmpty(s.t, ends[workflow], workflow)
		for end, items := range ends[workflow] {
			require.Contains(s.t, allowed, end, "%d items of %s", items, workflow)
		}
	}
	require.Zero(s.t, one[int](s, "select count(*) from pgdispatch.signals where state <> 'DELIVERED'"))
	require.Zero(s.t, one[int](s, "select count(*) from pgdispatch.dead_letters d join pgdispatch.workflow_definitions f"+
		" on f.id = d.workflow_definition_id where f.name = $1", late), "each is replayed")
}

// checkRuns asks Temporal for all runs: each started item has one workflow, and no workspace had more of them at once
// than it may.
func (s *shop) checkRuns() {
	s.t.Helper()
	type event struct {
		at    time.Time
		delta int
	}
	of := map[string]*tenant{}
	for _, w := range append(s.tenants, s.steady) {
		of[w.id] = w
	}
	workspaces := map[string]string{}
	rows, err := s.db.Query(context.Background(), "select 'execution-' || execution_id, workspace_id::text"+
		" from pgdispatch.workflow_execution_queue where dispatched_at is not null")
	require.NoError(s.t, err)
	for rows.Next() {
		var id, workspace string
		require.NoError(s.t, rows.Scan(&id, &workspace))
		workspaces[id] = workspace
	}
	require.NoError(s.t, rows.Err())

	var runs map[string]int
	var events map[string][]event
	s.eventually(func() bool {
		runs, events = map[string]int{}, map[string][]event{}
		for token := []byte(nil); ; {
			page, err := s.client.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{NextPageToken: token})
			if err != nil {
				return false
			}
			for _, run := range page.Executions {
				if run.CloseTime == nil {
					return false
				}
				id := run.GetExecution().GetWorkflowId()
				if runs[id]++; run.GetType().GetName() == again && runs[id] == 2 {
					runs[id] = 1
				}
				events[workspaces[id]] = append(events[workspaces[id]], event{run.StartTime.AsTime(), 1}, event{run.CloseTime.AsTime(), -1})
			}
			if token = page.NextPageToken; len(token) == 0 {
				return len(runs) >= len(workspaces)
			}
		}
	}, "Temporal lists every started workflow as closed")
	for id, n := range runs {
		require.Equal(s.t, 1, n, "runs of %s", id)
		require.Contains(s.t, workspaces, id, "a workflow without an item")
	}
	for workspace, list := range events {
		slices.SortFunc(list, func(a, b event) int { return cmp2(a.at, b.at, a.delta, b.delta) })
		running, greatest := 0, 0
		for _, e := range list {
			running += e.delta
			greatest = max(greatest, running)
		}
		require.LessOrEqual(s.t, greatest, of[workspace].limit, "workflows of %s that ran at once", of[workspace].name)
	}
}

// cmp2 orders by time, and ends before starts.
func cmp2(a, b time.Time, deltaA, deltaB int) int {
	if order := a.Compare(b); order != 0 {
		return order
	}
	return deltaA - deltaB
}

// checkLimits replays every change of an item in the order of commits.
func (s *shop) checkLimits() {
	s.t.Helper()
	leased := one[int](s, "select n from audit.greatest_leased")
	text := "most leased at once: " + strconv.Itoa(leased) + " of " + strconv.Itoa(maxClaims) + "; slots held:"
	require.LessOrEqual(s.t, leased, maxClaims)
	for _, w := range append(s.tenants, s.steady) {
		held := one[int](s, "select n from audit.greatest_held where workspace_id = $1", w.id)
		text += fmt.Sprintf(" %s %d of %d,", w.name, held, w.limit)
		require.LessOrEqual(s.t, held, w.limit, w.name)
	}
	keyed := one[int](s, `select max(n) from (
		select sum(sum(c.held)) over (order by pg_xact_commit_timestamp(c.xid::xid), c.xid) as n
		from audit.changes c join pgdispatch.workflow_execution_queue q on q.id = c.item
		where q.limit_key is not null group by c.xid) t`)
	s.t.Logf("%s with the key %d of %d", text, keyed, keyLimit)
	require.Equal(s.t, keyLimit, keyed, "slots held by items with the key; it is reached")
}

// longestPause returns the longest time without a start between two times, by the database's clock, and when it began.
func (s *shop) longestPause(from, to time.Time) (longest time.Duration) {
	s.t.Helper()
	return one[time.Duration](s, `select max(following - at) from (
		select s.at, lead(s.at, 1, $2) over (order by s.at) as following from (
			select q.dispatched_at as at from pgdispatch.workflow_execution_queue q where q.dispatched_at between $1 and $2
			union all select $1) s
		) p`, from, to)
}

func (s *shop) now() time.Time { return one[time.Time](s, "select clock_timestamp()") }
