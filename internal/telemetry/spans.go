package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// traceContext reads and writes traceparent.
var traceContext propagation.TraceContext

// span starts a span. It returns nil if tracing is off.
func (h *heldItems) span(parent trace.Span, name string, began time.Time, options ...trace.SpanStartOption) trace.Span {
	if h.tracer == nil {
		return nil
	}
	ctx := context.Background()
	if parent != nil {
		ctx = trace.ContextWithSpan(ctx, parent)
	}
	_, span := h.tracer.Start(ctx, name, append(options, trace.WithTimestamp(began))...)
	return span
}

func endSpan(span trace.Span, options ...trace.SpanEndOption) {
	if span != nil {
		span.End(options...)
	}
}

// claimSpans records a claim that found items and returns the flow's span, which ends with the last of these items. The
// steps inside the claim's single statement have no times of their own, so they are recorded as events.
func (h *heldItems) claimSpans(took interval, claimed claim.Batch) trace.Span {
	flow := h.span(nil, "flow:queue_processing", took.began, trace.WithNewRoot())
	if flow == nil {
		return nil
	}
	step := h.span(flow, "step:claim_batch", took.began,
		trace.WithAttributes(attribute.Int("pgdispatch.batch_size", len(claimed.Items))))
	query := h.span(step, "db:query", took.began, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "postgresql"), attribute.String("db.operation.name", "claim")))
	query.AddEvent("step:check_capacity", trace.WithTimestamp(took.ended),
		trace.WithAttributes(attribute.Int("pgdispatch.workspaces_at_capacity", len(claimed.AtCapacity))))
	query.AddEvent("step:mark_claimed", trace.WithTimestamp(took.ended),
		trace.WithAttributes(attribute.Int("pgdispatch.items", len(claimed.Items))))
	query.AddEvent("step:release_lock", trace.WithTimestamp(took.ended))
	query.End(trace.WithTimestamp(took.ended))
	step.End(trace.WithTimestamp(took.ended))
	return flow
}

// itemSpan starts an item's span. Its parent is the enqueuer's span, with a link to the claim. If the enqueuer has
// none, the parent is the claim's flow span.
func (h *heldItems) itemSpan(took interval, of *batch, item claim.Item) trace.Span {
	if of.flow == nil {
		return nil
	}
	parent := of.flow
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.Int64("pgdispatch.queue_item_id", item.ID), attribute.String("pgdispatch.execution_id", item.ExecutionID),
		attribute.String("pgdispatch.workspace_id", item.WorkspaceID),
		attribute.String("pgdispatch.workflow_definition_id", item.WorkflowDefinitionID),
		attribute.Int("pgdispatch.attempt", item.AttemptCount),
		attribute.Float64("pgdispatch.waited_seconds", item.Waited.Seconds()))}
	if enqueuer := remote(item.Traceparent); enqueuer != nil {
		parent = enqueuer
		options = append(options, trace.WithLinks(trace.Link{SpanContext: of.flow.SpanContext()}))
	}
	return h.span(parent, "step:process_item", took.ended, options...)
}

// remote returns the span named by traceparent, or nil if there is none.
func remote(traceparent string) trace.Span {
	ctx := traceContext.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	return trace.SpanFromContext(ctx)
}

// startSpans starts the spans of a start and sets the item's Traceparent to the new span. It returns a function that
// ends the spans.
func (h *heldItems) startSpans(one *heldItem, item *claim.Item) (ended func(runID string, outcome engine.Outcome,
	err error)) {
	if one == nil || one.span == nil {
		return func(string, engine.Outcome, error) {}
	}
	now := time.Now()
	step := h.span(one.span, "step:dispatch_temporal", now)
	start := h.span(step, "temporal:start_workflow", now, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("temporalWorkflowID", item.WorkflowID()),
		attribute.String("pgdispatch.workflow_type", item.WorkflowType),
		attribute.String("pgdispatch.task_queue", item.TaskQueue)))
	carrier := propagation.MapCarrier{}
	traceContext.Inject(trace.ContextWithSpan(context.Background(), start), carrier)
	item.Traceparent = carrier["traceparent"]
	return func(runID string, outcome engine.Outcome, err error) {
		name := word(outcome.String())
		start.SetAttributes(attribute.String("temporalRunID", runID), attribute.String("pgdispatch.outcome", name))
		if err != nil || outcome == engine.Panicked {
			start.SetStatus(codes.Error, name)
			step.SetStatus(codes.Error, name)
		}
		if err != nil {
			start.RecordError(errors.New(postgres.Clean(err.Error())))
		}
		start.End()
		step.End()
	}
}

// steps maps how a claim ended to the name of the item's last step.
var steps = map[claim.Verb]string{
	claim.Dispatched: "step:mark_dispatched", claim.Retry: "step:release_to_pending",
	claim.Release: "step:release_to_pending", claim.Fail: "step:mark_failed",
}

// settleSpans records an item's settle and ends its span.
func (h *heldItems) settleSpans(one *heldItem, verb claim.Verb, took interval) {
	if one.span == nil {
		return
	}
	step := h.span(one.span, steps[verb], took.began)
	update := h.span(step, "db:update", took.began, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "postgresql"), attribute.String("db.operation.name", string(verb))))
	update.End(trace.WithTimestamp(took.ended))
	step.End(trace.WithTimestamp(took.ended))
	one.span.SetAttributes(attribute.String("pgdispatch.verb", string(verb)))
	if verb == claim.Fail {
		one.span.SetStatus(codes.Error, "failed permanently")
	}
	one.span.End(trace.WithTimestamp(took.ended))
}

func (h *heldItems) lostSpan(one *heldItem) {
	if one.span != nil {
		one.span.SetStatus(codes.Error, claim.ErrLost.Error())
		one.span.End()
	}
}
