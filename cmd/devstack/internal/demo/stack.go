package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

const (
	// workspacesFile and enqueueFile are the demonstration's data: the workspaces and the items that they enqueue.
	workspacesFile = "workspaces.sql"
	enqueueFile    = "enqueue.sql"
	// namespace is the demonstration's Temporal namespace.
	namespace = "default"
	// replicaWorkers is PGDISPATCH_WORKERS of each replica.
	replicaWorkers = "8"
	// dialTimeout bounds the first connections to Postgres and Temporal.
	dialTimeout = 15 * time.Second
	// replicaStopTimeout is how long a replica may take to end after SIGTERM before it is killed.
	replicaStopTimeout = 25 * time.Second
)

// stack is everything that runs during the demonstration.
type stack struct {
	// dir holds the logs. It belongs to the cluster and is removed with it, even after a kill -9.
	dir string
	// databaseURL is the connection URL of the database.
	databaseURL string
	// psql is the path of the psql program.
	psql string

	progress    *progress
	cluster     *sqltest.Cluster
	pool        *pgxpool.Pool
	temporal    Temporal
	client      client.Client
	workerFatal chan error
	replicas    []*process.Process
	// view is the URL of the first replica's web view, with the token that signs in.
	view string
	// cleanups undo the starts, in reverse order.
	cleanups []cleanup
}

// cleanup undoes the start of a part.
type cleanup struct {
	what string
	undo func() error
}

// startStack starts the parts one after another. It returns what it has started even if it fails. The caller must stop
// it in either case.
func startStack(ctx context.Context, opts Options, p *progress) (*stack, error) {
	st := &stack{progress: p, workerFatal: make(chan error, 1)}
	for _, part := range []struct {
		what  string
		start func(context.Context) (string, error)
	}{
		{"start Postgres", st.startPostgres},
		{"start Temporal", func(ctx context.Context) (string, error) { return st.startTemporal(ctx, opts) }},
		{"pgdispatch migrate up", func(ctx context.Context) (string, error) { return st.migrate(ctx, opts) }},
		{"create workspaces", func(ctx context.Context) (string, error) { return st.createWorkspaces(ctx, opts) }},
		{"start a worker", st.startWorker},
		{fmt.Sprintf("start %d pgdispatch replicas", opts.Replicas),
			func(context.Context) (string, error) { return st.startReplicas(opts) }},
	} {
		if err := p.step(part.what, func() (string, error) { return part.start(ctx) }); err != nil {
			return st, err
		}
	}
	return st, nil
}

// stop runs all cleanups in reverse order. A failed cleanup does not prevent the others.
func (st *stack) stop() error {
	var errs []error
	for _, c := range slices.Backward(st.cleanups) {
		errs = append(errs, st.progress.step(c.what, func() (string, error) { return "", c.undo() }))
	}
	st.cleanups = nil
	return errors.Join(errs...)
}

// alive returns an error once a part has ended by itself.
func (st *stack) alive() error {
	for _, r := range st.replicas {
		if err := r.Alive(); err != nil {
			return err
		}
	}
	select {
	case <-st.cluster.Exited():
		return fmt.Errorf("the Postgres server ended; the end of its log:\n%s", st.cluster.LogTail())
	case err := <-st.workerFatal:
		return fmt.Errorf("the worker ended: %w", err)
	default:
		return nil
	}
}

// startPostgres starts a private server with durable settings, unlike those of tests.
func (st *stack) startPostgres(ctx context.Context) (string, error) {
	cluster, err := sqltest.StartCluster(ctx,
		sqltest.Options{Settings: map[string]string{"fsync": "on", "full_page_writes": "on"}})
	if err != nil {
		return "", err
	}
	st.cluster, st.dir = cluster, cluster.Dir
	st.cleanups = append(st.cleanups, cleanup{"stop Postgres, remove " + st.dir, cluster.Stop})
	st.databaseURL = cluster.URL("postgres")
	if st.psql, err = findPsql(cluster.BinDir); err != nil {
		return "", err
	}
	dialCtx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("took longer than %s", dialTimeout))
	defer cancel()
	if st.pool, err = pgxpool.New(dialCtx, st.databaseURL); err != nil {
		return "", fmt.Errorf("connect to Postgres: %w", err)
	}
	st.cleanups = append(st.cleanups, cleanup{"close connections", func() error { st.pool.Close(); return nil }})
	if err := st.pool.Ping(dialCtx); err != nil {
		return "", fmt.Errorf("connect to Postgres: %w", err)
	}
	return st.databaseURL, nil
}

// startTemporal starts the server, with its web interface if it has one.
func (st *stack) startTemporal(ctx context.Context, opts Options) (string, error) {
	var err error
	if st.temporal, err = opts.StartTemporal(ctx, namespace, filepath.Join(st.dir, "temporal.log")); err != nil {
		return "", err
	}
	st.cleanups = append(st.cleanups, cleanup{"stop Temporal", st.temporal.Stop})
	result := st.temporal.Address
	if st.temporal.UI != "" {
		result += ", web interface " + st.temporal.UI
	}
	return result, nil
}

// migrate creates pgdispatch's schema, as an operator would.
func (st *stack) migrate(ctx context.Context, opts Options) (string, error) {
	cmd := exec.CommandContext(ctx, opts.Pgdispatch, "migrate", "up")
	st.isolate(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("run pgdispatch migrate up: %w\n%s", err, out)
	}
	return "schema pgdispatch", nil
}

