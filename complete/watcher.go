// Package complete detects the end of workflows. It long-polls Temporal for the close event of each open execution,
// follows chains of runs to the last one, and records the end, which frees the workspace's slot.
package complete

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"golang.org/x/sync/errgroup"
)

// Finisher records the end of an execution. first reports whether the end was not recorded before. Ends and Postgres
// implement it.
type Finisher interface {
	Finish(ctx context.Context, executionID, outcome, reason, result string) (first bool, err error)
}

// Store is the part of the store that Watcher needs.
type Store interface {
	Adopt(ctx context.Context, atMost int, watching []string) ([]temporal.Execution, error)
	SwapWatches(ctx context.Context, atMost int) (taken []temporal.Execution, dropped []string, err error)
	GiveUpWatches(ctx context.Context, executionIDs []string) error
	OpenAmong(ctx context.Context, executionIDs []string) ([]temporal.Execution, error)
}

// Waiter waits for the end of an execution. It returns temporal.ErrCrowded if Temporal refuses another long poll,
// temporal.ErrAway if Temporal does not answer, and temporal.ErrMissing if it does not find the execution.
// temporal.Client implements it.
type Waiter interface {
	Wait(ctx context.Context, execution temporal.Execution) (temporal.End, error)
}

const (
	// retryBase and retryCap limit the backoff for waiting for an end and for recording it.
	retryBase = 50 * time.Millisecond
	retryCap  = 5 * time.Second
	// spreadPercent spreads the watches that an outage interrupted, so that they do not all resume at once.
	spreadPercent = 50
	// tendInterval is how often given-up watches are written to the table.
	tendInterval = time.Second
	// easeInterval is the time between two steps in which a halved bound grows again.
	easeInterval = 5 * time.Second
	// atMostSwapped limits the watches swapped at once when there is no room for more.
	atMostSwapped = 100
)

// Watcher watches the executions that this replica started, and those that a dead replica left. Set the fields before
// Run and do not change them afterwards.
type Watcher struct {
	Store  Store
	Ends   Finisher
	Waiter Waiter
	// Missing decides about executions that Temporal does not find.
	Missing *Missing
	// MaxWatches limits concurrent watches, each of which uses one long poll. Zero disables watching. Temporal allows
	// 1,200 long polls per namespace and frontend by default, across all clients. If Temporal refuses one, this replica
	// temporarily watches fewer. Excess executions wait for room or for the Reconciler. Those whose workspace has items
	// waiting for a slot come first.
	MaxWatches int
	// Grace is the delay before an execution passed to WatchLater is watched.
	Grace time.Duration
	// Reached reports whether this replica reaches Temporal. While it does not, it gives up its watches for others to
	// take. If nil, Temporal is assumed to be reachable.
	Reached func() bool
	// Freed is called after an end is recorded and its slot is free. It must not block. Nil disables it.
	Freed func()
	// Adopted is called after each attempt to take over unwatched executions. It must not block. Nil disables it.
	Adopted func(executions int, err error)
	Log     *slog.Logger

	waiting  atomic.Int64
	mu       sync.Mutex
	watching map[string]*watch // those with a goroutine, and those in queue
	queue    chan *watch       // made by Run
	later    map[string]time.Time
	bound    bound
	// excess holds executions that the table assigns to this replica but that it does not watch.
	excess []string
	// holds means that the table may assign executions to this replica.
	holds bool
	// wants means that unwatched executions may exist.
	wants bool
	// told means that unwatched executions were reported. nudge triggers an immediate look.
	told  bool
	nudge chan struct{}
}

// watch is an execution that is watched or queued.
type watch struct {
	temporal.Execution
	workspace string             // see WatchSlot
	cancel    context.CancelFunc // nil while in queue
}

// Watch starts watching an execution that this replica has just started. It does not block. Before Run, or if there is
// no room, the execution is given up for other replicas.
func (w *Watcher) Watch(execution temporal.Execution) { w.WatchSlot("", execution) }

// WatchSlot is Watch for an execution whose end frees a slot of a workspace and nothing else that may be waited for.
// SlotOf returns that workspace.
func (w *Watcher) WatchSlot(workspaceID string, execution temporal.Execution) {
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
	entry := &watch{Execution: execution, workspace: workspaceID}
	select {
	case w.queue <- entry:
		w.watching[execution.ID] = entry
	default:
		w.giveUp(execution.ID)
	}
}

// SlotOf returns the workspace of which all that a watched execution's end frees is a slot. Empty if that is not known.
func (w *Watcher) SlotOf(executionID string) (workspaceID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if entry := w.watching[executionID]; entry != nil {
		return entry.workspace
	}
	return ""
}

