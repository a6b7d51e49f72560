package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// run makes one trial.
func (op *operation) run(ctx context.Context, s *Scene, t *trial) ([]audit.Violation, error) {
	t.Name = op.name + " without a cut"
	if t.step != nil {
		t.Name = fmt.Sprintf("%s, crash of %s %s", op.name, t.crash.name, t.step)
	}
	t.Steps.Release()
	t.Frontend.Set(proxy.Rule{})
	if err := t.Workspace(ctx); err != nil {
		return nil, err
	}
	if err := op.prepare(ctx, t); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	if err := errors.Join(t.still(ctx), t.Postgres.Forgetful(ctx)); err != nil {
		return nil, err
	}
	reached := t.Steps.Record(t.step)
	if err := op.act(ctx, t); err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	if t.step != nil {
		if err := op.cut(ctx, t, reached); err != nil {
			return nil, err
		}
	}
	if err := op.follow(ctx, s, t); err != nil {
		return nil, err
	}
	return t.Judge(), nil
}

// still waits until the replica asks for nothing any more.
func (t *trial) still(ctx context.Context) error {
	moved, since := -1, time.Now()
	return lab.Await(ctx, tolerance, "the replica is still", func() (bool, error) {
		if now := t.Steps.Moved(); now != moved {
			moved, since = now, time.Now()
		}
		return time.Since(since) > stillFor, nil
	})
}

// cut waits for the step, and crashes what is to be crashed.
func (op *operation) cut(ctx context.Context, t *trial, reached <-chan struct{}) error {
	select {
	case <-reached:
		t.made = true
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(stepLimit):
		t.Steps.Release()
		return nil // judged nevertheless
	}
	if op.took != nil {
		if err := op.took(ctx, t); err != nil {
			return err
		}
	}
	t.seen = t.Steps.Seen()
	var err error
	if t.crash.postgres {
		err = t.Postgres.Crash()
	}
	if t.crash.replica {
		err = errors.Join(err, t.KillReplica())
		t.Steps.Drop()
	}
	t.Statements.Cut()
	t.Steps.Release()
	if t.crash.postgres {
		err = errors.Join(err, t.StartPostgres(ctx))
	}
	if t.crash.replica {
		err = errors.Join(err, t.Cell.Start())
	}
	return err
}

// follow waits until the operation is completed, and reads what became of it.
func (op *operation) follow(ctx context.Context, s *Scene, t *trial) error {
	began := time.Now()
	concluded := op.conclude == nil
	err := lab.Await(ctx, trialLimit, "the operation is completed", func() (bool, error) {
		var open int
		var ended bool
		err := t.Row(ctx, "cell_rest", []any{t.execution}, &open, &t.Undelivered, &t.OpenStops, &t.Recorded, &ended)
		found, foundErr := lab.Found(ctx, t.Cell, t.execution) // last: the end may come between the two
		t.Found, t.Took = found, time.Since(began)
		err = errors.Join(err, foundErr)
		if err == nil && open == 0 && !concluded {
			err = op.conclude(ctx, t)
			concluded = err == nil
		}
		return err == nil && open == 0 && t.OpenStops == 0 && ended && concluded, err
	})
	if ctx.Err() != nil {
		return err
	}
	if t.step == nil {
		t.seen = t.Steps.Seen()
	}
	t.Steps.Release()
	if t.Over = err == nil; !t.Over {
		return nil
	}
	op.expect(t)
	if t.Runs, err = lab.RunsOf(ctx, t.Cell, t.Item, t.Found); err != nil {
		return err
	}
	if t.Changes, err = lab.Changes(ctx, t.Cell); err != nil {
		return err
	}
	if len(t.Signals) > 0 {
		if err := t.Client.GetWorkflow(ctx, t.workflowID(), "").Get(ctx, &t.Received); err != nil {
			return fmt.Errorf("read what the workflow has received: %w", err)
		}
	}
	next, err := t.Enqueue(ctx, temporal.Work, nil, nil)
	if err != nil {
		return err
	}
	if t.Freed = t.AwaitStatus(ctx, freedLimit, next, "COMPLETED") == nil; !t.Freed {
		status, _ := t.Status(ctx, next)
		s.Logf("%s: in %s, the next item %s is %s", t.Name, t.Postgres.Name, next, status)
	}
	return ctx.Err()
}

// numbersAgain commits transactions that a crash loses, and lets the replica see them before.
func numbersAgain(ctx context.Context, s *Scene) (Lift, error) {
	var slowest time.Duration
	var err error
	for range s.Rounds() {
		took, onceErr := numbersOnce(ctx, s)
		slowest, err = max(slowest, took), errors.Join(err, onceErr)
	}
	return func(context.Context) (Measure, error) {
		return func(context.Context) (float64, error) { return slowest.Seconds(), nil }, nil
	}, err
}

// numbersOnce does so in a new cell. It returns how long the item took from then on.
func numbersOnce(ctx context.Context, s *Scene) (took time.Duration, err error) {
	const lost, others = 20, 50
	cell, err := s.OpenCell(ctx, 0)
	defer func() { err = errors.Join(err, s.CloseCell(cell)) }()
	if err != nil {
		return 0, err
	}
	t := &trial{Cell: cell}
	t.Steps.Ignore = isIncidental
	if err := errors.Join(t.Workspace(ctx), t.still(ctx), t.Postgres.Forgetful(ctx)); err != nil {
		return 0, err
	}
	for range lost {
		if err := t.Exec(ctx, "marker_lost"); err != nil {
			return 0, err
		}
	}
	if err := lab.Sleep(ctx, 3*lab.CellPollInterval); err != nil { // it looks once in an interval
		return 0, err
	}
	t.Statements.Refuse(true)
	if err := errors.Join(t.Postgres.Crash(), t.StartPostgres(ctx)); err != nil {
		return 0, err
	}
	err = enqueues(temporal.Work)(ctx, t)
	for range others {
		err = errors.Join(err, t.Exec(ctx, "marker"))
	}
	t.Statements.Refuse(false)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	// The memory of a replica is compared with the database every minute.
	err = t.AwaitStatus(ctx, time.Minute+tolerance, t.execution, "COMPLETED")
	return time.Since(began), err
}
