package temporal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

type (
	startRequest     = workflowservice.StartWorkflowExecutionRequest
	startResponse    = workflowservice.StartWorkflowExecutionResponse
	describeRequest  = workflowservice.DescribeWorkflowExecutionRequest
	describeResponse = workflowservice.DescribeWorkflowExecutionResponse
	namespaceRequest = workflowservice.DescribeNamespaceRequest
	namespaceAnswer  = workflowservice.DescribeNamespaceResponse
)

// startService records its requests. A nil function answers with success.
type startService struct {
	Service // implements only the calls of a start

	start    func(*startRequest) (*startResponse, error)
	describe func(*describeRequest) (*describeResponse, error)
	// retention is the namespace's, or the error of reading it.
	retention      time.Duration
	retentionError error

	runs []*workflowpb.WorkflowExecutionInfo // of its list

	started   []*startRequest
	encodings []string // the compression of each start
	described []*describeRequest
	asked     []*namespaceRequest
	queries   []string // of its list
}

func (f *startService) DescribeNamespace(_ context.Context, r *namespaceRequest,
	_ ...grpc.CallOption) (*namespaceAnswer, error) {
	f.asked = append(f.asked, r)
	return &namespaceAnswer{
		Config: &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(f.retention)}}, f.retentionError
}

func (f *startService) StartWorkflowExecution(_ context.Context, r *startRequest,
	options ...grpc.CallOption) (*startResponse, error) {
	encoding := ""
	for _, option := range options {
		if compressor, ok := option.(grpc.CompressorCallOption); ok {
			encoding = compressor.CompressorType
		}
	}
	f.started, f.encodings = append(f.started, r), append(f.encodings, encoding)
	if f.start != nil {
		return f.start(r)
	}
	return &startResponse{RunId: "run", Started: true}, nil
}

func (f *startService) DescribeWorkflowExecution(_ context.Context, r *describeRequest,
	_ ...grpc.CallOption) (*describeResponse, error) {
	f.described = append(f.described, r)
	if f.describe != nil {
		return f.describe(r)
	}
	return &describeResponse{}, nil
}

func (f *startService) ListWorkflowExecutions(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest,
	_ ...grpc.CallOption) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.queries = append(f.queries, r.Query)
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: f.runs}, nil
}

func starterOn(service *startService) *Client {
	return &Client{Service: service, Namespace: "shop", Identity: "replica_1"}
}

func anItem() Start {
	return Start{
		QueueItemID:                 42,
		Execution:                   Execution{ID: "11111111-1111-4111-8111-111111111111"},
		WorkspaceID:                 "22222222-2222-4222-8222-222222222222",
		WorkflowDefinitionID:        "33333333-3333-4333-8333-333333333333",
		WorkflowDefinitionVersionID: "44444444-4444-4444-8444-444444444444",
		WorkflowType:                "Order",
		TaskQueue:                   "orders",
		ExecutionTimeout:            90*time.Minute + 1500*time.Microsecond,
		NodeIDs:                     []byte(`["a", "b"]`),
		Params:                      []byte(`{"order": 1}`),
		Traceparent:                 "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

// describedAs answers a describe with a run whose memo names an execution; "": no memo.
func describedAs(runID, executionID string) func(*describeRequest) (*describeResponse, error) {
	info := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{RunId: runID}}
	if executionID != "" {
		info.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{memoKey: jsonPayload(jsonString(executionID))}}
	}
	return func(*describeRequest) (*describeResponse, error) {
		return &describeResponse{WorkflowExecutionInfo: info}, nil
	}
}

func alreadyStarted(requestID string) func(*startRequest) (*startResponse, error) {
	return func(*startRequest) (*startResponse, error) {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("taken", requestID, "run-there")
	}
}

