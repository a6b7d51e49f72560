package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/proxy"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

const (
	// cellsAtOnce is how many cells are in use at the same time. They mostly wait for leases.
	cellsAtOnce = 8
	// stepLimit bounds the wait for a step, and stillFor is how long a cell must be still before the operation begins.
	stepLimit, stillFor = 4 * time.Second, 80 * time.Millisecond
	// trialLimit bounds the time from a cut until everything has ended: the lease of a signal that a dead replica took
	// is 15 s, and that of an item is shorter.
	trialLimit = 40 * time.Second
	// freedLimit bounds the wait until the next item of the workspace is completed.
	freedLimit = 15 * time.Second
	// mostTries is how often a trial that could not be made is tried.
	mostTries = 2
)

// crash is what dies at a step.
type crash struct {
	name              string
	postgres, replica bool
}

var crashes = []crash{{"Postgres", true, false}, {"the replica", false, true}, {"both", true, true}}

// incidental are requests that read only, or that a replica makes at intervals whatever else there is to do.
var incidental = []string{
	"reads", "writes the gate", "writes replicas", "writes activity", "writes workspace_activity", "writes watchers",
	"writes turns to list", "writes when executions were asked about", "writes the turn to look for stalls",
	"writes the position of a round", "writes stalls", "writes, by deleting", "CLAIMED -> PENDING, CLAIMED:", // a sweep
	"ping:", "listen", "unlisten", "select", "set", "GetSystemInfo", "DescribeNamespace", "ListWorkflowExecutions", "Check",
}

// quietFaults are crashes with a single operation in flight, and nothing else that would make its commits durable.
func quietFaults() []*Fault {
	var faults []*Fault
	for _, op := range operations() {
		faults = append(faults, &Fault{Name: "quiet-" + op.name, Matrix: []int{8, 21}, Domain: database,
			How: "with only " + op.how + " in flight, everything stops before and after each of its requests, and " +
				"Postgres, the replica, or both are killed; what Postgres did not have to write is lost",
			Lift:   "what was killed is started",
			Figure: "trials after which something was lost, done twice or left behind", Limit: 0, Unit: "trials",
			Alone: true, Inject: op.inject})
	}
	return append(faults, &Fault{Name: "quiet-numbers", Matrix: []int{21}, Domain: database,
		How: "Postgres is killed and loses transactions that the replica has seen; the next ones, an item among them, get " +
			"their numbers before the replica is connected again", Lift: "nothing to lift",
		Figure: "until the item is completed", Limit: postgresBack, Alone: true, Inject: numbersAgain})
}

// numbersAgain commits transactions that a crash loses, and lets the replica see them before.
func numbersAgain(ctx context.Context, s *Scene) (Lift, error) {
	const lost, others = 20, 50
	cell, err := s.OpenCell(ctx, 0)
	lift := func(ctx context.Context) (Measure, error) { return nil, s.CloseCell(cell) }
	if err != nil {
		return lift, err
	}
	t := &trial{Cell: cell}
	t.Steps.Ignore = isIncidental
	if err := errors.Join(t.Workspace(ctx), t.still(ctx), t.Postgres.Forgetful(ctx)); err != nil {
		return lift, err
	}
	for range lost {
		if err := t.Exec(ctx, "marker_lost"); err != nil {
			return lift, err
		}
	}
	if err := lab.Sleep(ctx, 3*lab.CellPollInterval); err != nil { // it looks once in an interval
		return lift, err
	}
	t.Statements.Refuse(true)
	if err := errors.Join(t.Postgres.Crash(), t.StartPostgres(ctx)); err != nil {
		return lift, err
	}
	err = enqueues(temporal.Work)(ctx, t)
	for range others {
		err = errors.Join(err, t.Exec(ctx, "marker"))
	}
	t.Statements.Refuse(false)
	began := time.Now()
	if err == nil {
		// The memory of a replica is compared with the database every minute.
		err = t.AwaitStatus(ctx, time.Minute+tolerance, t.execution, "COMPLETED")
	}
	took := time.Since(began).Seconds()
	return func(ctx context.Context) (Measure, error) {
		_, err := lift(ctx)
		return func(context.Context) (float64, error) { return took, nil }, err
	}, err
}

// operation is what is in flight.
type operation struct {
	name, how string
	// prepare brings the item to where the operation begins. act begins the operation. conclude lets the workflow end,
	// after everything else.
	prepare, act, conclude func(ctx context.Context, t *trial) error
	// cuts reports whether a step belongs to the operation. Nil means all but looks for signals.
	cuts func(seen []proxy.Step, n int) bool
	// took waits at a cut until Temporal has done what follows from the requests that it has received.
	took func(ctx context.Context, t *trial) error
	// expect sets what is expected.
	expect func(t *trial)
}

// trial is one cut.
type trial struct {
	*lab.Cell
	audit.Trial
	execution string
	step      *proxy.Step // nil: no cut
	crash     crash
	made      bool // the step was reached
	seen      []proxy.Step
}

