// Package lab measures the contestants: one durable Postgres cluster, a fresh database for each attempt, and processes
// that end with it.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

// Templates that databases are copied from.
const (
	// Ours has the product's schema, the tables of our own contestants, and Workspaces workspaces with a limit that is
	// never reached.
	Ours = "template_ours"
	// Rivers has River's schema.
	Rivers = "template_river"
)

// Workspaces is the number of workspaces that the items of most scenarios are spread over.
const Workspaces = 20

// NoLimit is a workspace limit that is never reached.
const NoLimit = 100000

// Settings are the cluster's settings: durable, with max_wal_size large enough that no checkpoint is triggered by size
// during a measurement.
var Settings = map[string]string{
	"fsync":              "on",
	"full_page_writes":   "on",
	"synchronous_commit": "on",
	"shared_buffers":     "512MB",
	"max_wal_size":       "8GB",
	"max_connections":    "500",
}

// Lab is one cluster and the processes that run against it.
type Lab struct {
	Cluster *sqltest.Cluster
	// Binary is the pgdispatch binary to measure.
	Binary string
	// Quick gives every scenario a fraction of its time, to check that it works. The figures are meaningless then.
	Quick bool
	// HasStatements reports whether the server has pg_stat_statements.
	HasStatements bool

	dir   string
	self  string
	admin *pgxpool.Pool
	slow  slowDisk
	names atomic.Int64
}

// Options configures a Lab.
type Options struct {
	Binary string
	Quick  bool
}

// Open starts the cluster and prepares the templates.
func Open(ctx context.Context, options Options) (*Lab, error) {
	binary, err := findBinary(options.Binary)
	if err != nil {
		return nil, fmt.Errorf("%w: run `make build`", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the benchmarks' own binary: %w", err)
	}
	l := &Lab{Binary: binary, Quick: options.Quick, self: self}
	if l.dir, err = os.MkdirTemp("", "pgdispatch-bench-*"); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func findBinary(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("find pgdispatch: %w", err)
	}
	return path, nil
}

func (l *Lab) open(ctx context.Context) error {
	settings := map[string]string{}
	for name, value := range Settings {
		settings[name] = value
	}
	binDir, err := sqltest.FindBinDir(ctx)
	if err != nil {
		return err
	}
	if l.HasStatements = canCountStatements(ctx, binDir); l.HasStatements {
		settings["shared_preload_libraries"] = "pg_stat_statements"
		// The one scenario that counts statements enables it for its own database.
		settings["pg_stat_statements.track"] = "none"
	}
	if l.slow, err = newSlowDisk(ctx, l.dir); err != nil {
		return err
	}
	l.Cluster, err = sqltest.StartCluster(ctx, sqltest.Options{BinDir: binDir, Settings: settings,
		Environment: l.slow.environment()})
	if err != nil {
		return err
	}
	if l.admin, err = pgxpool.New(ctx, l.Cluster.URL("postgres")); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	if err := l.template(ctx, Ours, migratedBy(l.Binary)); err != nil {
		return err
	}
	return l.template(ctx, Rivers, prepareRiver)
}

func canCountStatements(ctx context.Context, binDir string) bool {
	out, err := exec.CommandContext(ctx, filepath.Join(binDir, "pg_config"), "--pkglibdir").Output()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(strings.TrimSpace(string(out)), "pg_stat_statements.so"))
	return err == nil
}

func (l *Lab) template(ctx context.Context, name string, prepare func(context.Context, string) error) error {
	if _, err := l.admin.Exec(ctx, "create database "+name+" template template0"); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if err := prepare(ctx, l.Cluster.URL(name)); err != nil {
		return fmt.Errorf("prepare %s: %w", name, err)
	}
	return nil
}

// migratedBy lets a binary create its own schema, so that the product is measured as shipped.
func migratedBy(binary string) func(context.Context, string) error {
	return func(ctx context.Context, url string) error { return prepareOurs(ctx, binary, url) }
}

func prepareOurs(ctx context.Context, binary, url string) error {
	if err := stack.Migrate(ctx, binary, url); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, Query("tables")); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, Query("workspaces"), Workspaces, NoLimit, "team")
	return err
}

func prepareRiver(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// Version returns the server's version.
func (l *Lab) Version(ctx context.Context) (version string, err error) {
	err = l.admin.QueryRow(ctx, "show server_version").Scan(&version)
	return version, err
}

// Close stops the cluster and removes its files.
func (l *Lab) Close() error {
	var err error
	if l.admin != nil {
		l.admin.Close()
	}
	if l.Cluster != nil {
		err = l.Cluster.Stop()
	}
	return errors.Join(err, l.slow.remove(), os.RemoveAll(l.dir))
}

// Database is a fresh database for one attempt.
type Database struct {
	Name, URL string
	// Pool is for measuring. Its connections commit durably.
	Pool *pgxpool.Pool

	lab *Lab
}

// Database creates a database from a template, with its own settings. It flushes all earlier writes to disk first, so
// that no contestant pays for its predecessor.
func (l *Lab) Database(ctx context.Context, template string, settings map[string]string) (*Database, error) {
	d := &Database{Name: fmt.Sprintf("bench_%d", l.names.Add(1)), lab: l}
	if _, err := l.admin.Exec(ctx, "create database "+d.Name+" template "+template); err != nil {
		return nil, fmt.Errorf("create database: %w", err)
	}
	for name, value := range settings {
		if _, err := l.admin.Exec(ctx, fmt.Sprintf("alter database %s set %s = '%s'", d.Name, name, value)); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	d.URL = l.Cluster.URL(d.Name)
	config, err := pgxpool.ParseConfig(d.URL)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	config.MaxConns = 40
	if d.Pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return d, l.Checkpoint(ctx)
}

// Checkpoint writes all dirty pages, so that every measurement starts from the same point.
func (l *Lab) Checkpoint(ctx context.Context) error {
	_, err := l.admin.Exec(ctx, "checkpoint")
	return err
}

// Drop removes the database, even while clients are connected.
func (d *Database) Drop() error {
	d.Pool.Close()
	if _, err := d.lab.admin.Exec(context.Background(), "drop database "+d.Name+" with (force)"); err != nil {
		return fmt.Errorf("drop database: %w", err)
	}
	return nil
}
