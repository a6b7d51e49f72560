// Package complete learns how workflows end: it long-polls Temporal for the close event of each open execution, follows a
// chain of runs to its last, and records the end, which frees the workspace's slot.
package complete

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Finisher records ends.
type Finisher interface {
	Finish(ctx context.Context, executionID, outcome, reason, result string) (first bool, err error)
}

// Store is the part of the store that the watcher needs.
type Store interface {
	Finisher
	Adopt(ctx context.Context, atMost int, watching []string) ([]claim.Execution, error)
	SwapWatches(ctx context.Context, atMost int) (taken []claim.Execution, dropped []string, err error)
	GiveUpWatches(ctx context.Context, executionIDs []string) error
	OpenAmong(ctx context.Context, executionIDs []string) ([]claim.Execution, error)
}

// Waiter waits for an execution's end: TemporalWaiter, or a fake in tests. It returns ErrCrowded where Temporal has no room for
// one more long poll, and ErrAway where Temporal did not answer.
type Waiter interface {
	Wait(ctx context.Context, execution claim.Execution) (End, error)
}

// End is how an execution ended.
type End struct {
	Outcome string // Temporal's name for it: COMPLETED, FAILED, CANCELED, TERMINATED or TIMED_OUT
	Reason  string // why it did not complete; of one that did, a note on its result
	Result  string // of COMPLETED, as JSON; "": none is kept
}

const (
	// retryBase and retryCap bound the pauses between tries to wait for an end or to record it.
	retryBase = 50 * time.Millisecond
	retryCap  = 5 * time.Second
	// jitterPercent keeps the watches that an outage broke from coming back together.
	jitterPercent = 50
	// tendInterval is how soon the table hears of executions that are not watched after all.
	tendInterval = time.Second
	// easeInterval is how often a bound that was halved comes up again by a step.
	easeInterval = 5 * time.Second
	// atMostSwapped is how many watches change hands at once where there is no room for more.
	atMostSwapped = 100
)

// Watcher watches the executions that this replica started, and those that a dead replica left. Its fields are set before
// Run and not changed after.
type Watcher struct {
	Store  Store
	Waiter Waiter
	// MaxWatches is how many executions are watched at once, each with a long poll of its own; 0: none. Temporal allows 1,200 in
	// a namespace and frontend by default, whoever polls; where it refuses one, this replica watches fewer for a while. What is
	// above waits until there is room, or for the Reconciler: first what a slot is waited for.
	MaxWatches int
	// Grace is how long WatchLater waits.
	Grace time.Duration
	// Reached says whether Temporal answers this replica. While it does not, the replica watches nothing, so that others may.
	// Nil: it always does.
	Reached func() bool
	// Freed is called when an execution has ended, and a slot is free; it must not block. Nil: nobody is told.
	Freed func()
	Log   *slog.Logger

	mu       sync.Mutex
	watching map[string]*watch // those with a goroutine, or in queue
	queue    chan *watch       // made by Run
	later    map[string]time.Time
	bound    bound
	// excess are executions that the table has as watched here, and that are not.
	excess []string
	// holds: the table may have executions as watched here.
	holds bool
	// wants: there may be executions that nobody watches.
	wants bool
	// told: somebody has seen some. nudge: to look at once.
	told  bool
	nudge chan struct{}
}

// watch is one execution that is watched, or is about to be.
type watch struct {
	claim.Execution
	cancel context.CancelFunc // nil: in queue
}

// Watch begins to watch an execution that this replica has just started. It does not block; what does not fit is given up for
// others to take, and so is what comes before Run.
func (w *Watcher) Watch(execution claim.Execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds = true
	if w.queue == nil {
		w.giveUp(execution.ID)
		return
	}
	if _, watched := w.watching[execution.ID]; watched {
		return
	}
	if len(w.watching) >= w.bound.now {
		w.giveUp(execution.ID)
		return
	}
	entry := &watch{Execution: execution}
	select {
	case w.queue <- entry:
		w.watching[execution.ID] = entry
	default:
		w.giveUp(execution.ID)
	}
}

// HasRoom says whether so many more executions can be watched.
func (w *Watcher) HasRoom(executions int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watching)+executions <= w.bound.now
}

// Unwatched tells the watcher whether there are executions that nobody watches.
func (w *Watcher) Unwatched(are bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = w.told || are
	if are {
		select {
		case w.nudge <- struct{}{}:
		default: // it looks anyway, or does not run yet
		}
	}
	w.wants = w.wants && (are || len(w.excess) > 0)
}

// Wants says whether this replica knows of executions that nobody watches.
func (w *Watcher) Wants() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wants
}

// Watching is how many executions are watched here, or will be if they stay open.
func (w *Watcher) Watching() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watching) + len(w.later)
}

// giveUp notes, under the lock, that an execution is not watched here.
func (w *Watcher) giveUp(executionID string) {
	w.excess = append(w.excess, executionID)
	w.wants = true
}

