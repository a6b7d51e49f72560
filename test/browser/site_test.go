package browser

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pgdispatch/pgdispatch/internal/temporaltest"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

const (
	// waitingOfEach is how many items of each definition wait where as many run as may.
	waitingOfEach = 10
	// startPace is apart from one another what starts before: a replica keeps up with it, so that what it says of itself is what it is.
	startPace = 5 * time.Millisecond
	// queue is the task queue of the one worker, which the statements that make workflow definitions are given.
	queue = "browser"
)

//go:embed testdata/*.sql
var statements embed.FS

func statement(name string) string {
	text, err := statements.ReadFile("testdata/" + name + ".sql")
	if err != nil {
		panic(err) // a mistake in the test
	}
	return string(text)
}

// temporal is a real server, with a worker whose workflows run until they are cancelled or terminated.
type temporal struct {
	address string
	stop    func()
}

func startTemporal() (*temporal, error) {
	address, stop, err := temporaltest.Start("../..")
	if err != nil {
		return nil, err
	}
	stopWorker, err := startWorker(address)
	if err != nil {
		stop()
		return nil, err
	}
	return &temporal{address, func() { stopWorker(); stop() }}, nil
}

func startWorker(address string) (stop func(), err error) {
	quiet := temporallog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	c, err := client.Dial(client.Options{HostPort: address, Logger: quiet})
	if err != nil {
		return nil, fmt.Errorf("connect to Temporal: %w", err)
	}
	w := worker.New(c, queue, worker.Options{})
	for _, name := range []string{"Order", "Refund", "Export"} {
		w.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ json.RawMessage) error {
			return workflow.Await(ctx, func() bool { return false })
		}, workflow.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		c.Close()
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	return func() { w.Stop(); c.Close() }, nil
}

// site is a database, and a replica that shows it.
type site struct {
	database string
	db       *pgxpool.Pool
	// user is the name and the token that the browser signs in with, with a colon between; "": it does not.
	user string
	// origin is the replica's administrative address, as a URL without a path.
	origin  string
	replica *replica
}

// newSite makes a database, in which so many items have ended.
func newSite(ctx context.Context, name string, ended int) (*site, error) {
	admin, err := pgx.Connect(ctx, shared.cluster.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, fmt.Errorf("make database %s: %w", name, err)
	}
	s := &site{database: shared.cluster.URL(name)}
	if s.db, err = pgxpool.New(ctx, s.database); err != nil {
		return nil, fmt.Errorf("connect to database %s: %w", name, err)
	}
	err = s.db.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		err := migrate.Up(ctx, conn.Conn(), nil)
		if err != nil || ended == 0 {
			return err
		}
		steps := []struct {
			text string
			args []any
		}{
			{"set session_replication_role = replica", nil}, {statement("ended"), []any{queue, ended}}, {"reset session_replication_role", nil},
			{statement("activity"), nil}, {"vacuum (analyze)", nil},
		}
		for _, step := range steps {
			if _, err := conn.Exec(ctx, step.text, step.args...); err != nil {
				return fmt.Errorf("%.40s: %w", step.text, err)
			}
		}
		return nil
	})
	if err != nil {
		s.db.Close()
		return nil, fmt.Errorf("fill database %s: %w", name, err)
	}
	return s, nil
}

// enqueue has workflows run up to the limits of some workspaces, and items wait there.
func (s *site) enqueue(ctx context.Context) error {
	rows, err := s.db.Query(ctx, statement("starts"))
	if err != nil {
		return fmt.Errorf("find what can be started: %w", err)
	}
	starts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Workspace, Definition string }])
	if err != nil {
		return fmt.Errorf("find what can be started: %w", err)
	}
	for _, start := range starts {
		<-time.After(startPace)
		if _, err := s.db.Exec(ctx, statement("start"), start.Workspace, start.Definition); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	for running := 0; running < len(starts); {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %d run, not %d: %w\n%s", len(starts), running, ctx.Err(), s.replica.log())
		case <-time.After(50 * time.Millisecond):
		}
		if err := s.db.QueryRow(ctx, "select count(*) from pgdispatch.workflow_execution_queue where status = 'DISPATCHED'").Scan(&running); err != nil {
			return fmt.Errorf("count what runs: %w", err)
		}
	}
	if _, err = s.db.Exec(ctx, statement("enqueue"), waitingOfEach); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// start starts the replica, at the address that it had if it had one.
func (s *site) start(ctx context.Context, variables ...string) (err error) {
	address := "127.0.0.1:0"
	if s.replica != nil {
		address = s.replica.address
	}
	s.replica, err = startReplica(ctx, append([]string{"DATABASE_URL=" + s.database, "PGDISPATCH_ADMIN_ADDR=" + address}, variables...))
	if err != nil {
		return err
	}
	s.origin = "http://" + s.replica.address
	return nil
}

func (s *site) close() {
	if s.replica != nil {
		s.replica.kill()
	}
	s.db.Close()
}

// small is a site of the test's own, with little in it.
func small(t testing.TB, variables ...string) *site {
	t.Helper()
	s, err := newSite(t.Context(), fmt.Sprintf("small_%d", time.Now().UnixNano()), 2000)
	require.NoError(t, err)
	t.Cleanup(s.close)
	require.NoError(t, s.start(t.Context(), variables...))
	return s
}

func (s *site) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	_, err := s.db.Exec(t.Context(), text, args...)
	require.NoError(t, err)
}

func one[T any](t testing.TB, s *site, query string, args ...any) (value T) {
	t.Helper()
	require.NoError(t, s.db.QueryRow(t.Context(), query, args...).Scan(&value))
	return value
}

// replica is a real process.
type replica struct {
	address string
	command *exec.Cmd
	done    chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
}

var servingAt = regexp.MustCompile(`"msg":"Serving health and metrics"[^\n]*"address":"([^"]+)"`)

func startReplica(ctx context.Context, variables []string) (*replica, error) {
	r := &replica{command: exec.Command(shared.binary, "run"), done: make(chan struct{})}
	r.command.Env = append(append(os.Environ(), "TEMPORAL_ADDRESS="+shared.temporal.address, "TEMPORAL_NAMESPACE=default"), variables...)
	r.command.Stdout, r.command.Stderr = r, r
	r.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.command.Start(); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	go func() { defer close(r.done); _ = r.command.Wait() }()
	for {
		log := r.log()
		if found := servingAt.FindStringSubmatch(log); found != nil {
			r.address = found[1]
			return r, nil
		}
		select {
		case <-r.done:
			return nil, fmt.Errorf("a replica ended: %s", log)
		case <-ctx.Done():
			r.kill()
			return nil, fmt.Errorf("wait for a replica: %w: %s", ctx.Err(), log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Write keeps the log.
func (r *replica) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *replica) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *replica) kill() {
	_ = r.command.Process.Kill()
	<-r.done
}
