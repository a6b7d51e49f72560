package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

// The replica's settings in a cell.
const (
	CellLease        = 2 * time.Second
	CellPollInterval = 500 * time.Millisecond
	CellStartTimeout = 2 * time.Second
)

// cellNamespace is the namespace of all cells, so that the check of the other runs does not meet theirs.
const cellNamespace = "cells"

// quietSettings write nothing that nobody waits for, unless the server must: a checkpoint, an eviction or a vacuum
// would make the commits before it durable.
var quietSettings = map[string]string{
	"wal_writer_delay": "10s", "autovacuum": "off", "bgwriter_lru_maxpages": "0", "checkpoint_timeout": "1h",
	"shared_buffers": "32MB", "max_wal_size": "1GB", "max_wal_senders": "0", "wal_level": "minimal",
	"wal_keep_size": "0", "max_connections": "40",
}

// Cell is the smallest installation: a Postgres server and a replica of its own, in which nothing happens but what its
// owner does. All cells share the Temporal server of the lab.
type Cell struct {
	Store
	// Postgres is the server. Statements and Frontend stand between it, Temporal and the replica.
	Postgres   *postgres.Node
	Statements *proxy.Statements
	Frontend   *proxy.Frontend
	// Steps sees everything that the replica asks.
	Steps *proxy.Steps
	// Client is a client of the cells' namespace.
	Client client.Client
	// Env is appended to the replica's environment from its next start on.
	Env []string

	lab         *Lab
	workspaces  int
	definitions map[string]string // of the last workspace
	workspace   string
	process     *process.Process
	starts      int
}

// cells is what the cells of a lab share.
type cells struct {
	mu       sync.Mutex
	n        int
	template *postgres.Node
	client   client.Client
	worker   worker.Worker
	open     map[*Cell]bool
}

// share prepares what cells share, once.
func (l *Lab) share(ctx context.Context) (err error) {
	c := &l.cells
	if c.template != nil {
		return nil
	}
	if c.client, err = l.Temporal.ClientOf(cellNamespace); err != nil {
		return fmt.Errorf("make client of Temporal: %w", err)
	}
	c.worker = temporal.NewWorker(c.client)
	if err := c.worker.Start(); err != nil {
		return fmt.Errorf("start worker of cells: %w", err)
	}
	node, err := postgres.New(ctx, l.Dir, "cell")
	if err != nil {
		return err
	}
	c.open = map[*Cell]bool{}
	c.template = node
	if err := node.Start(ctx); err != nil {
		return err
	}
	return errors.Join(l.prepare(ctx, node), node.Stop(fastStop))
}

// close closes all that is open.
func (c *cells) close() error {
	var err error
	for cell := range c.open {
		err = errors.Join(err, cell.close())
	}
	if c.worker != nil {
		c.worker.Stop()
	}
	if c.client != nil {
		c.client.Close()
	}
	if c.template != nil {
		err = errors.Join(err, c.template.Stop(fastStop), c.template.Unmount())
	}
	return err
}

// OpenCell opens a cell. Its server's clock is ahead of the machine's by the given duration.
func (l *Lab) OpenCell(ctx context.Context, ahead time.Duration, env ...string) (*Cell, error) {
	l.cells.mu.Lock()
	defer l.cells.mu.Unlock()
	if err := l.share(ctx); err != nil {
		return nil, fmt.Errorf("prepare cells: %w", err)
	}
	l.cells.n++
	c := &Cell{lab: l, Client: l.cells.client, Steps: &proxy.Steps{}, Env: env}
	l.cells.open[c] = true
	var err error
	if c.Postgres, err = l.cells.template.Copy(ctx, l.Dir, fmt.Sprintf("cell-%d", l.cells.n)); err != nil {
		return c, err
	}
	c.Postgres.Settings, c.Postgres.Clock = quietSettings, ahead
	if err := c.Postgres.Start(ctx); err != nil {
		return c, err
	}
	address := c.Postgres.URL(Database) + "&application_name=chaos&pool_max_conns=3" + postgres.Patient
	if c.db, err = pgxpool.New(ctx, address); err != nil {
		return c, fmt.Errorf("open pool: %w", err)
	}
	if c.Statements, err = proxy.NewStatements(c.Postgres.Address(), c.Steps); err != nil {
		return c, err
	}
	if c.Frontend, err = proxy.NewFrontend(l.Temporal.Address(), c.Steps); err != nil {
		return c, err
	}
	if err := c.Start(); err != nil {
		return c, err
	}
	return c, c.Ready(ctx)
}

// CloseCell closes a cell. It may be nil or half open.
func (l *Lab) CloseCell(c *Cell) error {
	if c == nil {
		return nil
	}
	l.cells.mu.Lock()
	delete(l.cells.open, c)
	l.cells.mu.Unlock()
	return c.close()
}

