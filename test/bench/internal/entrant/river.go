package entrant

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// riverConnections is the number of connections that a product replica opens for claims and settles together.
const riverConnections = 10

// riverStop bounds River's soft stop.
const riverStop = 10 * time.Second

// OrderArgs is River's job: start this workflow.
type OrderArgs struct {
	Execution  string          `json:"execution"`
	Workspace  string          `json:"workspace"`
	Definition string          `json:"definition"`
	Params     json.RawMessage `json:"params"`
}

// Kind names the job.
func (OrderArgs) Kind() string { return "order" }

type orderWorker struct {
	river.WorkerDefaults[OrderArgs]
	starter *starter
	waits   bool
}

// Work starts the workflow of one job, and may wait for its end.
func (w *orderWorker) Work(ctx context.Context, job *river.Job[OrderArgs]) error {
	a := job.Args
	err := w.starter.start(ctx, job.ID, a.Execution, a.Workspace, a.Definition, string(a.Params))
	if err != nil || !w.waits {
		return err
	}
	return w.starter.awaitEnd(ctx, a.Execution)
}

// RiverClient creates a client as a Go team would. Zero cooldown means River's default. With nil work the client only
// inserts.
func RiverClient(
	pool *pgxpool.Pool, cooldown time.Duration, workers int, work *river.Workers,
) (*river.Client[pgx.Tx], error) {
	config := &river.Config{FetchCooldown: cooldown,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if work != nil {
		config.Workers = work
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}}
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return nil, fmt.Errorf("make River's client: %w", err)
	}
	return client, nil
}

// works runs River as a Go team would.
func works(ctx context.Context, child lab.Child, s *starter) error {
	config, err := pgxpool.ParseConfig(child.URL)
	if err != nil {
		return fmt.Errorf("read the database's address: %w", err)
	}
	config.MaxConns = riverConnections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &orderWorker{starter: s, waits: child.Waits})
	client, err := RiverClient(pool, child.Cooldown, child.Workers, workers)
	if err != nil {
		return err
	}
	running := context.WithoutCancel(ctx)
	if err := client.Start(running); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(running, riverStop)
	defer cancel()
	return client.Stop(stop)
}
