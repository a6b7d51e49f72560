package main

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/proto"
)

// spans is what a collector has received, by name.
type spans struct {
	mu  sync.Mutex
	all map[string]*tracepb.Span
}

// newCollector receives spans by OTLP over HTTP.
func newCollector(t *testing.T) (*spans, string) {
	t.Helper()
	received := &spans{all: map[string]*tracepb.Span{}}
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
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					received.all[span.Name] = span
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return received, server.URL
}

func (s *spans) find(name string) *tracepb.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

func TestATraceGoesFromTheInsertThroughTheDispatcherIntoTheWorkflow(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	received, url := newCollector(t)
	p := s.replica("OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_METRICS_EXPORTER=none", "OTEL_BSP_SCHEDULE_DELAY=100").ready()
	execution := one[string](s, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, traceparent)
		select workspace_id, id, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
		from pgdispatch.workflow_definitions where workspace_id = $1 and name = 'Echo' returning execution_id::text`, s.workspace["PRO"])
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "row completes")
	s.eventually(func() bool {
		return received.find("step:process_item") != nil && received.find("flow:queue_processing") != nil
	}, "spans arrive")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())

	process, step, start := received.find("step:process_item"), received.find("step:dispatch_temporal"), received.find("temporal:start_workflow")
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(process.TraceId))
	require.Equal(t, "b7ad6b7169203331", hex.EncodeToString(process.ParentSpanId))
	require.Equal(t, process.SpanId, step.ParentSpanId)
	require.Equal(t, step.SpanId, start.ParentSpanId)
	require.Equal(t, received.find("flow:queue_processing").SpanId, process.Links[0].SpanId)
	require.NotNil(t, received.find("step:mark_dispatched"))

	history := s.client.GetWorkflowHistory(context.Background(), "execution-"+execution, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	event, err := history.Next()
	require.NoError(t, err)
	header := event.GetWorkflowExecutionStartedEventAttributes().GetHeader().GetFields()["_tracer-data"]
	require.JSONEq(t, `{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-`+hex.EncodeToString(start.SpanId)+`-01"}`, string(header.GetData()))
}

func TestACollectorThatIsAwayCostsALineOfLogAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_EXPORTER_OTLP_TIMEOUT=200").ready()
	execution := s.enqueue("PRO", "Echo", 1)[0]
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "row completes")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
	require.True(t, p.logs.has("Cannot export telemetry"))
}
