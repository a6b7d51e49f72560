// Package complete learns how workflows end: it long-polls Temporal for the close event of each open execution, follows a
// chain of runs to its last, and records the end, which frees the workspace's slot.
package complete

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sethvargo/go-retry"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Store is the part of the store that the watcher needs.
type Store interface {
	Finish(ctx context.Context, executionID, outcome, reason string) (first bool, err error)
	Adopt(ctx context.Context, atMost int, watching []string) ([]claim.Execution, error)
}

// Waiter waits for an execution's end: TemporalWaiter, or a fake in tests.
type Waiter interface {
	Wait(ctx context.Context, execution claim.Execution) (End, error)
}

// End is how an execution ended.
type End struct {
	Outcome string // Temporal's name for it: COMPLETED, FAILED, CANCELED, TERMINATED or TIMED_OUT
	Reason  string // of any but COMPLETED
}

const (
	// retryBase and retryCap bound the pauses between tries to wait for an end or to record it.
	retryBase = 50 * time.Millisecond
	retryCap  = 5 * time.Second
	// jitterPercent keeps the watches that an outage broke from coming back together.
	jitterPercent = 50
)

// Watcher watches the executions that this replica started, and those that a dead replica left. Its fields are set before
// Run and not changed after.
type Watcher struct {
	Store  Store
	Waiter Waiter
	// MaxWatches is how many executions are watched at once, each with a long poll of its own. Temporal allows 1,200 in a
	// namespace and frontend by default. What is above waits unwatched until one of them ends.
	MaxWatches int
	// AdoptInterval is how often the watcher looks for executions that nobody watches.
	AdoptInterval time.Duration
	// Freed is called when an execution has ended, and a slot is free; it must not block. Nil: nobody is told.
	Freed func()
	Log   *slog.Logger

	mu       sync.Mutex
	watching map[string]bool      // executions with a goroutine, or in queue
	queue    chan claim.Execution // made by Run
}

// Watch begins to watch an execution that this replica has just started. It does not block; what does not fit is adopted
// later. Before Run it does nothing.
func (w *Watcher) Watch(executionID, runID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil || w.watching[executionID] || len(w.watching) >= w.MaxWatches {
		return
	}
	select {
	case w.queue <- claim.Execution{ID: executionID, RunID: runID}:
		w.watching[executionID] = true
	default:
	}
}

// Run watches until ctx is cancelled, and returns nil then.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	w.watching = map[string]bool{}
	w.queue = make(chan claim.Execution, w.MaxWatches)
	w.mu.Unlock()

	var watches errgroup.Group
	adopt := time.NewTimer(0)
	defer adopt.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case execution := <-w.queue:
			watches.Go(func() error { w.watch(ctx, execution); return nil })
		case <-adopt.C:
			w.adopt(ctx)
			adopt.Reset(w.AdoptInterval)
		}
	}
	return watches.Wait()
}

// adopt takes over what nobody alive watches: at the start, that is what this replica's predecessor left.
func (w *Watcher) adopt(ctx context.Context) {
	w.mu.Lock()
	watching := slices.Collect(maps.Keys(w.watching))
	w.mu.Unlock()
	room := w.MaxWatches - len(watching)
	if room <= 0 {
		return
	}
	executions, err := w.Store.Adopt(ctx, room, watching)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "Cannot look for executions to watch", "error", err)
		}
		return
	}
	for _, execution := range executions {
		w.Watch(execution.ID, execution.RunID)
	}
	if len(executions) > 0 {
		w.Log.InfoContext(ctx, "Watching executions that nobody watched", "executions", len(executions))
	}
}

// watch waits for one execution's end and records it.
func (w *Watcher) watch(ctx context.Context, execution claim.Execution) {
	defer func() {
		w.mu.Lock()
		delete(w.watching, execution.ID)
		w.mu.Unlock()
	}()
	var end End
	if !w.insist(ctx, execution, "Cannot wait for an execution's end", func(ctx context.Context) (err error) {
		end, err = w.Waiter.Wait(ctx, execution)
		return err
	}) {
		return
	}
	var first bool
	if !w.insist(ctx, execution, "Cannot record an execution's end", func(ctx context.Context) (err error) {
		first, err = w.Store.Finish(ctx, execution.ID, end.Outcome, end.Reason)
		return err
	}) {
		return
	}
	if !first {
		return
	}
	w.Log.InfoContext(ctx, "Execution ended", "execution_id", execution.ID, "outcome", end.Outcome, "error", claim.Clean(end.Reason))
	if w.Freed != nil {
		w.Freed()
	}
}

// insist tries until it succeeds, and returns false when ctx is cancelled first. A panic is a try that failed. The log
// hears of an error when it is another than the last one.
func (w *Watcher) insist(ctx context.Context, execution claim.Execution, complaint string, try func(context.Context) error) bool {
	backoff := retry.WithJitterPercent(jitterPercent, retry.WithCappedDuration(retryCap, retry.NewExponential(retryBase)))
	last := ""
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		err := contained(ctx, try)
		if err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			w.Log.WarnContext(ctx, complaint, "execution_id", execution.ID, "error", claim.Clean(last))
		}
		return retry.RetryableError(err)
	})
	return err == nil
}

func contained(ctx context.Context, try func(context.Context) error) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("panic: %v", recovered)
		}
	}()
	return try(ctx)
}
