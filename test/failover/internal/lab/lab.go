// Package lab runs pgdispatch on a cluster of Patroni: a real Temporal server with a worker, replicas, and an
// application that inserts items.
package lab

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/test/failover/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/failover/internal/cluster"
	"github.com/pgdispatch/pgdispatch/test/internal/queries"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

const (
	// replicas is how many there are. Their settings are the defaults.
	replicas = 3
	// patience bounds each wait: a lease of 30 s may have to end, and a node to be copied.
	patience = 90 * time.Second
	// stopTimeout is how long a replica may take to end.
	stopTimeout = 45 * time.Second
	// queryTimeout bounds a query of the harness.
	queryTimeout = 20 * time.Second
)

//go:embed queries/*.sql
var files embed.FS

func query(name string) string { return queries.Get(files, "queries/"+name) }

// Options say what to run.
type Options struct {
	// Pgdispatch and Devstack are the paths of the binaries.
	Pgdispatch, Devstack string
	// Dir is an existing directory for everything.
	Dir string
	// Sync makes the cluster synchronous.
	Sync bool
	// Hosts makes the replicas connect to the nodes by a list of hosts. Otherwise they connect to HAProxy. The application
	// always connects to HAProxy.
	Hosts bool
	// Rate is how many items are inserted per second.
	Rate float64
}

// Lab is everything that runs.
type Lab struct {
	// Cluster is the database.
	Cluster *cluster.Cluster
	// Writer is the application. It is nil before Load.
	Writer *Writer

	options  Options
	temporal *stack.Temporal
	client   client.Client
	worker   worker.Worker
	replicas []*process.Process
}

// Start starts a cluster and a Temporal server.
func Start(ctx context.Context, o Options) (l *Lab, err error) {
	l = &Lab{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()

	l.temporal = &stack.Temporal{Binary: o.Devstack, LogPath: filepath.Join(o.Dir, "temporal.log")}
	if err := l.temporal.Start(); err != nil {
		return l, err
	}
	if l.client, err = l.temporal.Client(); err != nil {
		return l, err
	}
	if l.worker, err = startWorker(l.client); err != nil {
		return l, err
	}

	dir := filepath.Join(o.Dir, "cluster")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return l, fmt.Errorf("make directory of the cluster: %w", err)
	}
	l.Cluster, err = cluster.Start(ctx, dir, o.Sync)
	return l, err
}

// Migrate creates the schema.
func (l *Lab) Migrate(ctx context.Context) error {
	return stack.Migrate(ctx, l.options.Pgdispatch, l.Cluster.ProxyURL())
}

// StartReplicas starts the replicas and does not wait for them.
func (l *Lab) StartReplicas() error {
	url := l.Cluster.ProxyURL()
	if l.options.Hosts {
		url = l.Cluster.HostsURL()
	}
	for n := range replicas {
		name := fmt.Sprintf("replica-%d", n+1)
		replica, err := stack.Replica{
			Name: name, Binary: l.options.Pgdispatch, DatabaseURL: url, Temporal: l.temporal.Address(),
			LogPath: filepath.Join(l.options.Dir, name+".log"),
		}.Start()
		if err != nil {
			return err
		}
		l.replicas = append(l.replicas, replica)
	}
	return nil
}

// Load waits until the replicas listen, creates workspaces, and starts the application.
func (l *Lab) Load(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	for _, replica := range l.replicas {
		if _, err := stack.AwaitSaying(waiting, replica, stack.Listening); err != nil {
			return err
		}
	}

	var tasks []task
	for n := range writers {
		var t task
		name := fmt.Sprintf("tenant %d", n+1)
		err := cluster.Await(ctx, patience, "the database accepts "+name, func() error {
			return l.session(ctx, func(ctx context.Context, conn *pgx.Conn) error {
				return conn.QueryRow(ctx, query("workspace"), name, workflowType, taskQueue).Scan(&t.workspace, &t.definition)
			})
		})
		if err != nil {
			return err
		}
		tasks = append(tasks, t)
	}
	l.Writer = startWriter(ctx, l.Cluster.ProxyURL(), tasks, l.options.Rate)
	return nil
}

// session opens a session at HAProxy for one use.
func (l *Lab) session(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, fmt.Errorf("not within %s", queryTimeout))
	defer cancel()
	conn, err := pgx.Connect(ctx, l.Cluster.ProxyURL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return use(ctx, conn)
}

// Alive returns an error if a replica has ended.
func (l *Lab) Alive() (err error) {
	for _, replica := range l.replicas {
		err = errors.Join(err, replica.Alive())
	}
	return err
}

// Finish stops the application, waits until every item of the database has been started, stops the replicas, and fills
// in the record. Items that do not start in time are for the audit to find.
func (l *Lab) Finish(ctx context.Context, r *audit.Record) error {
	r.Writes = l.Writer.Stop()
	l.Writer = nil
	err := cluster.Await(ctx, patience, "every item has started", func() (err error) {
		if r.Rows, err = l.rows(ctx); err != nil {
			return err
		}
		if r.Runs, err = listRuns(ctx, l.client); err != nil {
			return err
		}
		if stuck := audit.Check(audit.Record{Rows: r.Rows, Runs: r.Runs, Writes: r.Writes}).Stuck; len(stuck) > 0 {
			return errStuck
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStuck) {
		return err
	}

	for _, replica := range l.replicas {
		if err := replica.Stop(stopTimeout); err != nil {
			return err
		}
	}
	r.Runs, err = listRuns(ctx, l.client) // once no replica can start anything any more
	return err
}

// errStuck means that items have not started, which the audit reports.
var errStuck = errors.New("some have not")

func (l *Lab) rows(ctx context.Context) (rows []string, err error) {
	err = l.session(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		found, err := conn.Query(ctx, query("executions"))
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(found, pgx.RowTo[string])
		return err
	})
	return rows, err
}

// Close ends everything.
func (l *Lab) Close() (err error) {
	if l.Writer != nil {
		l.Writer.Stop()
	}
	for _, replica := range l.replicas {
		err = errors.Join(err, replica.Kill())
	}
	if l.worker != nil {
		l.worker.Stop()
	}
	if l.client != nil {
		l.client.Close()
	}
	if l.Cluster != nil {
		err = errors.Join(err, l.Cluster.Close())
	}
	if l.temporal != nil && l.temporal.Process() != nil {
		err = errors.Join(err, l.temporal.Process().Kill())
	}
	return err
}
