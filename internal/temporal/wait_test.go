package temporal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

type (
	historyRequest  = workflowservice.GetWorkflowExecutionHistoryRequest
	historyResponse = workflowservice.GetWorkflowExecutionHistoryResponse
)

// fakeService gives each of its answers once, in order, and records the requests.
type fakeService struct {
	Service // starts nothing

	answers  history
	requests []*historyRequest

	namespace error                             // the answer of DescribeNamespace
	state     enumspb.NamespaceState            // of the namespace
	newest    *workflowpb.WorkflowExecutionInfo // the described run; nil: not found
	late      *workflowpb.WorkflowExecutionInfo // the described run from the third call on; nil: newest
	described int
	describe  error
	attempt   int32 // of the pending workflow task
	stops     []string
	stop      error // the answer to a cancellation, termination or signal
	signals   []*workflowservice.SignalWorkflowExecutionRequest
	lists     []*workflowservice.ListWorkflowExecutionsRequest
	list      func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

func (f *fakeService) GetWorkflowExecutionHistory(ctx context.Context, r *historyRequest,
	_ ...grpc.CallOption) (*historyResponse, error) {
	f.requests = append(f.requests, proto.CloneOf(r))
	if len(f.answers) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answer := f.answers[0]
	f.answers = f.answers[1:]
	return answer()
}

func (f *fakeService) DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest,
	...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if f.described++; f.described > 2 && f.late != nil {
		f.newest = f.late
	}
	if f.newest == nil {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: f.newest,
		PendingWorkflowTask: &workflowpb.PendingWorkflowTaskInfo{Attempt: f.attempt}}, f.describe
}

func (f *fakeService) ListWorkflowExecutions(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest,
	_ ...grpc.CallOption) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.lists = append(f.lists, proto.CloneOf(r))
	return f.list(r)
}

func (f *fakeService) TerminateWorkflowExecution(_ context.Context,
	r *workflowservice.TerminateWorkflowExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.TerminateWorkflowExecutionResponse, error) {
	f.stops = append(f.stops,
		fmt.Sprintf("terminate %s %s by %s: %s", r.WorkflowExecution.WorkflowId, r.WorkflowExecution.RunId, r.Identity,
			r.Reason))
	return nil, f.stop
}

func (f *fakeService) RequestCancelWorkflowExecution(_ context.Context,
	r *workflowservice.RequestCancelWorkflowExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.RequestCancelWorkflowExecutionResponse, error) {
	f.stops = append(f.stops,
		fmt.Sprintf("cancel %s %s by %s: %s (%s)", r.WorkflowExecution.WorkflowId, r.WorkflowExecution.RunId, r.Identity,
			r.Reason, r.RequestId))
	return nil, f.stop
}

func (f *fakeService) SignalWorkflowExecution(_ context.Context, r *workflowservice.SignalWorkflowExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.SignalWorkflowExecutionResponse, error) {
	f.signals = append(f.signals, r)
	return &workflowservice.SignalWorkflowExecutionResponse{}, f.stop
}

func (f *fakeService) DescribeTaskQueue(_ context.Context, r *workflowservice.DescribeTaskQueueRequest,
	_ ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	if r.TaskQueue.Name == "orders" && r.TaskQueueType == enumspb.TASK_QUEUE_TYPE_WORKFLOW {
		return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{}}}, f.describe
	}
	return nil, f.describe
}

func (f *fakeService) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest,
	...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	return &namespaceAnswer{NamespaceInfo: &namespacepb.NamespaceInfo{State: f.state}}, f.namespace
}

// history is what requests for a history are answered, one after another.
type history []func() (*historyResponse, error)

// closed answers with a close event.
func closed(event *historypb.HistoryEvent) func() (*historyResponse, error) {
	return func() (*historyResponse, error) {
		return &historyResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{event}}}, nil
	}
}

// empty answers a poll during which nothing happened.
func empty(token string) func() (*historyResponse, error) {
	return func() (*historyResponse, error) {
		return &historyResponse{History: &historypb.History{}, NextPageToken: []byte(token)}, nil
	}
}

func fails(err error) func() (*historyResponse, error) {
	return func() (*historyResponse, error) { return nil, err }
}

func completed(next string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
			WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{
				NewExecutionRunId: next}}}
}

// returned is the end of a workflow with a result.
func returned(encoding, data string) *historypb.HistoryEvent {
	event := completed("")
	event.GetWorkflowExecutionCompletedEventAttributes().Result = &commonpb.Payloads{Payloads: []*commonpb.Payload{
		{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(data)}}}
	return event
}

