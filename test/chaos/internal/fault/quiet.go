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
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
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
	"writes the position of a round", "writes stalls", "writes statistics and marks", "writes, by deleting",
	"CLAIMED -> PENDING; PENDING -> CANCELLED: with leases", "CLAIMED -> CLAIMED: select bring_back", // a sweeper
	"ping:", "listen", "unlisten", "select", "set", "GetSystemInfo", "DescribeNamespace", "ListWorkflowExecutions",
	"ListActivityExecutions", "Check",
}

// quietFaults are crashes with a single operation in flight, and nothing else that would make its commits durable.
func quietFaults() []*Fault {
	var faults []*Fault
	for _, op := range operations() {
		faults = append(faults, &Fault{Name: "quiet-" + op.name, Matrix: []int{8, 21}, Domain: database,
			How: "only with " + op.how + " in flight, everything stops before and after each of its requests, and " +
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
	id        *string     // that the item names; nil: none
	step      *proxy.Step // nil: no cut
	crash     crash
	made      bool // the step was reached
	seen      []proxy.Step
}

// workflowID returns the ID of the item's workflow or activity.
func (t *trial) workflowID() string {
	if t.id != nil {
		return *t.id
	}
	return temporal.WorkflowID(t.execution)
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

// steps runs the operation once without a cut, and returns its steps. What became of it has no violation, and each that
// is planted must be seen.
func (op *operation) steps(ctx context.Context, s *Scene) ([]proxy.Step, error) {
	var steps []proxy.Step
	t := &trial{}
	_, broken, err := op.trials(ctx, s, []*trial{t})
	if err == nil && broken > 0 {
		err = errors.New("the operation fails without a cut")
	} else if blind := t.Blind(); err == nil && len(blind) > 0 {
		err = fmt.Errorf("the audit does not see %q", blind)
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
		t.Cell, t.Trial, t.id = *cell, audit.Trial{}, nil
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
