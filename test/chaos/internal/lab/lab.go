// Package lab is the installation in which faults are injected: three replicas, a Postgres cluster with a standby, a
// Temporal server, proxies between all of them, applications that enqueue, and a worker that completes workflows.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

// The replicas' settings. They are as in production but shorter, so that a minute holds many leases.
const (
	// Replicas is the number of replicas.
	Replicas = 3
	// Workers is each replica's number of workers.
	Workers = 8
	// Cap is W at the start, fewer than all workers together.
	Cap = 20
	// Lease, PollInterval, StartTimeout and DrainTimeout are each replica's settings of these names.
	Lease        = 3 * time.Second
	PollInterval = time.Second
	StartTimeout = time.Second
	DrainTimeout = 4 * time.Second
	// Keep and KeepFailed are how long ended items are kept, and failed ones. They are the shortest possible.
	Keep, KeepFailed = time.Minute, 90 * time.Second
)

// Database is the name of the only database.
const Database = "chaos"

// namespace is the namespace of all but the cells.
const namespace = "default"

// Options configures a Lab.
type Options struct {
	// Pgdispatch and Devstack are the paths of the binaries.
	Pgdispatch, Devstack string
	// Seed is the run's seed.
	Seed uint64
	// Rounds is how often each quiet fault is made. Zero means once.
	Rounds int
	// Keep keeps the directory with all logs.
	Keep bool
	// Log receives the progress messages.
	Log io.Writer
}

// Lab is the installation of one run.
type Lab struct {
	Store
	// Dir holds all data and logs.
	Dir string
	// Temporal is the Temporal server.
	Temporal *stack.Temporal
	// Client connects to Temporal directly, past all proxies.
	Client client.Client
	// Replicas are the replicas. They stay the same when their processes die.
	Replicas []*Replica
	// Load is the applications' load.
	Load *Load
	// Replication is the proxy between the standby and the primary.
	Replication *proxy.TCP
	// App is the proxy between applications and the database.
	App *proxy.TCP

	options Options
	worker  worker.Worker
	admin   *proxy.TCP
	began   time.Time

	mu      sync.Mutex
	primary *postgres.Node
	standby *postgres.Node
	nodes   int
	all     []*postgres.Node
	lossy   []Window

	violations []audit.Violation

	cells cells
}

// Open starts everything except the load.
func Open(ctx context.Context, options Options) (*Lab, error) {
	dir, err := os.MkdirTemp("", "pgdispatch-chaos-*")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	l := &Lab{Dir: dir, options: options, began: time.Now()}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) open(ctx context.Context) error {
	if err := os.Chmod(l.Dir, 0o755); err != nil { // the server's user must be able to enter
		return fmt.Errorf("open directory: %w", err)
	}
	l.Temporal = &stack.Temporal{Binary: l.options.Devstack, LogPath: filepath.Join(l.Dir, "temporal.log"),
		Namespaces: []string{namespace, cellNamespace}}
	l.TemporalEmpty(false)
	started := make(chan error, 1)
	go func() { started <- l.Temporal.Start() }()
	err := l.openPostgres(ctx)
	if err = errors.Join(<-started, err); err != nil {
		return err
	}
	if l.Client, err = l.Temporal.Client(); err != nil {
		return fmt.Errorf("make client of Temporal: %w", err)
	}
	l.worker = temporal.NewWorker(l.Client)
	if err := l.worker.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	if l.App, err = proxy.NewTCP(l.Primary().Address()); err != nil {
		return err
	}
	if l.Load, err = newLoad(ctx, l); err != nil {
		return err
	}
	return l.openReplicas(ctx)
}

func (l *Lab) openPostgres(ctx context.Context) (err error) {
	if l.primary, err = postgres.New(ctx, l.Dir, "postgres-1"); err != nil {
		return err
	}
	l.nodes, l.all = 1, []*postgres.Node{l.primary}
	if err := l.primary.Start(ctx); err != nil {
		return err
	}
	if err := l.prepare(ctx, l.primary); err != nil {
		return err
	}
	if l.admin, err = proxy.NewTCP(l.primary.Address()); err != nil {
		return err
	}
	address := postgres.URL(l.admin.Address, Database) + "&application_name=chaos&pool_max_conns=6" + postgres.Patient
	if l.db, err = pgxpool.New(ctx, address); err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	if err := l.Exec(ctx, "set_retention", Keep, KeepFailed); err != nil {
		return err
	}
	if l.Replication, err = proxy.NewTCP(l.primary.Address()); err != nil {
		return err
	}
	return l.AddStandby(ctx)
}

// prepare creates the database with the product's schema and the audit.
func (l *Lab) prepare(ctx context.Context, node *postgres.Node) error {
	conn, err := node.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "create database "+Database)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	if err := stack.Migrate(ctx, l.options.Pgdispatch, node.URL(Database)); err != nil {
		return err
	}
	if conn, err = node.Connect(ctx, Database); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, Query("audit"))
	if err == nil {
		_, err = conn.Exec(ctx, Query("set_cap"), Cap)
	}
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("install audit: %w", err)
	}
	return nil
}

func (l *Lab) openReplicas(ctx context.Context) error {
	for n := range Replicas {
		r, err := newReplica(l, n)
		if r != nil {
			l.Replicas = append(l.Replicas, r)
		}
		if err != nil {
			return err
		}
		if err := r.Start(); err != nil {
			return err
		}
	}
	for _, r := range l.Replicas {
		if err := r.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close stops everything and removes the directory, unless it is to be kept.
func (l *Lab) Close() error {
	var err error
	if l.Load != nil {
		l.Load.close()
	}
	err = errors.Join(err, l.cells.close())
	for _, r := range l.Replicas {
		err = errors.Join(err, r.close())
	}
	if l.worker != nil {
		l.worker.Stop()
	}
	if l.Client != nil {
		l.Client.Close()
	}
	if l.Temporal != nil && l.Temporal.Process() != nil {
		err = errors.Join(err, l.Temporal.Process().Kill())
	}
	if l.db != nil {
		l.db.Close()
	}
	err = errors.Join(err, l.closePostgres())
	if l.options.Keep {
		l.Logf("logs are in %s", l.Dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(l.Dir))
}

// Rounds returns how often each quiet fault is made.
func (l *Lab) Rounds() int { return max(l.options.Rounds, 1) }

// Logf writes a progress message with the time.
func (l *Lab) Logf(format string, args ...any) {
	_, _ = fmt.Fprintf(l.options.Log, "%7.2f  %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

// Session opens an application's session directly, past all proxies.
func (l *Lab) Session(ctx context.Context) (*pgx.Conn, error) {
	return l.Primary().Connect(ctx, Database)
}

// Sleep waits for d or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Await polls ask until it returns true, and fails after limit.
func Await(ctx context.Context, limit time.Duration, what string, ask func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	for {
		ok, err := ask()
		if ok && err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%s: not within %s", what, limit), err)
		}
		if err := Sleep(ctx, retryInterval); err != nil {
			return err
		}
	}
}
