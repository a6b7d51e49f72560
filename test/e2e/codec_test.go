package e2e

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	temporallog "go.temporal.io/sdk/log"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/internal/codectest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// codedStack is a stack whose worker encrypts payloads and messages of failures, and whose replicas use the codec
// server that knows the key.
type codedStack struct {
	*stack
	server *codectest.Server
	client client.Client // with the codec; the stack's has none
	queue  string
}

func newCodedStack(t *testing.T) *codedStack {
	t.Helper()
	s := &codedStack{stack: newStack(t), server: codectest.NewServer(false)}
	t.Cleanup(s.server.Close)
	s.queue = s.stack.queue + "-coded"
	encrypting := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), s.server.Codec)
	var err error
	s.client, err = client.Dial(client.Options{HostPort: s.temporal, DataConverter: encrypting,
		FailureConverter: sdk.NewDefaultFailureConverter(sdk.DefaultFailureConverterOptions{
			DataConverter: encrypting, EncodeCommonAttributes: true}),
		Logger: temporallog.NewStructuredLogger(newQuietLogger())})
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	w := worker.New(s.client, s.queue, worker.Options{})
	for name, function := range workflows {
		w.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	s.exec("update pgdispatch.workflow_definitions set task_queue = $1", s.queue)
	return s
}

// codedReplica starts a replica with the codec server and its token.
func (s *codedStack) codedReplica(t *testing.T) *replica {
	t.Helper()
	return s.replica("PGDISPATCH_CODEC_ENDPOINT="+s.server.URL, "PGDISPATCH_CODEC_TOKEN_FILE="+file(t, "token", "open\n"),
		"PGDISPATCH_LEASE=2s", anyPort).ready()
}