func (c *Cell) close() error {
	err := c.KillReplica()
	c.Steps.Release()
	if c.Statements != nil {
		err = errors.Join(err, c.Statements.Close())
	}
	if c.Frontend != nil {
		err = errors.Join(err, c.Frontend.Close())
	}
	if c.db != nil {
		c.db.Close()
	}
	if c.Postgres != nil {
		if c.Postgres.Running() {
			err = errors.Join(err, c.Postgres.Crash())
		}
		err = errors.Join(err, c.Postgres.Unmount())
	}
	return err
}

// Start starts the replica.
func (c *Cell) Start() error {
	c.starts++
	env := []string{"PGDISPATCH_WORKERS=4", "PGDISPATCH_LEASE=" + CellLease.String(),
		"PGDISPATCH_POLL_INTERVAL=" + CellPollInterval.String(), "PGDISPATCH_START_TIMEOUT=" + CellStartTimeout.String(),
		"TEMPORAL_NAMESPACE=" + cellNamespace}
	log := fmt.Sprintf("%s-replica-%d.log", filepath.Base(c.Postgres.Name), c.starts)
	var err error
	c.process, err = stack.Replica{Name: "replica of " + c.Postgres.Name, Binary: c.lab.options.Pgdispatch,
		DatabaseURL: postgres.URL(c.Statements.Address, Database), Temporal: c.Frontend.Address,
		Env: append(env, c.Env...), LogPath: filepath.Join(c.lab.Dir, log)}.Start()
	return err
}

// Ready waits until the replica listens.
func (c *Cell) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not within %s", readyTimeout))
	defer cancel()
	_, err := stack.AwaitSaying(ctx, c.process, stack.Listening)
	return err
}

// KillReplica kills the replica with SIGKILL.
func (c *Cell) KillReplica() error {
	if c.process == nil {
		return nil
	}
	return c.process.Kill()
}

// SetClock stops the server and starts it with a clock that is ahead of the machine's by the given duration.
func (c *Cell) SetClock(ctx context.Context, ahead time.Duration) error {
	if err := c.Postgres.Stop(fastStop); err != nil {
		return err
	}
	c.Postgres.Clock = ahead
	return c.StartPostgres(ctx)
}

// StartPostgres starts the server again.
func (c *Cell) StartPostgres(ctx context.Context) error {
	err := c.Postgres.Start(ctx)
	c.db.Reset() // its sessions are of the server before
	return err
}

// Workspace creates a workspace in which one workflow may run at the same time. Everything is enqueued in the last one.
func (c *Cell) Workspace(ctx context.Context) (err error) {
	c.workspaces++
	name := fmt.Sprintf("%s %d", c.Postgres.Name, c.workspaces)
	if err := c.Row(ctx, "workspace", []any{name, "FREE", 1, nil, nil}, &c.workspace); err != nil {
		return err
	}
	c.definitions, err = define(ctx, &c.Store, c.workspace)
	return err
}

// WorkspaceID returns the ID of the last workspace.
func (c *Cell) WorkspaceID() string { return c.workspace }

// Definition returns the ID of a definition of the last workspace.
func (c *Cell) Definition(name string) string { return c.definitions[name] }

// Enqueue inserts an item of a definition in the last workspace, with a limit key and an ID unless these are nil, and
// returns its execution ID.
func (c *Cell) Enqueue(ctx context.Context, definition string, key, id *string) (string, error) {
	execution := uuid.NewString()
	return execution, c.Exec(ctx, "cell_enqueue", c.workspace, c.definitions[definition], execution, key, id)
}

// Session opens an application's session.
func (c *Cell) Session(ctx context.Context) (*pgx.Conn, error) {
	return c.Postgres.Connect(ctx, Database)
}

// Status returns the status of an item, empty if it does not exist.
func (c *Cell) Status(ctx context.Context, execution string) (status string, err error) {
	err = c.Row(ctx, "cell_status", []any{execution}, &status)
	return status, err
}

// AwaitStatus waits until an item has one of the given statuses.
func (c *Cell) AwaitStatus(ctx context.Context, limit time.Duration, execution string, statuses ...string) error {
	return Await(ctx, limit, fmt.Sprintf("the item is %q", statuses), func() (bool, error) {
		status, err := c.Status(ctx, execution)
		for _, s := range statuses {
			if s == status {
				return true, err
			}
		}
		return false, err
	})
}

// Signal sends a signal to a workflow ID directly, past pgdispatch.
func (c *Cell) Signal(ctx context.Context, id, name string) error {
	return c.Client.SignalWorkflow(ctx, id, "", name, nil)
}
