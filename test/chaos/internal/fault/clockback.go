package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

const (
	// setBack is how far the clock is set back.
	setBack = time.Hour
	// slack is how much later than after its own period something may go on: replicas reconnect, poll and look at
	// intervals.
	slack = 5 * time.Second
	// late is how long the harness waits beyond that.
	late = 3 * time.Second
	// longestBackoff is the longest time between two tries of a signal or a stop request.
	longestBackoff = 30 * time.Second
)

// ruleClock requires that nothing waits for a time that a clock which was ahead has written.
const ruleClock = "what waits goes on after its own period when the clock is set back"

// waiter is something that waits for a stored time.
type waiter struct {
	name string
	// period is how long it may wait by its own rule.
	period time.Duration
	// env is the replica's.
	env []string
	// wait brings it about, with a clock that is ahead. resume, after the clock has been set back, makes everything
	// ready for it to go on. done reports whether it has.
	wait, resume func(ctx context.Context, t *trial) error
	done         func(ctx context.Context, t *trial) (bool, error)
}

func waiters() []*waiter {
	return []*waiter{
		{name: "a workspace's rate", period: 2 * time.Second,
			wait: all(sets("cell_rate"), completed), resume: enqueues(temporal.Work)},
		{name: "a key's rate", period: 2 * time.Second,
			wait: all(sets("cell_key_rate"), completedWithKey), resume: enqueuesWithKey},
		{name: "the end of an execution that is not watched", period: time.Second, env: []string{"PGDISPATCH_MAX_WATCHES=0"},
			wait: all(runs(temporal.Hold), listed), resume: releases},
		{name: "the end of an execution whose watcher died", period: lab.CellLease + time.Second,
			wait: all(runs(temporal.Hold), killsReplica), resume: all(startsReplica, releases)},
		{name: "a refused signal", period: longestBackoff,
			wait: all(runs(temporal.Notes), refuses("SignalWorkflowExecution"), signals(1), noted("cell_signal_refused")),
			done: asks("cell_signal_delivered")},
		{name: "a refused stop request", period: longestBackoff,
			wait: all(runs(temporal.Hold), refuses("RequestCancelWorkflowExecution"), stops, noted("cell_stop_refused"))},
		{name: "an item that is due", wait: all(pauses(true), enqueues(temporal.Work)), resume: pauses(false)},
		{name: "a debounced item", period: 3 * time.Second, wait: debounces},
		{name: "an item that is retried", period: 3 * time.Second,
			wait: all(refusesOnce, enqueues(temporal.Work), noted("cell_retries"))},
		{name: "an item whose holder died", period: lab.CellLease + time.Second,
			wait: all(swallows, enqueues(temporal.Work), claimed, killsReplica), resume: startsReplica},
	}
}

func clockSetBack(ctx context.Context, s *Scene) (Lift, error) {
	s.Load.Pause(true)
	lift := func(context.Context) (Measure, error) {
		s.Load.Pause(false)
		return nil, nil
	}
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		worst float64
		err   error
	)
	tokens := make(chan struct{}, cellsAtOnce)
	for _, w := range waiters() {
		group.Go(func() {
			tokens <- struct{}{}
			defer func() { <-tokens }()
			took, tryErr := w.try(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			if tryErr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", w.name, tryErr))
				return
			}
			beyond := (took - w.period).Seconds()
			s.Logf("the clock is set back by %s under %s: it goes on after %.1f s, its own period is %.1f s", setBack, w.name,
				took.Seconds(), w.period.Seconds())
			worst = max(worst, beyond)
			if beyond > slack.Seconds() {
				s.Violate(audit.Violation{Rule: ruleClock,
					Detail: fmt.Sprintf("%s waits for more than %.1f s", w.name, took.Seconds())})
			}
		})
	}
	group.Wait()
	return func(ctx context.Context) (Measure, error) {
		_, _ = lift(ctx)
		return func(context.Context) (float64, error) { return worst, nil }, nil
	}, err
}