func TestStartAsksForTheWorkflowOfTheItem(t *testing.T) {
	t.Parallel()
	service := &startService{}
	runID := must.Get(starterOn(service).Start(t.Context(), anItem())).In(t)
	require.Equal(t, "run", runID)

	require.Len(t, service.started, 1)
	r := service.started[0]
	require.Equal(t, "shop", r.Namespace)
	require.Equal(t, "execution-11111111-1111-4111-8111-111111111111", r.WorkflowId)
	require.Equal(t, "pgdispatch-11111111-1111-4111-8111-111111111111", r.RequestId)
	require.Equal(t, "Order", r.WorkflowType.Name)
	require.Equal(t, "orders", r.TaskQueue.Name)
	require.Equal(t, enumspb.TASK_QUEUE_KIND_NORMAL, r.TaskQueue.Kind)
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, r.WorkflowIdReusePolicy)
	require.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL, r.WorkflowIdConflictPolicy)
	require.Equal(t, "replica_1", r.Identity)
	require.Equal(t, 90*time.Minute+time.Millisecond, r.WorkflowExecutionTimeout.AsDuration())
	require.Nil(t, r.WorkflowRunTimeout)
	require.Equal(t, `"11111111-1111-4111-8111-111111111111"`, string(r.Memo.Fields["pgdispatch_execution_id"].Data))
	require.JSONEq(t, `{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`,
		string(r.Header.Fields["_tracer-data"].Data))
	require.Len(t, r.Input.Payloads, 1)
	require.JSONEq(t, `{
		"executionId": "11111111-1111-4111-8111-111111111111",
		"workspaceId": "22222222-2222-4222-8222-222222222222",
		"workflowDefinitionId": "33333333-3333-4333-8333-333333333333",
		"workflowDefinitionVersionId": "44444444-4444-4444-8444-444444444444",
		"queueItemId": 42,
		"nodeIds": ["a", "b"],
		"params": {"order": 1}
	}`, string(r.Input.Payloads[0].Data), "exactly the keys of the contract")
	for _, payload := range []*commonpb.Payload{r.Input.Payloads[0], r.Memo.Fields[memoKey],
		r.Header.Fields[traceHeader]} {
		require.Equal(t, "json/plain", string(payload.Metadata["encoding"]))
	}

	bare := anItem()
	bare.ExecutionTimeout, bare.Traceparent = 0, ""
	must.Get(starterOn(service).Start(t.Context(), bare)).In(t)
	require.Nil(t, service.started[1].WorkflowExecutionTimeout)
	require.Nil(t, service.started[1].Header)
}

func TestSameItemGivesTheSameRequest(t *testing.T) {
	t.Parallel()
	service := &startService{}
	item := anItem()
	for range 2 {
		must.Get(starterOn(service).Start(t.Context(), item)).In(t)
		// The request contains nothing that differs between claims of the same item.
		item.UnansweredFor = time.Minute
	}
	deterministic := proto.MarshalOptions{Deterministic: true}
	first := must.Get(deterministic.Marshal(service.started[0])).In(t)
	second := must.Get(deterministic.Marshal(service.started[1])).In(t)
	require.Equal(t, first, second)
}

