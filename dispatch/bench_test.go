package dispatch

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

// benchItem has IDs and an input as in production.
func benchItem(lease time.Duration) claim.Item {
	return claim.Item{
		ID: 123456, Token: 7,
		ExecutionID: "8f6f3c1e-6d0c-4a55-9c6e-0d5a3f0f6d11", WorkspaceID: "2b0e6a8c-8c3c-4f6e-a4a0-6d2a4a6b7c22",
		WorkflowDefinitionID:        "c1d7a2de-1f2b-4b66-8a38-4f2f8b1e9d33",
		WorkflowDefinitionVersionID: "d4a9b7c3-52a0-4b1c-9f4d-1a6c3e2b8f44",
		Namespace:                   "default", WorkflowType: "RunWorkflow", TaskQueue: "workflows",
		ExecutionTimeout: time.Hour,
		StartOptions:     []byte(`{"static_summary": "a"}`), NodeIDs: []byte(`["a", "b", "c"]`),
		Params:       []byte(`{"orderId": "o-1", "amount": 12.5}`),
		AttemptCount: 1, MaxAttempts: 3, Waited: time.Millisecond, Deadline: time.Now().Add(lease),
	}
}

func BenchmarkHoldALease(b *testing.B) {
	h, item := newHeld(time.Hour), benchItem(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		h.release(h.add(&item, func(error) {}))
	}
}

// atOnce is a starter that succeeds immediately.
type atOnce struct{}

func (atOnce) Start(context.Context, claim.Item) (string, engine.Outcome, error) {
	return "run", engine.Started, nil
}

func (atOnce) Find(context.Context, claim.Item) (string, engine.Outcome, error) {
	return "", engine.NotSent, nil
}

func (atOnce) Remedy(error, string) string { return "" }

// BenchmarkHandOver measures a worker's cost per item without Temporal.
func BenchmarkHandOver(b *testing.B) {
	r := &run{observer: noObserver{},
		Dispatcher: &Dispatcher{Starter: atOnce{}, Lease: time.Hour, StartTimeout: 10 * time.Second,
			Log: slog.New(slog.NewJSONHandler(io.Discard, nil)).With("component", "dispatcher")}, held: newHeld(time.Hour)}
	ctx, lose := context.WithCancelCause(b.Context())
	defer lose(nil)
	item := benchItem(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		r.held.release(r.handOver(ctx, lose, &item).started.lease)
	}
}