func failed(failure *failurepb.Failure, next string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
			WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{Failure: failure,
				NewExecutionRunId: next}}}
}

func timedOut(next string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionTimedOutEventAttributes{
			WorkflowExecutionTimedOutEventAttributes: &historypb.WorkflowExecutionTimedOutEventAttributes{
				NewExecutionRunId: next}}}
}

func continued(next string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionContinuedAsNewEventAttributes{
			WorkflowExecutionContinuedAsNewEventAttributes: &historypb.WorkflowExecutionContinuedAsNewEventAttributes{
				NewExecutionRunId: next}}}
}

func terminated(reason string) *historypb.HistoryEvent { return terminatedBy("", reason) }

func terminatedBy(identity, reason string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Reason: reason,
				Identity: identity}}}
}

func wait(t *testing.T, answers ...func() (*historyResponse, error)) (End, *fakeService, error) {
	t.Helper()
	service := &fakeService{answers: answers, newest: described("run-9", "somebody else", true)}
	end, err := (&Client{Service: service, Namespace: "shop"}).Wait(t.Context(), Execution{ID: "e1", RunID: "run-1"})
	return end, service, err
}

// runs returns the requested run IDs, in order.
func (f *fakeService) runs() []string {
	var runs []string
	for _, r := range f.requests {
		runs = append(runs, r.Execution.RunId)
	}
	return runs
}

func TestWaitSaysHowTheWorkflowEnded(t *testing.T) {
	chain := &failurepb.Failure{Message: "activity error", Cause: failure("charge failed", "Card",
		failure("card expired", "errorString", nil))}
	type given struct {
		event *historypb.HistoryEvent
		want  End
	}
	must.Each(t, map[string]given{
		"completed": {completed(""), End{Outcome: "COMPLETED"}},
		"failed":    {failed(&failurepb.Failure{Message: "boom"}, ""), End{Outcome: "FAILED", Reason: "boom"}},
		"failed in a chain": {failed(chain, ""),
			End{Outcome: "FAILED", Reason: "activity error: charge failed (Card): card expired"}},
		"failed with a type": {failed(failure("boom", "Oven", nil), ""), End{Outcome: "FAILED", Reason: "boom (Oven)"}},
		"with a result":      {returned("json/plain", `{"total": 3}`), End{Outcome: "COMPLETED", Result: `{"total": 3}`}},
		"with a secret": {returned("binary/encrypted", "x"),
			End{Outcome: "COMPLETED", Reason: `encoding "binary/encrypted", 1 bytes: not stored`}},
		"terminated, no text": {terminated(""), End{Outcome: "TERMINATED", Reason: "workflow was terminated"}},
		"failed, no message":  {failed(nil, ""), End{Outcome: "FAILED"}},
		"timed out":           {timedOut(""), End{Outcome: "TIMED_OUT", Reason: "workflow timed out"}},
		"terminated":          {terminated("enough"), End{Outcome: "TERMINATED", Reason: "workflow was terminated: enough"}},
		"cancelled": {&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED},
			End{Outcome: "CANCELED", Reason: "workflow was cancelled"}},
	}, func(t *testing.T, c given) {
		end, _, err := wait(t, closed(c.event))
		require.NoError(t, err)
		require.Equal(t, c.want, end)
	})
}

func TestWaitFollowsTheChainToItsLastRun(t *testing.T) {
	t.Parallel()
	end, service, err := wait(t, closed(continued("run-2")),
		closed(failed(&failurepb.Failure{Message: "first try"}, "run-3")),
		empty("page"), closed(timedOut("run-4")), closed(completed("run-5")), closed(terminated("enough")))
	require.NoError(t, err)
	require.Equal(t, "TERMINATED", end.Outcome)
	require.Equal(t, []string{"run-1", "run-2", "run-3", "run-3", "run-4", "run-5"}, service.runs())
	require.Equal(t, "page", string(service.requests[3].NextPageToken))
	require.Empty(t, service.requests[4].NextPageToken, "a token belongs to its run")
}

func TestWaitPollsForTheCloseEventOfTheRunAndAsksOnAfterAnEmptyPoll(t *testing.T) {
	t.Parallel()
	end, service, err := wait(t, empty("page-1"), empty("page-2"), empty(""), closed(completed("")))
	require.NoError(t, err)
	require.Equal(t, "COMPLETED", end.Outcome)
	var tokens []string
	for _, r := range service.requests {
		tokens = append(tokens, string(r.NextPageToken))
	}
	require.Equal(t, []string{"", "page-1", "page-2", ""}, tokens)
	r := service.requests[0]
	require.Equal(t, "shop execution-e1 run-1", r.Namespace+" "+r.Execution.WorkflowId+" "+r.Execution.RunId)
	require.True(t, r.WaitNewEvent && r.SkipArchival)
	require.Equal(t, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT, r.HistoryEventFilterType)
}

