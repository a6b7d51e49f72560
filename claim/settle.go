package claim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Verb is how a claim ends.
type Verb string

// The verbs. Each is a statement of its own in package sql.
const (
	// Dispatched: Temporal has the workflow.
	Dispatched Verb = "dispatched"
	// Retry: a failure of the item's own; it waits for Delay and is tried again.
	Retry Verb = "retry"
	// Release: handed back through no fault of the item. Nothing is counted.
	Release Verb = "release"
	// Fail: failed for good.
	Fail Verb = "fail"
)

// Settlement ends one claim.
type Settlement struct {
	Verb  Verb
	ID    int64
	Token int64
	RunID string        // of Dispatched
	Error string        // of Retry, Release and Fail: what goes into last_error, cleaned by Clean
	Delay time.Duration // of Retry
	// Unknown, of Retry and Release: a start was sent that nobody answered. The item keeps its workspace's slot.
	Unknown bool
}

// Settle ends claims of one verb, all in one statement, and returns the IDs it ended. What is missing was lost: its lease
// had expired, whoever holds it now, or will, because somebody keeps its row locked. Where a trigger or a constraint of the database
// refuses some of them, it ends the others, and returns an error, see IsRefused.
func (s *Store) Settle(ctx context.Context, verb Verb, batch []Settlement) ([]int64, error) {
	return aroundLocks(ctx, s, batch, func(b Settlement) int64 { return b.ID }, func(batch []Settlement) ([]int64, error) {
		return inHalves(batch, func(batch []Settlement) ([]int64, error) { return s.settle(ctx, verb, batch) })
	})
}

func (s *Store) settle(ctx context.Context, verb Verb, batch []Settlement) ([]int64, error) {
	if verb == Dispatched {
		return s.ids(ctx, "settle dispatched items", sql.Dispatched, s.dispatchedArgs(batch)...)
	}
	ids, tokens := keys(batch)
	var (
		texts   = make([]string, len(batch))
		delays  = make([]time.Duration, len(batch))
		unknown = make([]bool, len(batch))
	)
	for n, b := range batch {
		texts[n], delays[n], unknown[n] = Clean(b.Error), b.Delay, b.Unknown
	}
	switch verb {
	case Retry:
		return s.ids(ctx, "settle items to retry", sql.Retry, ids, tokens, texts, delays, unknown)
	case Release:
		return s.ids(ctx, "release items", sql.Release, ids, tokens, texts, unknown)
	case Fail:
		return s.ids(ctx, "settle failed items", sql.Fail, ids, tokens, texts)
	}
	return nil, fmt.Errorf("settle items: unknown verb %q", verb)
}

func (s *Store) dispatchedArgs(batch []Settlement) []any {
	ids, tokens := keys(batch)
	runs := make([]string, len(batch))
	for n, b := range batch {
		runs[n] = b.RunID
	}
	return []any{ids, tokens, runs, s.watcher(len(batch))}
}

// watcher is who watches the ends of so many executions.
func (s *Store) watcher(executions int) *string {
	if s.CanWatch != nil && !s.CanWatch(executions) {
		return nil
	}
	return &s.Owner
}

// keys sorts a batch, and returns its items and tokens. In one order everywhere, so that two batches never wait for each
// other's rows in a circle.
func keys(batch []Settlement) (ids, tokens []int64) {
	slices.SortFunc(batch, func(a, b Settlement) int { return cmp.Compare(a.ID, b.ID) })
	ids, tokens = make([]int64, len(batch)), make([]int64, len(batch))
	for n, b := range batch {
		ids[n], tokens[n] = b.ID, b.Token
	}
	return ids, tokens
}
