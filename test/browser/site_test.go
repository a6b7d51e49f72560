package browser

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/test/internal/queries"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

const (
	// waitingOfEach is how many items of each definition wait in a workspace that is at its limit.
	waitingOfEach = 10
	// startPace is the interval between starts. A replica keeps up with it, so that its own figures are stable.
	startPace = 15 * time.Millisecond
	// queue is the only worker's task queue.
	queue = "browser"
)

//go:embed testdata/*.sql
var statements embed.FS

// replicas counts the replicas that were started, to name their logs.
var replicas atomic.Int64

func statement(name string) string { return queries.Get(statements, "testdata/"+name) }

// startTemporal starts a real server, with a worker whose workflows run until they are cancelled or terminated.
func startTemporal(dir string) (address string, stop func(), err error) {
	server, err := stack.StartTemporal("../..", dir)
	if err != nil {
		return "", nil, err
	}
	stopWorker, err := startWorker(server)
	if err != nil {
		return "", nil, errors.Join(err, server.Process().Kill())
	}
	return server.Address(), func() { stopWorker(); _ = server.Process().Kill() }, nil
}

func startWorker(server *stack.Temporal) (stop func(), err error) {
	c, err := server.Client()
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

// site is a database and a replica that shows it.
type site struct {
	database string
	db       *pgxpool.Pool
	// user is the name and the token for signing in, separated by a colon. Empty: the browser does not sign in.
	user string
	// origin is the replica's administrative address, as a URL without a path.
	origin  string
	replica *process.Process
}

// newSite creates a database in which the given number of items have ended.
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
			{"set session_replication_role = replica", nil}, {statement("ended"), []any{queue, ended}},
			{"reset session_replication_role", nil},
			{statement("activity"), nil}, {statement("workspace_activity"), nil}, {"vacuum (analyze)", nil},
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

// enqueue fills some workspaces up to their limits with running workflows, and adds waiting items.
func (s *site) enqueue(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, statement("limits")); err != nil {
		return fmt.Errorf("add limits: %w", err)
	}
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
			return fmt.Errorf("wait until %d run, not %d: %w\n%s", len(starts), running, ctx.Err(), s.replica.Tail())
		case <-time.After(50 * time.Millisecond):
		}
		const count = "select count(*) from pgdispatch.workflow_execution_queue where status = 'DISPATCHED'"
		if err := s.db.QueryRow(ctx, count).Scan(&running); err != nil {
			return fmt.Errorf("count what runs: %w", err)
		}
	}
	if _, err = s.db.Exec(ctx, statement("enqueue"), waitingOfEach); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// start starts the replica, at its previous address if it had one.
func (s *site) start(ctx context.Context, variables ...string) (err error) {
	address := cmp.Or(strings.TrimPrefix(s.origin, "http://"), "127.0.0.1:0")
	s.replica, err = stack.Replica{
		Name: "a replica", Binary: shared.binary, DatabaseURL: s.database, Temporal: shared.temporal,
		Env:     append(variables, "PGDISPATCH_ADMIN_ADDR="+address),
		LogPath: fmt.Sprintf("%s-%d.log", shared.binary, replicas.Add(1)),
	}.Start()
	if err != nil {
		return err
	}
	address, err = stack.AwaitSaying(ctx, s.replica, stack.Serving)
	if err != nil {
		return errors.Join(err, s.replica.Kill())
	}
	s.origin = "http://" + address
	return nil
}

func (s *site) close() {
	if s.replica != nil {
		_ = s.replica.Kill() // an error would say nothing about the view
	}
	s.db.Close()
}

// small is a small site for one test.
func small(t testing.TB, variables ...string) *site {
	t.Helper()
	return smallAt(t, "", variables...)
}

// smallAt is small at a given address.
func smallAt(t testing.TB, origin string, variables ...string) *site {
	t.Helper()
	s, err := newSite(t.Context(), fmt.Sprintf("small_%d", time.Now().UnixNano()), 2000)
	require.NoError(t, err)
	t.Cleanup(s.close)
	s.origin = origin
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
