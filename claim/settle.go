package claim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Verb is the outcome of a claim.
type Verb string

// The verbs. Each has its own statement in package sql.
const (
	// Dispatched means that Temporal has the workflow.
	Dispatched Verb = "dispatched"
	// Retry counts a failure against the item, which is retried after Delay.
	Retry Verb = "retry"
	// Release returns the item to the queue without counting the attempt or a failure. It may run again after Delay.
	Release Verb = "release"
	// Fail means that the item failed permanently and becomes a dead letter.
	Fail Verb = "fail"
)

// Settlement ends one claim.
type Settlement struct {
	Verb  Verb
	ID    int64
	Token int64
	RunID string        // for Dispatched
	Error string        // for Retry, Release and Fail: stored in last_error, after Clean
	Delay time.Duration // for Retry and Release: time until the next attempt; zero for Release: it keeps its place
	// Unanswered, for Retry and Release, means that a start request, this one or an earlier one, got no response. The item
	// keeps its workspace's slot.
	Unanswered bool
	// Alone, for Release, means that the start failed while others of its namespace were accepted. This is counted: see
	// Item.Tries. The item keeps its workspace's slot, so that a workspace never has more such items than slots.
	Alone bool
	// Missing, for Release, means that Temporal does not find the workflow of an item that is to fail. This is noted: see
	// Item.MissingFor. It must be Unanswered.
	Missing bool
}

// Settle ends claims with one verb and returns the IDs of the claims that it ended. Treat a missing ID as lost: its
// lease has expired, or will, because its row is locked. If a trigger or constraint rejects some of the items, Settle
// ends the others and returns an error for which IsRefused is true. Repeating a Settle changes nothing.
func (s *Store) Settle(ctx context.Context, verb Verb, batch []Settlement) ([]int64, error) {
	return aroundLocks(ctx, s, batch, func(b Settlement) int64 { return b.ID }, func(batch []Settlement) ([]int64, error) {
		return inHalves(batch, func(batch []Settlement) ([]int64, error) { return s.settle(ctx, verb, batch) })
	})
}

func (s *Store) settle(ctx context.Context, verb Verb, batch []Settlement) ([]int64, error) {
	if verb == Dispatched {
		return s.ids(ctx, "settle dispatched items", sql.Text("dispatched"), s.dispatchedArgs(batch)...)
	}
	ids, tokens := keys(batch)
	var (
		texts      = make([]string, len(batch))
		delays     = make([]time.Duration, len(batch))
		unanswered = make([]bool, len(batch))
		alone      = make([]bool, len(batch))
		missing    = make([]bool, len(batch))
	)
	for n, b := range batch {
		texts[n], delays[n] = postgres.Clean(b.Error), b.Delay
		unanswered[n], alone[n], missing[n] = b.Unanswered, b.Alone, b.Missing
	}
	switch verb {
	case Retry:
		return s.ids(ctx, "settle items to retry", sql.Text("retry"), ids, tokens, texts, delays, unanswered)
	case Release:
		return s.ids(ctx, "release items", sql.Text("release"), ids, tokens, texts, delays, unanswered, alone,
			missing)
	case Fail:
		return s.ids(ctx, "settle failed items", sql.Text("fail"), ids, tokens, texts)
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

// watcher returns the replica that will watch that many executions. Nil leaves them for other replicas to adopt.
func (s *Store) watcher(executions int) *string {
	if s.CanWatch != nil && !s.CanWatch(executions) {
		return nil
	}
	return &s.Owner
}

// keys sorts a batch by ID and returns its IDs and tokens. All batches lock rows in this order, which prevents
// deadlocks.
func keys(batch []Settlement) (ids, tokens []int64) {
	slices.SortFunc(batch, func(a, b Settlement) int { return cmp.Compare(a.ID, b.ID) })
	ids, tokens = make([]int64, len(batch)), make([]int64, len(batch))
	for n, b := range batch {
		ids[n], tokens[n] = b.ID, b.Token
	}
	return ids, tokens
}