// enqueueSecret inserts an item with words that only the workers may read in Temporal.
func (s *codedStack) enqueueSecret(definition string) string {
	s.t.Helper()
	return one[string](s.stack, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id,
		params, start_options)
		select workspace_id, id, '{"card": "4111-secret"}',
			'{"memo": {"note": "memo-secret"}, "static_summary": "summary-secret"}'
		from pgdispatch.workflow_definitions where workspace_id = $1 and name = $2
		returning execution_id::text`, s.workspace["PRO"], definition)
}

// raw returns all that Temporal's server has of an execution's workflow: the histories of its runs and its description.
func (s *codedStack) raw(execution string) string {
	s.t.Helper()
	var all strings.Builder
	note := func(message proto.Message) {
		text, err := proto.Marshal(message)
		require.NoError(s.t, err)
		all.Write(text)
	}
	service, run := s.stack.client.WorkflowService(), ""
	for next := true; next; {
		of := &common.WorkflowExecution{WorkflowId: temporal.WorkflowID(execution), RunId: run}
		described, err := service.DescribeWorkflowExecution(s.t.Context(),
			&workflowservice.DescribeWorkflowExecutionRequest{Namespace: "default", Execution: of})
		require.NoError(s.t, err)
		note(described)
		next = false
		history := s.stack.client.GetWorkflowHistory(s.t.Context(), of.GetWorkflowId(), run, false, 0)
		for history.HasNext() {
			event, err := history.Next()
			require.NoError(s.t, err)
			note(event)
			if before := event.GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); before != "" {
				run, next = before, true
			}
		}
	}
	return all.String()
}

func TestNoPlainByteOfAPayloadReachesTemporal(t *testing.T) {
	t.Parallel()
	s := newCodedStack(t)
	s.codedReplica(t)
	echo, collect, relay, fails := s.enqueueSecret("Echo"), s.enqueueSecret("Collect"), s.enqueueSecret("Relay"),
		s.enqueueSecret("Fail")
	for _, execution := range []string{collect, relay} {
		for _, value := range []string{"signal-secret", "end"} {
			s.exec(add, execution, value)
		}
		require.Equal(t, []string{"signal-secret"}, s.collected(execution), "the result is stored decoded")
	}
	s.eventually(func() bool { return s.statusOf(echo) == "COMPLETED" && s.statusOf(fails) == "FAILED" }, "both end")
	recorded := func(execution string) string {
		return one[string](s.stack, "select coalesce(result::text, error) from pgdispatch.workflow_executions where id = $1",
			execution)
	}
	require.Contains(t, recorded(echo), "4111-secret")
	require.Equal(t, "the oven is cold (Oven): no gas", recorded(fails))

	for _, execution := range []string{echo, collect, relay, fails} {
		raw := s.raw(execution)
		require.Contains(t, raw, codectest.Encoding)
		for _, word := range []string{"secret", "queueItemId", "oven is cold", "no gas"} {
			require.NotContains(t, raw, word)
		}
		require.Contains(t, raw, execution, "the memo that pgdispatch reads is plain")
	}
	for _, call := range s.server.Calls() {
		require.Equal(t, "Bearer open default", call.Authorization+" "+call.Namespace)
	}
}

func TestAnOutageOfTheCodecServerOnlyDelays(t *testing.T) {
	t.Parallel()
	s := newCodedStack(t)
	p := s.codedReplica(t)
	running, ending := s.enqueueSecret("Collect"), s.enqueueSecret("Collect")
	for _, execution := range []string{running, ending} {
		s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "it runs")
	}
	s.server.Fail(func(codectest.Call) int { return http.StatusServiceUnavailable })
	waiting := []string{s.enqueueSecret("Echo"), s.enqueueSecret("Echo")}
	s.exec(add, running, "signal-secret")
	require.NoError(t, s.client.SignalWorkflow(t.Context(), temporal.WorkflowID(ending), "", "add", "end"))
	require.NoError(t, s.client.GetWorkflow(t.Context(), temporal.WorkflowID(ending), "").Get(t.Context(), nil))

	problem := func() string { _, text := p.get("/readyz"); return text }
	s.eventually(func() bool {
		return strings.Contains(problem(), "codec: codec server "+s.server.URL+": encode: it answers 503")
	}, "the replica says so")
	require.Contains(t, problem(), "check that the codec server runs")
	require.NotContains(t, problem(), "temporal:")
	s.eventually(func() bool {
		return one[bool](s.stack, "select state::jsonb ? 'codec_away' from pgdispatch.replicas")
	}, "status and the web view say so")
	s.eventually(func() bool { return p.has("The codec server is unreachable; releasing watches to other replicas") },
		"the outage outlasts its patience")
	for _, execution := range waiting {
		_, err := s.client.DescribeWorkflowExecution(t.Context(), temporal.WorkflowID(execution), "")
		var missing *serviceerror.NotFound
		require.ErrorAs(t, err, &missing, "nothing was sent")
	}
	require.Equal(t, "DISPATCHED", s.statusOf(ending), "its end waits for its result")
	require.Equal(t, int64(1), one[int64](s.stack, "select count(*) from pgdispatch.signals where state = 'OPEN'"))
	require.Positive(t, sample(p.scrape(), "pgdispatch_codec_requests_total", "unavailable"))
	require.Contains(t, p.scrape(), codecDuration)

	s.server.Fail(nil)
	s.exec(add, running, "end")
	require.Equal(t, []string{"signal-secret"}, s.collected(running))
	require.Empty(t, s.collected(ending))
	for _, execution := range waiting {
		s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "it continues by itself")
	}
	s.eventually(func() bool { return problem() == "ready\n" }, "it is ready again")
	require.Zero(t, one[int](s.stack, "select sum(failure_count)::int from pgdispatch.workflow_execution_queue"))
	require.NotContains(t, p.Log(), "secret")

	// It refuses a large payload only.
	s.server.Fail(func(call codectest.Call) int {
		if call.Operation == "encode" && call.Bytes > 10000 {
			return http.StatusUnprocessableEntity
		}
		return 0
	})
	s.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
		select workspace_id, id, jsonb_build_object('text', repeat('secret ', 10000))
		from pgdispatch.workflow_definitions where workspace_id = $1 and name = 'Echo'`, s.workspace["PRO"])
	other := s.enqueueSecret("Echo")
	s.eventually(func() bool { return s.count("status = 'FAILED'") == 1 && s.statusOf(other) == "COMPLETED" },
		"only that fails")
	require.Contains(t, one[string](s.stack, `select last_error from pgdispatch.workflow_execution_queue
		where status = 'FAILED'`), "does not encode this: encode: it answers 422 Unprocessable Entity")
}

func TestARepeatIsRecognisedAlthoughItsCiphertextDiffers(t *testing.T) {
	t.Parallel()
	s := newCodedStack(t)
	codec, err := temporal.CodecTarget{Endpoint: s.server.URL}.Open(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	pgdispatch := &temporal.Client{Service: s.client.WorkflowService(), Namespace: "default", Codec: codec}
	execution := one[string](s.stack, "select gen_random_uuid()::text")
	start := temporal.Start{Execution: temporal.Execution{ID: execution}, WorkflowType: "Collect",
		TaskQueue: s.queue, QueueItemID: 1, NodeIDs: []byte("[]"), Params: []byte(`{"card": "4111-secret"}`)}
	run, err := pgdispatch.Start(t.Context(), start)
	require.NoError(t, err)
	again, err := pgdispatch.Start(t.Context(), start)
	require.NoError(t, err)
	require.Equal(t, run, again)
	signal := temporal.Signal{Execution: temporal.Execution{ID: execution}, To: run,
		RequestID: "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01",
		Name:      "add", Payload: []byte(`"once"`)}
	for range 2 {
		_, err = pgdispatch.Signal(t.Context(), signal)
		require.NoError(t, err)
	}
	require.NoError(t, s.client.SignalWorkflow(t.Context(), temporal.WorkflowID(execution), "", "add", "end"))
	var all []string
	require.NoError(t, s.client.GetWorkflow(t.Context(), temporal.WorkflowID(execution), "").Get(t.Context(), &all))
	require.Equal(t, []string{"once"}, all)
}
