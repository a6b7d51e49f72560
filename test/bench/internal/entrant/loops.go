package entrant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// pollInterval is the poll interval of the polled design.
const pollInterval = 5 * time.Second

// floor is the minimum that a hand-written loop could do: it is notified of a row, claims it and starts its workflow.
// It settles nothing, recovers from nothing and enforces no limits.
func floor(ctx context.Context, child lab.Child, s *starter) error {
	listener, err := pgx.Connect(ctx, child.URL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer listener.Close(context.WithoutCancel(ctx))
	claimer, err := connect(ctx, child)
	if err != nil {
		return err
	}
	defer claimer.Close(context.WithoutCancel(ctx))
	if _, err := listener.Exec(ctx, lab.Query("listen_floor")); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for ctx.Err() == nil {
		found, err := floorOne(ctx, claimer, s)
		if err == nil && !found {
			_, err = listener.WaitForNotification(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func connect(ctx context.Context, child lab.Child) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(child.URL)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	if child.Async {
		config.RuntimeParams["synchronous_commit"] = "off"
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

func floorOne(ctx context.Context, conn *pgx.Conn, s *starter) (bool, error) {
	var id int64
	var execution, workspace, definition, params string
	err := conn.QueryRow(ctx, lab.Query("floor_claim")).Scan(&id, &execution, &workspace, &definition, &params)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim: %w", err)
	}
	return true, s.start(ctx, id, execution, workspace, definition, params)
}

// polled is the design that pgdispatch replaces: every five seconds it takes ten items and starts them one after
// another.
func polled(ctx context.Context, child lab.Child, s *starter) error {
	conn, err := connect(ctx, child)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		if err := polledBatch(ctx, conn, s); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	return nil
}

func polledBatch(ctx context.Context, conn *pgx.Conn, s *starter) error {
	type item struct {
		ID                                       int64
		Execution, Workspace, Definition, Params string
	}
	rows, err := conn.Query(ctx, lab.Query("polled_batch"))
	if err != nil {
		return fmt.Errorf("read batch: %w", err)
	}
	batch, err := pgx.CollectRows(rows, pgx.RowToStructByPos[item])
	if err != nil {
		return fmt.Errorf("read batch: %w", err)
	}
	for _, i := range batch {
		if _, err := conn.Exec(ctx, lab.Query("polled_mark"), i.ID, "CLAIMED"); err != nil {
			return fmt.Errorf("mark: %w", err)
		}
		if err := s.start(ctx, i.ID, i.Execution, i.Workspace, i.Definition, i.Params); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, lab.Query("polled_mark"), i.ID, "DISPATCHED"); err != nil {
			return fmt.Errorf("mark: %w", err)
		}
	}
	return nil
}

// raw measures what the machine can do without a queue: a number of starts, sent by a number of goroutines.
func raw(ctx context.Context, child lab.Child, s *starter) error {
	var g errgroup.Group
	for n := range child.Workers {
		g.Go(func() error {
			for i := n; i < child.Count && ctx.Err() == nil; i += child.Workers {
				id := uuid.NewString()
				if err := s.start(ctx, int64(i), id, id, id, lab.Params); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
