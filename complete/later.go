package complete

import (
	"context"
	"maps"
	"slices"
	"time"
)

// WatchLater registers an execution that this replica has just started and whose end Temporal reports by callback. If
// it is still open after Grace, it is watched. Most have ended by then and need no long poll.
func (w *Watcher) WatchLater(executionID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds = true
	if w.later == nil {
		w.later = map[string]time.Time{}
	}
	w.later[executionID] = time.Now().Add(w.Grace)
}

// watchLate watches the executions that are still open after their grace period.
func (w *Watcher) watchLate(ctx context.Context) {
	w.mu.Lock()
	var due []string
	for id, at := range w.later {
		if !time.Now().Before(at) {
			due = append(due, id)
		}
	}
	w.mu.Unlock()
	if len(due) == 0 {
		return
	}
	slices.Sort(due)
	open, err := w.Store.OpenAmong(ctx, due)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "Cannot find executions to watch", "error", err)
		}
		return
	}
	w.mu.Lock()
	for _, id := range due {
		delete(w.later, id)
	}
	w.mu.Unlock()
	for _, execution := range open {
		w.Watch(execution)
	}
}

// known returns the executions that this replica watches or may watch later. The caller holds mu.
func (w *Watcher) known() []string {
	return slices.AppendSeq(slices.Collect(maps.Keys(w.watching)), maps.Keys(w.later))
}