func TestWait_SaysThatAWorkflowIsMissing(t *testing.T) {
	t.Parallel()
	gone := fails(serviceerror.NewNotFound("workflow not found"))
	for _, answers := range []history{{gone}, {closed(continued("run-2")), gone}} {
		_, _, err := wait(t, answers...)
		require.ErrorIs(t, err, ErrMissing)
	}
}

func TestPollThatNobodyAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, _, err := wait(t, empty("page"))
		require.EqualError(t, err,
			"wait for close event: no answer from Temporal: long poll timed out after 1m5s: context deadline exceeded")
		require.Equal(t, pollTimeout, time.Since(began))
	})
}

func TestAnErrorSaysNothingAboutTheEndAndWhetherTemporalIsAwayOrCrowded(t *testing.T) {
	t.Parallel()
	crowded := serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT,
		"namespace concurrent poller limit exceeded")
	for _, c := range []struct{ err, is error }{
		{crowded, ErrCrowded},
		{serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slower"), ErrAway},
		{serviceerror.NewUnavailable("connection refused"), ErrAway},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), ErrAway},
		{serviceerror.NewPermissionDenied("x", ""), nil},
		{serviceerror.NewNamespaceNotFound("shop"), nil}, // unlike a workflow that is gone
		{errors.New("boom"), nil},
	} {
		end, _, err := wait(t, fails(c.err))
		require.ErrorIs(t, err, c.err)
		require.ErrorContains(t, err, "wait for close event: ")
		require.Empty(t, end)
		for _, kind := range []error{ErrCrowded, ErrAway} {
			require.Equal(t, kind == c.is, errors.Is(err, kind), "%s is %s", c.err, kind)
		}
	}
	_, _, err := wait(t, closed(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED}))
	require.ErrorContains(t, err, "WorkflowExecutionStarted does not close a workflow")
}

func TestProbeTakesARefusalForAnAnswerUnlessAllElseWouldBeRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		reached bool
	}{
		{nil, true},
		{serviceerror.NewUnimplemented("x"), true},
		{serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slower"), true},
		{serviceerror.NewUnavailable("connection refused"), false},
		{context.DeadlineExceeded, false},
		{errors.New("boom"), false},
	} {
		err := (&Client{Service: &fakeService{namespace: c.err}, Namespace: "shop"}).Probe(t.Context())
		require.Equal(t, c.reached, err == nil, "%v", c.err)
		var refused NamespaceError
		require.NotErrorAs(t, err, &refused)
	}
}

func TestProbeSaysWhyTheNamespaceIsRefusedAndWhatToDo(t *testing.T) {
	denied := serviceerror.NewPermissionDenied("Request unauthorized.", "")
	type given struct {
		state    enumspb.NamespaceState
		describe error
		history  error // the answer for an execution that does not exist
		want     string
	}
	must.Each(t, map[string]given{
		"registered": {state: enumspb.NAMESPACE_STATE_REGISTERED},
		"missing": {describe: serviceerror.NewNamespaceNotFound("shop"),
			want: `Temporal has no namespace "shop": register it (temporal operator namespace create --namespace "shop"), ` +
				`or correct TEMPORAL_NAMESPACE`},
		"deprecated": {state: enumspb.NAMESPACE_STATE_DEPRECATED,
			want: `namespace "shop" is deprecated and takes no new workflows: correct TEMPORAL_NAMESPACE`},
		"deleted": {state: enumspb.NAMESPACE_STATE_DELETED,
			want: `namespace "shop" is deleted and takes no new workflows: correct TEMPORAL_NAMESPACE`},
		"forbidden": {describe: denied, history: denied, want: `namespace "shop": Request unauthorized.: ` +
			`allow the API key or certificate of pgdispatch to use it, or correct TEMPORAL_NAMESPACE`},
		"only its description is forbidden": {describe: denied, history: serviceerror.NewNotFound("no such workflow")},
		"its description is forbidden, and all else comes too fast": {describe: denied,
			history: exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slower")},
	}, func(t *testing.T, c given) {
		err := (&Client{Service: &fakeService{namespace: c.describe, state: c.state,
			answers: history{fails(c.history)}}, Namespace: "shop"}).Probe(t.Context())
		if c.want == "" {
			require.NoError(t, err)
			return
		}
		require.EqualError(t, err, c.want)
		var refused NamespaceError
		require.ErrorAs(t, err, &refused)
	})
}
