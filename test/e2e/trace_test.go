package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

// spans are the spans that a collector has received.
type spans struct {
	mu  sync.Mutex
	all []servicesSpan
}

// servicesSpan is a span and its sender's service.name.
type servicesSpan struct {
	*tracepb.Span
	service string
}

// newCollector receives spans by OTLP over HTTP.
func newCollector(t *testing.T) (*spans, string) {
	t.Helper()
	received := &spans{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		received.mu.Lock()
		defer received.mu.Unlock()
		for _, resource := range request.ResourceSpans {
			service := ""
			for _, attribute := range resource.Resource.Attributes {
				if attribute.Key == "service.name" {
					service = attribute.Value.GetStringValue()
				}
			}
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					received.all = append(received.all, servicesSpan{span, service})
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return received, server.URL
}

// find returns the newest span with this name, or nil.
func (s *spans) find(name string) *tracepb.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range slices.Backward(s.all) {
		if span.Name == name {
			return span.Span
		}
	}
	return nil
}

// tree draws the spans of a trace; siblings are sorted by name.
func (s *spans) tree(id trace.TraceID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.all, func(a, b servicesSpan) int { return strings.Compare(a.Name, b.Name) })
	var text strings.Builder
	var below func(parent []byte, indent string)
	below = func(parent []byte, indent string) {
		children := slices.DeleteFunc(slices.Clone(s.all), func(span servicesSpan) bool {
			return !bytes.Equal(span.TraceId, id[:]) || !bytes.Equal(span.ParentSpanId, parent)
		})
		for n, child := range children {
			branch, next := "├── ", "│   "
			switch {
			case parent == nil:
				branch, next = "", ""
			case n == len(children)-1:
				branch, next = "└── ", "    "
			}
			fmt.Fprintf(&text, "%-44s %s\n", indent+branch+child.Name, child.service)
			below(child.SpanId, indent+next)
		}
	}
	below(nil, "")
	return text.String()
}

func TestATraceGoesFromTheInsertThroughTheDispatcherIntoTheWorkflow(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	received, url := newCollector(t)
	p := s.replica("OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_METRICS_EXPORTER=none", "OTEL_BSP_SCHEDULE_DELAY=100").ready()
	execution := one[string](s, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id,
		traceparent)
		select workspace_id, id, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
		from pgdispatch.workflow_definitions where workspace_id = $1 and name = 'Echo'
			returning execution_id::text`, s.workspace["PRO"])
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "row completes")
	s.eventually(func() bool {
		return received.find("step:process_item") != nil && received.find("flow:queue_processing") != nil
	}, "spans arrive")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())

	process, step, start := received.find("step:process_item"), received.find("step:dispatch_temporal"),
		received.find("temporal:start_workflow")
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(process.TraceId))
	require.Equal(t, "b7ad6b7169203331", hex.EncodeToString(process.ParentSpanId))
	require.Equal(t, process.SpanId, step.ParentSpanId)
	require.Equal(t, step.SpanId, start.ParentSpanId)
	require.Equal(t, received.find("flow:queue_processing").SpanId, process.Links[0].SpanId)
	require.NotNil(t, received.find("step:mark_dispatched"))

	history := s.client.GetWorkflowHistory(context.Background(), "execution-"+execution, "", false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	event, err := history.Next()
	require.NoError(t, err)
	header := event.GetWorkflowExecutionStartedEventAttributes().GetHeader().GetFields()["_tracer-data"]
	require.JSONEq(t, `{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-`+hex.EncodeToString(start.SpanId)+`-01"}`,
		string(header.GetData()))
}

// tracerOf returns a program's tracer that exports spans to the collector at once.
func tracerOf(t *testing.T, service, url string) trace.Tracer {
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(url+"/v1/traces"))
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return provider.Tracer("test")
}

// The application, a replica and a worker are three programs, each with its own tracer; the worker's is the interceptor
// of Temporal's SDK.
func TestOneTraceRunsFromTheInsertToTheActivity(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	received, url := newCollector(t)
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: tracerOf(t, "worker", url)})
	require.NoError(t, err)
	w := worker.New(s.client, s.queue+"-traced", worker.Options{Interceptors: []interceptor.WorkerInterceptor{tracing}})
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "ChargeCard"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ input) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, "ChargeCard").Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "Order"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	definition := s.define(s.workspace["PRO"], "order", "Order", s.queue+"-traced")
	s.replica("OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_METRICS_EXPORTER=none", "OTEL_BSP_SCHEDULE_DELAY=100",
		"PGDISPATCH_START_TIMEOUT=1m", "PGDISPATCH_LEASE=10m").ready() // one attempt only, however slow the machine is

	ctx, checkout := tracerOf(t, "shop", url).Start(t.Context(), "checkout")
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	execution := one[string](s, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id,
		traceparent)
		values ($1, $2, $3) returning execution_id::text`, s.workspace["PRO"], definition, carrier["traceparent"])
	checkout.End()

	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "row completes")
	const below = "\n<!-- What TestOneTraceRunsFromTheInsertToTheActivity has received. -->\n```\n"
	_, want, found := strings.Cut(readPage(t, "docs/metrics.md"), below)
	require.True(t, found)
	want, _, _ = strings.Cut(want, "```\n")
	tree := func() string { return received.tree(checkout.SpanContext().TraceID()) }
	s.eventually(func() bool { return strings.Count(tree(), "\n") >= strings.Count(want, "\n") }, "all spans arrive")
	require.Equal(t, want, tree())
}

func TestACollectorThatIsAwayCostsALineOfLogAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=10",
		"OTEL_EXPORTER_OTLP_TIMEOUT=200").ready()
	execution := s.enqueue("PRO", "Echo", 1)[0]
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "row completes")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
	require.True(t, p.has("Cannot export telemetry"))
}
