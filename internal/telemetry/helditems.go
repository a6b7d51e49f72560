package telemetry

import (
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

// heldItems tracks each item that this replica holds, from its claim to its settle or loss. It is safe for concurrent
// use.
type heldItems struct {
	instruments *instruments
	tracer      trace.Tracer // nil if tracing is off
	// dispatched is called for each started item, with its workspace and how long it had been due and startable. Nil
	// disables the callback.
	dispatched func(workspaceID string, due, startable time.Duration)

	mu  sync.Mutex
	all map[int64]*heldItem
}

// heldItem is one tracked item. Only its worker writes outcome, before the item is settled.
type heldItem struct {
	batch        *batch
	workspaceID  string
	token        int64
	attempts     int
	problem      claim.Problem
	waited       time.Duration
	startableFor time.Duration  // how long it had been startable
	since        time.Time      // when both were measured
	outcome      engine.Outcome // of the last start
	span         trace.Span
}

// due returns how long the item has been due.
func (o *heldItem) due() time.Duration { return o.waited + time.Since(o.since) }

// startable returns how long the item has been startable.
func (o *heldItem) startable() time.Duration { return o.startableFor + time.Since(o.since) }

// batch is the items of one claim.
type batch struct {
	began time.Time
	left  int
	flow  trace.Span
}

// take tracks the items of a claim. If an item is already tracked, its earlier lease was lost unnoticed and its entry
// is replaced.
func (h *heldItems) take(took interval, claimed claim.Batch) {
	b := &batch{began: took.began, left: len(claimed.Items), flow: h.claimSpans(took, claimed)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[int64]*heldItem{}
	}
	for _, item := range claimed.Items {
		h.all[item.ID] = &heldItem{batch: b, workspaceID: item.WorkspaceID, token: item.Token, attempts: item.AttemptCount,
			problem: item.Problem, waited: item.Waited, startableFor: item.Startable, since: took.ended,
			span: h.itemSpan(took, b, item)}
	}
}

// of returns the entry of an item with the same token, or nil if it is not tracked.
func (h *heldItems) of(item claim.Item) *heldItem {
	h.mu.Lock()
	defer h.mu.Unlock()
	if found := h.all[item.ID]; found != nil && found.token == item.Token {
		return found
	}
	return nil
}

func (h *heldItems) held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// end measures a settled item and stops tracking it.
func (h *heldItems) end(id int64, verb claim.Verb, took interval) {
	one, last := h.remove(id)
	if one == nil {
		return
	}
	switch verb {
	case claim.Dispatched:
		if h.dispatched != nil {
			h.dispatched(one.workspaceID, one.due(), one.startable())
		}
		h.instruments.itemAttempts.record(float64(one.attempts))
	case claim.Fail:
		h.instruments.itemAttempts.record(float64(one.attempts))
		h.instruments.itemsFailed.add(1, one.reason())
	}
	h.settleSpans(one, verb, took)
	h.ended(one, last)
}

// lost stops tracking an item whose lease this replica no longer holds.
func (h *heldItems) lost(id int64) {
	one, last := h.remove(id)
	if one == nil {
		return
	}
	h.lostSpan(one)
	h.ended(one, last)
}

// ended measures the batch once its last item has ended.
func (h *heldItems) ended(one *heldItem, last bool) {
	if last {
		h.instruments.claimProcessing.record(time.Since(one.batch.began).Seconds())
		endSpan(one.batch.flow)
	}
}

func (h *heldItems) remove(id int64) (one *heldItem, last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one = h.all[id]; one == nil {
		return nil, false
	}
	delete(h.all, id)
	one.batch.left--
	return one, one.batch.left == 0
}

// reason returns why an item failed for good, from the fixed set of label values.
func (o *heldItem) reason() string {
	switch o.problem {
	case "":
	case claim.NoWorkspace:
		return "workspace_not_found"
	case claim.NoDefinition:
		return "definition_not_found"
	case claim.NoVersion:
		return "no_version"
	default:
		return "holder_lost"
	}
	switch o.outcome {
	case engine.Permanent:
		return "refused"
	case engine.Forgotten:
		return "forgotten"
	case engine.Abandoned:
		return "abandoned"
	}
	return "attempts_exhausted"
}

// word turns an outcome's name into a label value.
func word(text string) string { return strings.ReplaceAll(text, " ", "_") }