// try returns how long something waits after the clock has been set back.
func (w *waiter) try(ctx context.Context, s *Scene) (took time.Duration, err error) {
	cell, err := s.OpenCell(ctx, setBack, w.env...)
	defer func() { err = errors.Join(err, s.CloseCell(cell)) }()
	if err != nil {
		return 0, err
	}
	t := &trial{Cell: cell}
	if err := t.Workspace(ctx); err != nil {
		return 0, err
	}
	if err := w.wait(ctx, t); err != nil {
		return 0, fmt.Errorf("make it wait: %w", err)
	}
	if err := t.SetClock(ctx, 0); err != nil {
		return 0, err
	}
	t.Frontend.Set(proxy.Rule{})
	began := time.Now()
	if w.resume != nil {
		if err := w.resume(ctx, t); err != nil {
			return 0, fmt.Errorf("let it go on: %w", err)
		}
	}
	done := w.done
	if done == nil {
		done = ended
	}
	err = lab.Await(ctx, w.period+slack+late, w.name+" goes on", func() (bool, error) { return done(ctx, t) })
	if ctx.Err() != nil {
		return 0, err
	}
	return time.Since(began), nil // too late is judged by the caller
}

func all(parts ...func(context.Context, *trial) error) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		for _, part := range parts {
			if err := part(ctx, t); err != nil {
				return err
			}
		}
		return nil
	}
}

// ended reports whether the item has ended.
func ended(ctx context.Context, t *trial) (bool, error) {
	status, err := t.Status(ctx, t.execution)
	return status == "COMPLETED" || status == "FAILED", err
}

// sets executes a statement about the last workspace.
func sets(query string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error { return t.Exec(ctx, query, t.WorkspaceID()) }
}

func pauses(paused bool) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		return t.Exec(ctx, "set_workspace_pause", t.WorkspaceID(), paused)
	}
}

// completed starts and ends an item.
func completed(ctx context.Context, t *trial) error {
	if err := enqueues(temporal.Work)(ctx, t); err != nil {
		return err
	}
	return t.AwaitStatus(ctx, startedLimit, t.execution, "COMPLETED")
}

// limitedKey is a key with a rate.
var limitedKey = "limited"

func enqueuesWithKey(ctx context.Context, t *trial) (err error) {
	t.execution, err = t.Enqueue(ctx, temporal.Work, &limitedKey, nil)
	return err
}

func completedWithKey(ctx context.Context, t *trial) error {
	if err := enqueuesWithKey(ctx, t); err != nil {
		return err
	}
	return t.AwaitStatus(ctx, startedLimit, t.execution, "COMPLETED")
}

func debounces(ctx context.Context, t *trial) error {
	return t.Row(ctx, "cell_debounce", []any{t.WorkspaceID(), t.Definition(temporal.Work)}, &t.execution)
}

func claimed(ctx context.Context, t *trial) error {
	return t.AwaitStatus(ctx, startedLimit, t.execution, "CLAIMED")
}

func killsReplica(_ context.Context, t *trial) error { return t.KillReplica() }

func startsReplica(ctx context.Context, t *trial) error {
	return errors.Join(t.Start(), t.Ready(ctx))
}

// refuses makes Temporal refuse all calls of a method.
func refuses(method string) func(context.Context, *trial) error {
	return func(_ context.Context, t *trial) error {
		busy := serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "busy")
		t.Frontend.Set(proxy.Rule{Method: method, Refuse: serviceerror.ToStatus(busy).Err()})
		return nil
	}
}

// swallows makes Temporal answer no start.
func swallows(_ context.Context, t *trial) error {
	t.Frontend.Set(proxy.Rule{Method: proxy.Start, Swallow: true})
	return nil
}

// noted waits until a query about the execution is true.
func noted(query string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		return lab.Await(ctx, startedLimit, query, func() (bool, error) { return asks(query)(ctx, t) })
	}
}

// asks returns the answer to a query about the execution.
func asks(query string) func(context.Context, *trial) (bool, error) {
	return func(ctx context.Context, t *trial) (yes bool, err error) {
		err = t.Row(ctx, query, []any{t.execution}, &yes)
		return yes, err
	}
}

// listed waits until closed workflows have been listed.
func listed(ctx context.Context, t *trial) error {
	return lab.Await(ctx, startedLimit, "closed workflows are listed", func() (yes bool, err error) {
		err = t.Row(ctx, "cell_listed", nil, &yes)
		return yes, err
	})
}