// Run watches until ctx is cancelled, and returns nil then.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	w.watching = map[string]*watch{}
	w.bound = bound{limit: w.MaxWatches, now: w.MaxWatches}
	w.queue = make(chan *watch, w.MaxWatches)
	w.nudge = make(chan struct{}, 1)
	w.told = true // what this replica's predecessor left
	w.mu.Unlock()

	var watches errgroup.Group
	tend := time.NewTimer(0)
	defer tend.Stop()
	easeAt := time.Now()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case entry := <-w.queue:
			watching, cancel := context.WithCancel(ctx)
			w.mu.Lock()
			entry.cancel = cancel
			w.mu.Unlock()
			watches.Go(func() error {
				defer cancel()
				w.watch(ctx, watching, entry)
				return nil
			})
		case <-w.nudge:
			easeAt = w.tend(ctx, easeAt)
		case <-tend.C:
			easeAt = w.tend(ctx, easeAt)
			tend.Reset(tendInterval)
		}
	}
	return watches.Wait()
}

// tend brings what is watched and what the table says together: what it was told of is adopted, at the start too, and when it
// reaches Temporal again. It returns when to ease the bound next.
func (w *Watcher) tend(ctx context.Context, easeAt time.Time) time.Time {
	if w.Reached != nil && !w.Reached() {
		w.withdraw(ctx)
		return time.Now()
	}
	w.mu.Lock()
	excess := w.excess
	w.excess = nil
	adopts := w.told || (w.wants && len(w.watching) < w.bound.now)
	w.told = false
	if now := time.Now(); !now.Before(easeAt) {
		w.bound.ease()
		easeAt = now.Add(easeInterval)
	}
	w.mu.Unlock()
	if len(excess) > 0 {
		if err := w.Store.GiveUpWatches(ctx, excess); err != nil {
			w.complain(ctx, err)
			w.mu.Lock()
			w.excess = append(w.excess, excess...)
			w.told = w.told || adopts
			w.mu.Unlock()
			return easeAt
		}
	}
	w.watchLate(ctx)
	if adopts {
		w.adopt(ctx)
	}
	return easeAt
}

// withdraw ends all watches and says so in the table: another replica may reach Temporal where this one does not. It does so
// once, and again for what was started since.
func (w *Watcher) withdraw(ctx context.Context) {
	w.mu.Lock()
	holds := w.holds
	w.holds, w.excess, w.wants, w.later = false, nil, true, nil
	for _, entry := range w.watching {
		if entry.cancel != nil {
			entry.cancel()
		}
	}
	w.mu.Unlock()
	if !holds {
		return
	}
	if err := w.Store.GiveUpWatches(ctx, nil); err != nil {
		w.complain(ctx, err)
		w.mu.Lock()
		w.holds = true
		w.mu.Unlock()
	}
}

func (w *Watcher) complain(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.Log.ErrorContext(ctx, "Cannot give up watches", "error", err)
	}
}

// adopt takes over what nobody alive watches: at the start, that is what this replica's predecessor left. Where there is no room,
// it changes watches that nobody waits for against such as somebody does.
func (w *Watcher) adopt(ctx context.Context) {
	w.mu.Lock()
	watching := w.known()
	room := w.bound.now - len(w.watching)
	w.mu.Unlock()
	var executions []claim.Execution
	var dropped []string
	var err error
	switch {
	case room > 0:
		executions, err = w.Store.Adopt(ctx, room, watching)
	case w.MaxWatches > 0:
		executions, dropped, err = w.Store.SwapWatches(ctx, min(atMostSwapped, max(w.MaxWatches/2, 1)))
	}
	if err != nil {
		if ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "Cannot look for executions to watch", "error", err)
		}
		return
	}
	w.mu.Lock()
	for _, id := range dropped {
		if entry := w.watching[id]; entry != nil && entry.cancel != nil {
			entry.cancel()
			delete(w.watching, id)
		}
		delete(w.later, id)
	}
	w.wants = room <= 0 || len(executions) >= room
	w.mu.Unlock()
	for _, execution := range executions {
		w.Watch(execution)
	}
	if len(executions) > 0 {
		w.Log.InfoContext(ctx, "Watching executions that nobody watched", "executions", len(executions))
	}
}

// watch waits for one execution's end, for as long as it is to be watched, and records it. An end that is known is recorded in
// any case.
func (w *Watcher) watch(ctx, watching context.Context, entry *watch) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.watching[entry.ID] == entry { // not watched anew meanwhile
			delete(w.watching, entry.ID)
		}
	}()
	var end End
	err := insist(watching, w.Log, entry.ID, "Cannot wait for an execution's end", func(ctx context.Context) (err error) {
		end, err = w.Waiter.Wait(ctx, entry.Execution)
		return err
	})
	if errors.Is(err, ErrCrowded) {
		w.crowded(ctx, entry.ID)
	}
	if err == nil {
		record(ctx, w.Store, w.Log, entry.ID, end, w.Freed)
	}
}

// crowded takes Temporal's word that there are too many long polls.
func (w *Watcher) crowded(ctx context.Context, executionID string) {
	w.mu.Lock()
	w.giveUp(executionID)
	halved, now := w.bound.refused(len(w.watching)), w.bound.now
	w.mu.Unlock()
	if halved {
		w.Log.WarnContext(ctx, "Temporal refuses long polls: watching fewer executions for a while", "watches", now)
	}
}
