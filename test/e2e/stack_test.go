package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	harness "github.com/pgdispatch/pgdispatch/test/internal/stack"
)

// stack is a database, a Temporal server and a worker for one test.
type stack struct {
	t         testing.TB
	url       string
	temporal  string // Temporal's address for the replicas
	queue     string // task queue of this test's worker
	db        *pgxpool.Pool
	client    client.Client
	workspace map[string]string // plan -> workspace
}

// newStack starts a worker on a new database and a new task queue. Its workflow types are named after how they end.
func newStack(t testing.TB) *stack {
	t.Helper()
	return newStackOn(t, sqltest.URL(t))
}

// newStackOn is newStack on a migrated database.
func newStackOn(t testing.TB, url string) *stack {
	t.Helper()
	s := &stack{t: t, url: url, db: sqltest.Pool(t, url), temporal: temporalAddress(t), workspace: map[string]string{},
		queue: fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())}
	audit, err := os.ReadFile("../../testdata/audit.sql")
	require.NoError(t, err)
	s.exec(string(audit))

	quiet := temporallog.NewStructuredLogger(newQuietLogger())
	s.client, err = client.Dial(client.Options{HostPort: s.temporal, Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	t.Cleanup(startWorker(t, s.client, s.queue).Stop)

	for _, plan := range []string{"FREE", "PRO", "ENTERPRISE"} {
		s.workspace[plan] = s.addWorkspace(plan)
	}
	return s
}

// startWorker starts a worker of all workflows and activities. It sends heartbeats often, so that an activity learns of
// a cancellation long before a heartbeat timeout that a loaded machine could exceed.
func startWorker(t testing.TB, c client.Client, queue string) worker.Worker {
	t.Helper()
	w := worker.New(c, queue, worker.Options{MaxHeartbeatThrottleInterval: 100 * time.Millisecond})
	for name, function := range workflows {
		w.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	for name, function := range activities {
		w.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
	require.NoError(t, w.Start())
	return w
}

// addWorkspace inserts a workspace with one definition for each of the worker's workflow types.
func (s *stack) addWorkspace(plan string) string {
	s.t.Helper()
	id := one[string](s, "insert into pgdispatch.workspaces (name, plan) values ($1, $1) returning id::text", plan)
	for name := range workflows {
		s.define(id, name, name, s.queue)
	}
	return id
}

func (s *stack) define(workspace, name, workflowType, queue string) string {
	s.t.Helper()
	id := one[string](s, `insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
		values ($1, $2, $3, $4) returning id::text`, workspace, name, workflowType, queue)
	s.exec(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		values ($1, 1, '{"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"from": "a", "to": "b"}]}')`, id)
	return id
}

// enqueue inserts n items of a definition in one statement and returns their execution IDs.
func (s *stack) enqueue(plan, definition string, items int) []string {
	s.t.Helper()
	rows, err := s.db.Query(context.Background(), `insert into pgdispatch.workflow_execution_queue (workspace_id,
		workflow_definition_id, params)
		select d.workspace_id, d.id, '{"greeting": "hello"}'
		from pgdispatch.workflow_definitions d, generate_series(1, $3)
		where d.workspace_id = $1 and d.name = $2
		returning execution_id::text`, s.workspace[plan], definition, items)
	require.NoError(s.t, err)
	var ids []string
	for rows.Next() {
		var id string
		require.NoError(s.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(s.t, rows.Err())
	return ids
}

func (s *stack) exec(statement string, args ...any) {
	s.t.Helper()
	_, err := s.db.Exec(context.Background(), statement, args...)
	require.NoError(s.t, err)
}

func one[T any](s *stack, query string, args ...any) T {
	s.t.Helper()
	var value T
	require.NoError(s.t, s.db.QueryRow(context.Background(), query, args...).Scan(&value))
	return value
}

// statusOf returns an item's status.
func (s *stack) statusOf(execution string) string {
	s.t.Helper()
	return one[string](s, "select status from pgdispatch.workflow_execution_queue where execution_id = $1", execution)
}

// eventually polls a condition in the database or in Temporal, neither of which notifies the test. The condition runs
// on the test's goroutine, so it may fail the test. The limit is generous, for loaded machines.
func (s *stack) eventually(condition func() bool, message string, args ...any) {
	s.t.Helper()
	await(s.t, 3*time.Minute, condition, message, args...)
}

func await(t testing.TB, timeout time.Duration, condition func() bool, message string, args ...any) {
	t.Helper()
	deadline := time.After(timeout)
	for !condition() {
		select {
		case <-deadline:
			require.FailNow(t, "never happened", append([]any{message}, args...)...)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// replica is a running replica.
type replica struct {
	*process.Process
	t testing.TB
}

// replica starts a replica with these variables in addition to the stack's. It is killed when the test ends.
func (s *stack) replica(variables ...string) *replica {
	s.t.Helper()
	started, err := harness.Replica{
		Name: "a replica", Binary: binary(s.t), DatabaseURL: s.url, Temporal: s.temporal, Env: variables,
		LogPath: filepath.Join(s.t.TempDir(), "log"),
	}.Start()
	require.NoError(s.t, err)
	p := &replica{started, s.t}
	s.t.Cleanup(func() {
		require.NoError(s.t, p.Kill())
		require.NotContains(s.t, p.Log(), "DATA RACE")
		if s.t.Failed() {
			s.t.Logf("replica %d: %s", p.PID, p.Tail())
		}
	})
	return p
}

// has reports whether the replica has logged the message.
func (p *replica) has(message string) bool { return strings.Contains(p.Log(), `"msg":"`+message+`"`) }

// ready waits until the replica dispatches.
func (p *replica) ready() *replica {
	p.t.Helper()
	await(p.t, 20*time.Second, func() bool { return p.has("Listening") }, "replica starts")
	return p
}

// exit waits for the process to end and returns its exit code.
func (p *replica) exit() int {
	p.t.Helper()
	require.True(p.t, p.EndsWithin(time.Minute), "the replica does not end: %s", p.Tail())
	return p.ExitCode()
}