// HasRoom reports whether that many more executions can be watched.
func (w *Watcher) HasRoom(executions int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watching)+executions <= w.bound.now
}

// Unwatched reports to the watcher whether unwatched executions exist.
func (w *Watcher) Unwatched(are bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = w.told || are
	if are {
		select {
		case w.nudge <- struct{}{}:
		default: // a nudge is pending, or Run has not started
		}
	}
	w.wants = w.wants && (are || len(w.excess) > 0)
}

// Wants reports whether this replica knows of unwatched executions.
func (w *Watcher) Wants() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wants
}

// Waiting returns the number of executions whose end this replica waits for at Temporal.
func (w *Watcher) Waiting() int { return int(w.waiting.Load()) }

// Watching returns the number of executions that are watched here or that WatchLater has registered.
func (w *Watcher) Watching() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watching) + len(w.later)
}

// giveUp notes that an execution is not watched here. The caller holds mu.
func (w *Watcher) giveUp(executionID string) {
	w.excess = append(w.excess, executionID)
	w.wants = true
}

// Run watches executions until ctx is cancelled, then returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	w.watching = map[string]*watch{}
	w.bound = bound{limit: w.MaxWatches, now: w.MaxWatches}
	w.queue = make(chan *watch, w.MaxWatches)
	w.nudge = make(chan struct{}, 1)
	w.told = true // adopt what this replica's predecessor left
	w.mu.Unlock()

	var watches errgroup.Group
	tend := time.NewTimer(0)
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

// tend reconciles the actual watches with the table: it gives up excess watches and adopts reported executions. It also
// adopts at the start and when Temporal becomes reachable again. It returns the time at which to ease the bound next.
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

// withdraw cancels all watches and gives them up in the table, because another replica may still reach Temporal. It
// writes to the table once, and again for executions started since.
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
		w.Log.ErrorContext(ctx, "Cannot release watches", "error", err)
	}
}

// adopt takes over executions that no live replica watches. At the start, these include those that this replica's
// predecessor left. If there is no room, it swaps watches in workspaces without waiting items for executions in
// workspaces with waiting items.
func (w *Watcher) adopt(ctx context.Context) {
	w.mu.Lock()
	watching := w.known()
	room := w.bound.now - len(w.watching)
	w.mu.Unlock()
	var executions []temporal.Execution
	var dropped []string
	var err error
	switch {
	case room > 0:
		executions, err = w.Store.Adopt(ctx, room, watching)
		if w.Adopted != nil {
			w.Adopted(len(executions), err)
		}
	case w.MaxWatches > 0:
		executions, dropped, err = w.Store.SwapWatches(ctx, min(atMostSwapped, max(w.MaxWatches/2, 1)))
	}
	if err != nil {
		if ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "Cannot find executions to watch", "error", err)
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
	w.wants = room <= 0 || len(executions) >= room || len(w.excess) > 0
	w.mu.Unlock()
	for _, execution := range executions {
		w.Watch(execution)
	}
	if len(executions) > 0 {
		w.Log.InfoContext(ctx, "Adopted executions without a watcher", "executions", len(executions))
	}
}

// watch waits for the end of an execution until watching is cancelled. An end that is known is recorded even then,
// until ctx ends.
func (w *Watcher) watch(ctx, watching context.Context, entry *watch) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.watching[entry.ID] == entry { // unless it is watched again
			delete(w.watching, entry.ID)
		}
	}()
	end, err := w.wait(watching, entry)
	if errors.Is(err, temporal.ErrCrowded) {
		w.crowded(ctx, entry.ID)
	}
	if err == nil {
		record(ctx, w.Ends, w.Log, entry.ID, end, w.Freed)
	}
}

// wait returns how an execution ended, once it has.
func (w *Watcher) wait(ctx context.Context, entry *watch) (end temporal.End, err error) {
	for {
		err := retryUntilDone(ctx, w.Log, entry.ID, "Cannot watch an execution", func(ctx context.Context) (err error) {
			w.waiting.Add(1)
			defer w.waiting.Add(-1)
			end, err = w.Waiter.Wait(ctx, entry.Execution)
			return err
		})
		if !isMissing(err) {
			return end, err
		}
		if end, ended, err := w.Missing.Decide(ctx, entry.Execution); ended || err != nil {
			return end, err
		}
	}
}

// crowded handles a long poll that Temporal refused: it gives up the watch and halves the bound.
func (w *Watcher) crowded(ctx context.Context, executionID string) {
	w.mu.Lock()
	w.giveUp(executionID)
	halved, now := w.bound.refused(len(w.watching)), w.bound.now
	w.mu.Unlock()
	if halved {
		w.Log.WarnContext(ctx, "Temporal rejects long polls; watching fewer executions for a while", "watches", now)
	}
}