// createWorkspaces inserts the workspaces and their workflow definitions.
func (st *stack) createWorkspaces(ctx context.Context, opts Options) (string, error) {
	return "psql -f " + filepath.Join(opts.Data, workspacesFile), st.psqlFile(ctx, opts.Data, workspacesFile)
}

// startWorker starts a Temporal worker in this process: what an application would run.
func (st *stack) startWorker(ctx context.Context) (string, error) {
	logFile, err := os.Create(filepath.Join(st.dir, "worker.log"))
	if err != nil {
		return "", fmt.Errorf("create log of the worker: %w", err)
	}
	st.cleanups = append(st.cleanups, cleanup{"close the worker's log", logFile.Close})
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("took longer than %s", dialTimeout))
	defer cancel()
	st.client, err = client.DialContext(ctx, client.Options{
		HostPort:  st.temporal.Address,
		Namespace: namespace,
		Logger:    sdklog.NewStructuredLogger(slog.New(slog.NewJSONHandler(logFile, nil))),
	})
	if err != nil {
		return "", fmt.Errorf("connect to Temporal: %w", err)
	}
	st.cleanups = append(st.cleanups, cleanup{"close the Temporal client", func() error { st.client.Close(); return nil }})
	w := newWorker(st.client, &graphActivities{db: st.pool}, st.workerFatal)
	if err := w.Start(); err != nil {
		return "", fmt.Errorf("start worker: %w", err)
	}
	st.cleanups = append(st.cleanups, cleanup{"stop the worker", func() error { w.Stop(); return nil }})
	return "workflow " + workflowType + " on task queue " + taskQueue, nil
}

// startReplicas starts the requested number of pgdispatch processes.
func (st *stack) startReplicas(opts Options) (string, error) {
	st.cleanups = append(st.cleanups, cleanup{"stop the replicas (SIGTERM)", st.stopReplicas})
	var logs []string
	for i := range opts.Replicas {
		logPath := filepath.Join(st.dir, fmt.Sprintf("replica-%d.log", i+1))
		env := st.environment(
			"TEMPORAL_ADDRESS="+st.temporal.Address, "TEMPORAL_NAMESPACE="+namespace, "PGDISPATCH_WORKERS="+replicaWorkers)
		if i == 0 { // one web view serves the whole stack
			address, err := process.FreeAddress()
			if err != nil {
				return "", err
			}
			var serve []string
			serve, st.view = webView(address, rand.Text())
			env = append(env, append(serve, "PGDISPATCH_TEMPORAL_UI_URL="+st.temporal.UI)...)
		}
		replica, err := process.Start(process.Spec{
			Name: fmt.Sprintf("replica %d", i+1), Program: opts.Pgdispatch, Args: []string{"run"}, Env: env, LogPath: logPath,
		})
		if err != nil {
			return "", err
		}
		st.replicas = append(st.replicas, replica)
		logs = append(logs, logPath)
	}
	return "logs " + strings.Join(logs, ", "), nil
}

// webView returns the variables of a replica with a web view in which everything can be tried, and the link that signs
// in there: browsers send a link's user and password.
func webView(address, token string) (variables []string, link string) {
	signIn := url.URL{Scheme: "http", User: url.UserPassword("demo", token), Host: address, Path: "/ui/"}
	return []string{"PGDISPATCH_ADMIN_ADDR=" + address, "PGDISPATCH_ADMIN_TOKEN=" + token}, signIn.String()
}

// startLive starts pgdispatch's own live view on a terminal. Without one there is none.
func (st *stack) startLive(terminal *process.Terminal, pgdispatch string) (*live, error) {
	if terminal == nil {
		return nil, nil
	}
	p, err := process.Start(process.Spec{
		Name: "pgdispatch status --watch", Program: pgdispatch, Args: []string{"status", "--watch"}, Env: st.environment(),
		LogPath: filepath.Join(st.dir, "status.log"), Terminal: terminal,
		DeathSignal: syscall.SIGTERM, // it gives the terminal back
	})
	if err != nil {
		return nil, err
	}
	return &live{p}, nil
}

// stopReplicas stops all replicas concurrently.
func (st *stack) stopReplicas() error {
	var g errgroup.Group
	errs := make([]error, len(st.replicas))
	for i, r := range st.replicas {
		g.Go(func() error {
			errs[i] = r.Stop(replicaStopTimeout)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// isolate gives a short-lived program its environment and its own process group, so that a Ctrl-C reaches this process
// only and does not make the program fail.
func (st *stack) isolate(cmd *exec.Cmd) {
	cmd.Env = st.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// environment returns an environment that points pgdispatch to this database, and to no other.
func (st *stack) environment(variables ...string) []string {
	return process.Environment(append(variables, "DATABASE_URL="+st.databaseURL)...)
}

// psqlFile runs a file of the demonstration's data with psql, a client without knowledge of pgdispatch.
func (st *stack) psqlFile(ctx context.Context, dir, name string) error {
	cmd := exec.CommandContext(ctx, st.psql, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1",
		"--file", filepath.Join(dir, name), st.databaseURL)
	st.isolate(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("run psql -f %s: %w\n%s", name, err, out)
	}
	return nil
}

// findPsql looks for psql beside the server's programs, then on the PATH.
func findPsql(binDir string) (string, error) {
	for _, name := range []string{filepath.Join(binDir, "psql"), "psql"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("find psql: it is neither in " + binDir + " nor on the PATH (apt-get install postgresql-client)")
}
