package telemetry

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// starter starts workflows.
type starter interface {
	Start(ctx context.Context, item claim.Item) (runID string, err error)
	Find(ctx context.Context, item claim.Item) (runID string, found bool, err error)
}

// Starter measures a starter. If tracing is on, the workflow continues the dispatcher's span, which continues the
// enqueuer's.
type Starter struct {
	starter
	t        *Telemetry
	classify func(error) string
}

// Starter wraps a starter. classify returns the outcome that an error means. If t is nil, nothing is measured.
func (t *Telemetry) Starter(of starter, classify func(error) string) *Starter {
	return &Starter{starter: of, t: t, classify: classify}
}

// Start starts an item's workflow.
func (s *Starter) Start(ctx context.Context, item claim.Item) (runID string, err error) {
	if s.t == nil {
		return s.starter.Start(ctx, item)
	}
	one, outcome, began := s.t.hands.of(item), "panic", time.Now()
	item, ended := s.t.hands.startSpans(one, item)
	defer func() {
		s.t.instruments.record("pgdispatch_start_duration_seconds", time.Since(began).Seconds())
		ended(runID, outcome, err)
		if outcome != "started" {
			s.t.instruments.count("queue_dispatch_failures_total", 1, outcome)
		}
		if one != nil {
			one.outcome = outcome
			if outcome == "started" {
				s.t.instruments.record("pgdispatch_wait_seconds", one.due().Seconds())
			}
		}
	}()
	runID, err = s.starter.Start(ctx, item)
	outcome = word(s.classify(err))
	return runID, err
}

// Waiter counts the running waits of a waiter whose Wait returns End.
type Waiter[End any] struct {
	t     *Telemetry
	inner waiter[End]
}

type waiter[End any] interface {
	Wait(ctx context.Context, execution claim.Execution) (End, error)
}

// NewWaiter wraps a waiter. If t is nil, nothing is measured.
func NewWaiter[End any](t *Telemetry, of waiter[End]) *Waiter[End] { return &Waiter[End]{t, of} }

// Wait waits for an execution's end.
func (w *Waiter[End]) Wait(ctx context.Context, execution claim.Execution) (End, error) {
	if w.t != nil {
		w.t.watches.Add(1)
		defer w.t.watches.Add(-1)
	}
	return w.inner.Wait(ctx, execution)
}
