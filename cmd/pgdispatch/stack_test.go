package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	output "github.com/pgdispatch/pgdispatch/internal/process"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/temporaltest"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// asReplica makes the test binary behave as pgdispatch, so that replicas in tests are real processes that can be
// killed, built with the race detector.
const asReplica = "PGDISPATCH_TEST_AS_REPLICA"

// rounds is how often a test with a crash repeats it.
const rounds = "PGDISPATCH_ROUNDS"

func init() {
	config.Know(asReplica)
	config.Know(rounds)
}

func TestMain(m *testing.M) {
	if os.Getenv(asReplica) != "" {
		main()
		return
	}
	code := sqltest.Run(m)
	if temporalServer.stop != nil {
		temporalServer.stop()
	}
	os.Exit(code)
}

// temporalServer is the one real Temporal server of this test process.
var temporalServer struct {
	once    sync.Once
	address string
	err     error
	stop    func()
}

// temporalAddress returns the address of a real Temporal server, which the first call starts.
func temporalAddress(t testing.TB) string {
	t.Helper()
	temporalServer.once.Do(func() {
		temporalServer.address, temporalServer.stop, temporalServer.err = temporaltest.Start("../..")
	})
	require.NoError(t, temporalServer.err)
	return temporalServer.address
}

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
	w := worker.New(s.client, s.queue, worker.Options{})
	for name, function := range workflows {
		w.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	for _, plan := range []string{"FREE", "PRO", "ENTERPRISE"} {
		s.workspace[plan] = s.addWorkspace(plan)
	}
	return s
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

// process is a replica.
type process struct {
	*exec.Cmd
	t    testing.TB
	logs *logBuffer
	done chan struct{}
}

// replica starts a replica with these variables in addition to the stack's. It is killed when the test ends.
func (s *stack) replica(variables ...string) *process {
	s.t.Helper()
	self, err := os.Executable()
	require.NoError(s.t, err)
	p := &process{Cmd: exec.Command(self, "run"), t: s.t, logs: &logBuffer{}, done: make(chan struct{})}
	p.Env = append(os.Environ(), asReplica+"=1", "DATABASE_URL="+s.url, "TEMPORAL_ADDRESS="+s.temporal,
		"TEMPORAL_NAMESPACE=default")
	p.Env = append(p.Env, variables...)
	p.Stderr = p.logs
	p.Stdout = p.logs
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, p.Start())
	go func() { defer close(p.done); _ = p.Wait() }()
	s.t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
		require.NotContains(s.t, p.logs.String(), "DATA RACE")
		if s.t.Failed() {
			s.t.Logf("replica %d: %s", p.Process.Pid, p.logs.tail())
		}
	})
	return p
}

// ready waits until the replica dispatches.
func (p *process) ready() *process {
	p.t.Helper()
	await(p.t, 20*time.Second, func() bool { return p.logs.has("Listening") }, "replica starts")
	return p
}

// exit waits for the process to end and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		require.FailNow(p.t, "replica does not end", p.logs.tail())
	}
	return p.ProcessState.ExitCode()
}

// logBuffer keeps a process's log.
type logBuffer struct{ output.Buffer }

func (b *logBuffer) has(message string) bool {
	return strings.Contains(b.String(), `"msg":"`+message+`"`)
}

func (b *logBuffer) tail() string {
	text := b.String()
	return text[max(0, len(text)-8000):]
}