func TestParamsReachTheWorkflowAsTheyWereStored(t *testing.T) {
	must.Each(t, map[string]string{
		"a number beyond float64":   `{"n": 1` + strings.Repeat("0", 400) + `}`,
		"a number with an exponent": `{"n": 1e400, "m": 0.10000000000000000000000000001}`,
		"an ID above 2^53":          `{"id": 9007199254740993}`,
		"20,000 levels":             `{"a": ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
		"unicode":                   `{"naïve": "日本語 🙂 \u0001 <&> \"quoted\" \\"}`,
		"the same key twice":        `{"a": 1, "a": 2}`,
		"nothing":                   `{}`,
	}, func(t *testing.T, params string) {
		service := &startService{}
		item := anItem()
		item.Params = []byte(params)
		must.Get(starterOn(service).Start(t.Context(), item)).In(t)
		data := string(service.started[0].Input.Payloads[0].Data)
		require.True(t, strings.HasSuffix(data, `,"params":`+params+`}`), "params are copied byte for byte")
	})
}

func TestInputThatTemporalWouldRefuseIsNotSent(t *testing.T) {
	t.Parallel()
	service := &startService{}
	item := anItem()
	room := maxInputBytes - len(envelope(item)) + len(item.Params) - len(`{"a":""}`)
	item.Params = []byte(`{"a":"` + strings.Repeat("x", room) + `"}`)
	_, err := starterOn(service).Start(t.Context(), item)
	require.NoError(t, err, "the largest input that fits is sent")
	require.Len(t, service.started[0].Input.Payloads[0].Data, maxInputBytes)

	item.Params = []byte(`{"a":"` + strings.Repeat("x", room+1) + `"}`)
	_, err = starterOn(service).Start(t.Context(), item)
	require.ErrorContains(t, err, "2097153 bytes")
	require.Equal(t, engine.Permanent, Classify(err))
	require.Len(t, service.started, 1, "no second request was sent")
}

func TestAlreadyStartedByOurOwnRequestIsSuccess(t *testing.T) {
	t.Parallel()
	service := &startService{start: alreadyStarted("pgdispatch-" + anItem().ID)}
	require.Equal(t, "run-there", must.Get(starterOn(service).Start(t.Context(), anItem())).In(t))
	require.Empty(t, service.described, "the request ID identifies the start")

	service.start, service.describe = alreadyStarted("made-by-the-server"), describedAs("run-continued", anItem().ID)
	runID := must.Get(starterOn(service).Start(t.Context(), anItem())).In(t)
	require.Equal(t, "run-continued", runID, "our memo does, too")
	require.Len(t, service.described, 1)
	require.Equal(t, "shop", service.described[0].Namespace)
	require.Equal(t, WorkflowID(anItem().ID), service.described[0].Execution.WorkflowId)
	require.Empty(t, service.described[0].Execution.RunId, "the newest run of the chain")

	service.start = func(*startRequest) (*startResponse, error) {
		return nil, serviceerror.NewAlreadyExists("it does not say whose it is")
	}
	require.Equal(t, "run-continued", must.Get(starterOn(service).Start(t.Context(), anItem())).In(t))
	service.describe = describedAs("run-there", "")
	_, err := starterOn(service).Start(t.Context(), anItem())
	require.ErrorIs(t, err, ErrForeign)
}

func TestAlreadyStartedByAStrangerFailsTheItem(t *testing.T) {
	must.Each(t, map[string]func(*describeRequest) (*describeResponse, error){
		"without a memo":           describedAs("run-there", ""),
		"with another item's memo": describedAs("run-there", "99999999-9999-4999-8999-999999999999"),
	}, func(t *testing.T, describe func(*describeRequest) (*describeResponse, error)) {
		service := &startService{start: alreadyStarted("somebody-else"), describe: describe}
		_, err := starterOn(service).Start(t.Context(), anItem())
		require.ErrorIs(t, err, ErrForeign)
		require.ErrorContains(t, err, WorkflowID(anItem().ID))
		require.Equal(t, engine.Permanent, Classify(err))
	})
}

// It was deleted meanwhile, or a failover that lags does not find it.
func TestStart_TakesAWorkflowThatExistsAndIsNotFoundForNoAnswer(t *testing.T) {
	must.Each(t, map[string]func(*describeRequest) (*describeResponse, error){
		"not found": func(*describeRequest) (*describeResponse, error) {
			return nil, serviceerror.NewNotFound("gone")
		},
		"an empty answer": func(*describeRequest) (*describeResponse, error) { return &describeResponse{}, nil },
	}, func(t *testing.T, describe func(*describeRequest) (*describeResponse, error)) {
		service := &startService{start: alreadyStarted("somebody-else"), describe: describe}
		_, err := starterOn(service).Start(t.Context(), anItem())
		require.NotErrorIs(t, err, ErrForeign)
		require.EqualError(t, err, "workflow "+WorkflowID(anItem().ID)+
			" exists according to Temporal, which does not find it; it is asked again")
		require.Equal(t, engine.Unanswered.String(), Classify(err).String())
	})
}

func TestDescribeThatFailsDecidesNothingAboutTheItem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want engine.Outcome
	}{
		{serviceerror.NewUnavailable("x"), engine.Unanswered},
		{serviceerror.NewPermissionDenied("x", ""), engine.Blocked},
		{serviceerror.NewNamespaceNotFound("shop"), engine.Blocked},
		{context.DeadlineExceeded, engine.Unanswered},
	} {
		service := &startService{
			start:    alreadyStarted("somebody-else"),
			describe: func(*describeRequest) (*describeResponse, error) { return nil, c.err },
		}
		_, err := starterOn(service).Start(t.Context(), anItem())
		require.ErrorIs(t, err, c.err)
		require.NotErrorIs(t, err, ErrForeign)
		require.Equal(t, c.want.String(), Classify(err).String())
	}
}

func TestStartThatFailsSaysWhatWasTried(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	service := &startService{start: func(*startRequest) (*startResponse, error) { return nil, boom }}
	_, err := starterOn(service).Start(t.Context(), anItem())
	require.ErrorIs(t, err, boom)
	require.EqualError(t, err, "start workflow: boom")
	require.Empty(t, service.described)
	boom = serviceerror.NewUnavailable("connection error: connection refused")
	_, err = starterOn(service).Start(t.Context(), anItem())
	require.Equal(t, engine.Unanswered.String(), Classify(err).String(), "only gRPC's options prove that nothing was sent")
}

func TestFindKnowsOursFromNobodysAndAStrangers(t *testing.T) {
	t.Parallel()
	answers := func(err error) func(*describeRequest) (*describeResponse, error) {
		return func(*describeRequest) (*describeResponse, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		describe func(*describeRequest) (*describeResponse, error)
		runID    string
		fails    bool
	}{
		"ours":                {describe: describedAs("run-found", anItem().ID), runID: "run-found"},
		"a stranger's":        {describe: describedAs("run-there", "")},
		"nobody's":            {describe: answers(serviceerror.NewNotFound("x"))},
		"a missing namespace": {describe: answers(serviceerror.NewNamespaceNotFound("x")), fails: true},
	} {
		service := &startService{describe: c.describe}
		runID, found, err := starterOn(service).Find(t.Context(), anItem())
		require.Equal(t, c.fails, err != nil, name)
		require.Equal(t, c.runID != "", found, name)
		if found {
			require.Equal(t, c.runID, runID)
		}
		require.Empty(t, service.started, "describing starts nothing")
	}
}
