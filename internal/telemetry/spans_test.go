package telemetry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

const enqueuer = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// tree writes each ended span below its parent's name.
func tree(spans *tracetest.SpanRecorder) map[string]string {
	names, parents := map[string]string{}, map[string]string{}
	for _, s := range spans.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range spans.Ended() {
		parents[s.Name()] = names[s.Parent().SpanID().String()]
	}
	return parents
}

func find(t *testing.T, spans *tracetest.SpanRecorder, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	for _, s := range spans.Ended() {
		if s.Name() == name {
			return s
		}
	}
	require.FailNow(t, "no span "+name)
	return nil
}

// handOver claims an item, starts it and settles it.
func handOver(t *testing.T, about *Telemetry, item claim.Item, outcome engine.Outcome, verb claim.Verb) claim.Item {
	t.Helper()
	now := time.Now()
	about.measureClaim(interval{now, now.Add(time.Millisecond)}, claim.Batch{Items: []claim.Item{item}}, nil)
	request := start(about, item, outcome)
	about.measureSettles(verb, []int64{item.ID}, interval{time.Now(), time.Now()})
	return request
}

func TestTheEnqueuersTraceGoesThroughTheDispatcherIntoTheWorkflow(t *testing.T) {
	t.Parallel()
	about, spans := measured(t)
	item := handOver(t, about, claim.Item{ID: 1, Token: 1, ExecutionID: "e", Traceparent: enqueuer}, engine.Started,
		claim.Dispatched)

	process, start, flow := find(t, spans, "step:process_item"), find(t, spans, "temporal:start_workflow"),
		find(t, spans, "flow:queue_processing")
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", process.SpanContext().TraceID().String())
	require.Equal(t, "b7ad6b7169203331", process.Parent().SpanID().String())
	require.Equal(t, flow.SpanContext().SpanID(), process.Links()[0].SpanContext.SpanID())
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-"+start.SpanContext().SpanID().String()+"-01", item.Traceparent)
	require.Equal(t, map[string]string{
		"flow:queue_processing": "", "step:claim_batch": "flow:queue_processing", "db:query": "step:claim_batch",
		"step:process_item": "", "step:dispatch_temporal": "step:process_item",
		"temporal:start_workflow": "step:dispatch_temporal",
		"step:mark_dispatched":    "step:process_item", "db:update": "step:mark_dispatched",
	}, tree(spans))
	events := []string{}
	for _, event := range find(t, spans, "db:query").Events() {
		events = append(events, event.Name)
	}
	require.Equal(t, []string{"step:check_capacity", "step:mark_claimed", "step:release_lock"}, events)
}

func TestAnItemWithoutATraceIsPartOfItsClaims(t *testing.T) {
	t.Parallel()
	for _, traceparent := range []string{"", "nonsense", "00-00000000000000000000000000000000-b7ad6b7169203331-01"} {
		about, spans := measured(t)
		handOver(t, about, claim.Item{ID: 1, Token: 1, Traceparent: traceparent}, engine.Started, claim.Dispatched)
		require.Equal(t, "flow:queue_processing", tree(spans)["step:process_item"])
	}
}

func TestAnEnqueuersTraceThatIsNotSampledIsNotRecordedAndStillContinued(t *testing.T) {
	t.Parallel()
	about, spans := measured(t)
	item := handOver(t, about, claim.Item{ID: 1, Token: 1, Traceparent: enqueuer[:53] + "00"}, engine.Started,
		claim.Dispatched)
	require.Regexp(t, "^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-00$", item.Traceparent)
	require.NotContains(t, tree(spans), "step:process_item")
	require.Contains(t, tree(spans), "flow:queue_processing")
}

func TestFailuresMarkTheirSpans(t *testing.T) {
	t.Parallel()
	about, spans := measured(t)
	handOver(t, about, claim.Item{ID: 1, Token: 1}, engine.Permanent, claim.Fail)
	require.Equal(t, "step:process_item", tree(spans)["step:mark_failed"])
	for _, name := range []string{"temporal:start_workflow", "step:dispatch_temporal", "step:process_item"} {
		require.Equal(t, "Error", find(t, spans, name).Status().Code.String(), name)
	}
}

func TestALostLeaseEndsItsSpans(t *testing.T) {
	t.Parallel()
	about, spans := measured(t)
	about.measureClaim(interval{time.Now(), time.Now()}, claim.Batch{Items: []claim.Item{{ID: 1}}}, nil)
	about.Lost(1)
	require.Equal(t, "lease lost", find(t, spans, "step:process_item").Status().Description)
	require.Contains(t, tree(spans), "flow:queue_processing")
}

func TestAPanickingStarterLeavesNoSpanOpen(t *testing.T) {
	t.Parallel()
	about, spans := measured(t)
	item := claim.Item{ID: 1, Token: 1}
	about.measureClaim(interval{time.Now(), time.Now()}, claim.Batch{Items: []claim.Item{item}}, nil)
	about.Starting(&item)("", engine.Panicked, nil)
	require.Equal(t, "panic", find(t, spans, "temporal:start_workflow").Status().Description)
	requireValue(t, about, "pgdispatch_start_failures_total panic", 1)
}