func (op *operation) inject(ctx context.Context, s *Scene) (Lift, error) {
	s.Load.Pause(true)
	lift := func(context.Context) (Measure, error) {
		s.Load.Pause(false)
		return nil, nil
	}
	steps, err := op.steps(ctx, s)
	if err != nil {
		return lift, err
	}
	s.Logf("%s: its steps are: %s", op.name, words(steps))
	began := time.Now()
	var queue []*trial
	for range s.Rounds() {
		for _, crash := range crashes {
			for n := range steps {
				queue = append(queue, &trial{step: &steps[n], crash: crash})
			}
		}
	}
	made, broken, err := op.trials(ctx, s, queue)
	s.Logf("%s: %d of %d cuts were made in %.0f s, %d with a violation", op.name, made, len(queue),
		time.Since(began).Seconds(), broken)
	if made == 0 {
		err = errors.Join(err, errors.New("no cut was made"))
	}
	return func(ctx context.Context) (Measure, error) {
		_, _ = lift(ctx)
		return func(context.Context) (float64, error) { return float64(broken), nil }, nil
	}, err
}

func words(steps []proxy.Step) string {
	var names []string
	for _, step := range steps {
		names = append(names, step.String())
	}
	return strings.Join(names, "; ")
}

// steps runs the operation once without a cut, and returns its steps.
func (op *operation) steps(ctx context.Context, s *Scene) ([]proxy.Step, error) {
	var steps []proxy.Step
	t := &trial{}
	_, broken, err := op.trials(ctx, s, []*trial{t})
	if err == nil && broken > 0 {
		err = errors.New("the operation fails without a cut")
	}
	for n, step := range t.seen {
		if op.cuts == nil && !strings.HasPrefix(step.Request, takes) || op.cuts != nil && op.cuts(t.seen, n) {
			steps = append(steps, step)
		}
	}
	return steps, err
}

// trials runs all trials, in several cells.
func (op *operation) trials(ctx context.Context, s *Scene, queue []*trial) (made, broken int, err error) {
	next := make(chan *trial)
	var mu sync.Mutex
	var group sync.WaitGroup
	for range min(cellsAtOnce, len(queue)) {
		group.Go(func() {
			var cell *lab.Cell
			for t := range next {
				violations, tryErr := op.insist(ctx, s, &cell, t)
				mu.Lock()
				err = errors.Join(err, tryErr)
				if t.made {
					made++
				}
				if len(violations) > 0 {
					broken++
				}
				for _, v := range violations {
					s.Violate(v)
				}
				mu.Unlock()
			}
			violations, closeErr := closeCell(ctx, s, cell)
			mu.Lock()
			err = errors.Join(err, closeErr)
			for _, v := range violations {
				broken++
				s.Violate(v)
			}
			mu.Unlock()
		})
	}
	for _, t := range queue {
		if ctx.Err() != nil {
			break
		}
		next <- t
	}
	close(next)
	group.Wait()
	return made, broken, errors.Join(err, context.Cause(ctx))
}

// insist runs a trial, in a new cell if something else than the operation has failed in the last one.
func (op *operation) insist(
	ctx context.Context, s *Scene, cell **lab.Cell, t *trial,
) (violations []audit.Violation, err error) {
	for range mostTries {
		if *cell == nil {
			if *cell, err = s.OpenCell(ctx, 0); err != nil {
				err = errors.Join(err, s.CloseCell(*cell))
				*cell = nil
				continue
			}
			(*cell).Steps.Ignore = isIncidental
		}
		t.Cell, t.Trial = *cell, audit.Trial{}
		violations, err = op.run(ctx, s, t)
		if err == nil {
			return violations, nil
		}
		s.Logf("%s: %v", t.Name, err)
		err = fmt.Errorf("%s: %w", t.Name, errors.Join(err, s.CloseCell(*cell)))
		*cell = nil
	}
	return nil, err
}

// closeCell replays what happened in a cell, and closes it.
func closeCell(ctx context.Context, s *Scene, cell *lab.Cell) ([]audit.Violation, error) {
	if cell == nil {
		return nil, nil
	}
	changes, err := lab.Changes(ctx, cell)
	return audit.Replay(changes, lab.Cap).Violations, errors.Join(err, s.CloseCell(cell))
}

func isIncidental(request string) bool {
	for _, prefix := range incidental {
		if strings.HasPrefix(request, prefix) {
			return true
		}
	}
	return false
}

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
	if len(t.Signals) > 0 {
		if err := t.Client.GetWorkflow(ctx, temporal.WorkflowID(t.execution), "").Get(ctx, &t.Received); err != nil {
			return fmt.Errorf("read what the workflow has received: %w", err)
		}
	}
	next, err := t.Enqueue(ctx, temporal.Work, 0, nil)
	if err != nil {
		return err
	}
	if t.Freed = t.AwaitStatus(ctx, freedLimit, next, "COMPLETED") == nil; !t.Freed {
		status, _ := t.Status(ctx, next)
		s.Logf("%s: in %s, the next item %s is %s", t.Name, t.Postgres.Name, next, status)
	}
	return ctx.Err()
}
