package temporal

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
	activitypb "go.temporal.io/api/activity/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// activityService has one activity, and records the requests.
type activityService struct {
	Service // no workflows

	answer  error // to every request but a description
	info    *activitypb.ActivityExecutionInfo
	earlier []*activitypb.ActivityExecutionInfo // by run
	outcome *activitypb.ActivityExecutionOutcome
	empty   int // how many polls come before the outcome
	started []*workflowservice.StartActivityExecutionRequest
	polls   []*workflowservice.PollActivityExecutionRequest
	lists   []*workflowservice.ListActivityExecutionsRequest
	stops   []string
}

func (f *activityService) StartActivityExecution(_ context.Context, r *workflowservice.StartActivityExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.StartActivityExecutionResponse, error) {
	f.started = append(f.started, proto.CloneOf(r))
	return &workflowservice.StartActivityExecutionResponse{RunId: "run"}, f.answer
}

func (f *activityService) DescribeActivityExecution(_ context.Context,
	r *workflowservice.DescribeActivityExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.DescribeActivityExecutionResponse, error) {
	for _, info := range f.earlier {
		if info.GetRunId() == r.GetRunId() {
			return &workflowservice.DescribeActivityExecutionResponse{Info: info}, nil
		}
	}
	if f.info == nil {
		return nil, serviceerror.NewNotFound("activity not found")
	}
	return &workflowservice.DescribeActivityExecutionResponse{Info: f.info, Outcome: f.outcome}, nil
}

func (f *activityService) PollActivityExecution(_ context.Context, r *workflowservice.PollActivityExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.PollActivityExecutionResponse, error) {
	f.polls = append(f.polls, proto.CloneOf(r))
	if len(f.polls) <= f.empty {
		return &workflowservice.PollActivityExecutionResponse{}, nil
	}
	return &workflowservice.PollActivityExecutionResponse{Outcome: f.outcome}, f.answer
}

func (f *activityService) ListActivityExecutions(_ context.Context, r *workflowservice.ListActivityExecutionsRequest,
	_ ...grpc.CallOption) (*workflowservice.ListActivityExecutionsResponse, error) {
	f.lists = append(f.lists, proto.CloneOf(r))
	if f.earlier != nil {
		response := &workflowservice.ListActivityExecutionsResponse{}
		for _, info := range f.earlier {
			response.Executions = append(response.Executions, &activitypb.ActivityExecutionListInfo{RunId: info.GetRunId(),
				ActivityId: "order-17", ScheduleTime: info.GetScheduleTime()})
		}
		return response, nil
	}
	closed := timestamppb.New(time.Date(2026, 8, 1, 10, 5, 0, 0, time.UTC))
	return &workflowservice.ListActivityExecutionsResponse{NextPageToken: []byte("2"),
		Executions: []*activitypb.ActivityExecutionListInfo{{ActivityId: "somebody else's", CloseTime: closed},
			{ActivityId: "execution-" + anItem().ID, RunId: "run", CloseTime: closed}}}, f.answer
}

func (f *activityService) TerminateActivityExecution(_ context.Context,
	r *workflowservice.TerminateActivityExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.TerminateActivityExecutionResponse, error) {
	f.stops = append(f.stops, fmt.Sprintf("terminate %s by %s: %s (%s)", r.RunId, r.Identity, r.Reason, r.RequestId))
	return nil, f.answer
}

func (f *activityService) RequestCancelActivityExecution(_ context.Context,
	r *workflowservice.RequestCancelActivityExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.RequestCancelActivityExecutionResponse, error) {
	f.stops = append(f.stops, fmt.Sprintf("cancel %s by %s: %s (%s)", r.RunId, r.Identity, r.Reason, r.RequestId))
	return nil, f.answer
}

func (f *activityService) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest,
	...grpc.CallOption) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{ServerVersion: "1.28.1"}, nil
}

func (f *activityService) DescribeTaskQueue(_ context.Context, r *workflowservice.DescribeTaskQueueRequest,
	_ ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	if r.TaskQueueType != enumspb.TASK_QUEUE_TYPE_ACTIVITY {
		return &workflowservice.DescribeTaskQueueResponse{}, nil
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{}}}, nil
}

func anActivity() Start {
	start := anItem()
	start.Kind = Activity
	return start
}

// describedActivity is an activity whose header names an execution.
func describedActivity(runID, executionID string, open bool) *activitypb.ActivityExecutionInfo {
	info := &activitypb.ActivityExecutionInfo{RunId: runID, Header: &commonpb.Header{Fields: map[string]*commonpb.Payload{
		idsHeader: jsonPayload([]byte(`{"executionId": "` + executionID + `"}`))}}}
	if !open {
		info.CloseTime = timestamppb.Now()
	}
	return info
}

func failedAs(failure *failurepb.Failure) *activitypb.ActivityExecutionOutcome {
	return &activitypb.ActivityExecutionOutcome{Value: &activitypb.ActivityExecutionOutcome_Failure{Failure: failure}}
}

func resulted(payloads ...*commonpb.Payload) *activitypb.ActivityExecutionOutcome {
	return &activitypb.ActivityExecutionOutcome{Value: &activitypb.ActivityExecutionOutcome_Result{
		Result: &commonpb.Payloads{Payloads: payloads}}}
}

func TestAnItemOfAnActivityStartsItUnderTheSameIdentity(t *testing.T) {
	t.Parallel()
	service := &activityService{}
	start := anActivity()
	start.Options = []byte(`{"start_to_close_timeout": "30s", "heartbeat_timeout": "5s", "schedule_to_start_timeout": "1h",
		"retry_policy": {"maximum_attempts": 3}, "priority": {"priority_key": 2}, "search_attributes": {"City": "Oslo"},
		"static_summary": "pays", "task_queue": "bank"}`)
	runID := must.Get((&Client{Service: service, Namespace: "shop", Identity: "replica_1",
		Callback: &Callback{URL: "http://callbacks"}}).Start(t.Context(), start)).In(t)
	require.Equal(t, "run", runID)
	require.Len(t, service.started, 1)
	r := service.started[0]
	require.Equal(t, "shop execution-11111111-1111-4111-8111-111111111111 pgdispatch-11111111-1111-4111-8111-111111111111",
		r.Namespace+" "+r.ActivityId+" "+r.RequestId)
	require.Equal(t, enumspb.ACTIVITY_ID_REUSE_POLICY_REJECT_DUPLICATE, r.IdReusePolicy)
	require.Equal(t, enumspb.ACTIVITY_ID_CONFLICT_POLICY_FAIL, r.IdConflictPolicy)
	require.Equal(t, "Order bank replica_1", r.ActivityType.Name+" "+r.TaskQueue.Name+" "+r.Identity)
	require.Equal(t, 90*time.Minute+time.Millisecond, r.ScheduleToCloseTimeout.AsDuration(), "the definition's timeout")
	require.Equal(t, []time.Duration{time.Hour, 30 * time.Second, 5 * time.Second}, []time.Duration{
		r.ScheduleToStartTimeout.AsDuration(), r.StartToCloseTimeout.AsDuration(), r.HeartbeatTimeout.AsDuration()})
	require.Equal(t, int32(3), r.RetryPolicy.MaximumAttempts)
	require.Equal(t, int32(2), r.Priority.PriorityKey)
	require.Equal(t, `"Oslo"`, string(r.SearchAttributes.IndexedFields["City"].Data))
	require.Equal(t, `"pays"`, string(r.UserMetadata.Summary.Data))
	require.Contains(t, string(r.Input.Payloads[0].Data), `"params":{"order": 1}`, "the envelope")
	require.Contains(t, string(r.Header.Fields[idsHeader].Data), `"executionId":"11111111-1111-4111-8111-111111111111"`)
	require.Contains(t, r.Header.Fields, traceHeader)
	require.Empty(t, r.CompletionCallbacks, "Temporal refuses them for activities")

	start.Options = []byte(`{"schedule_to_close_timeout": "1m"}`)
	must.Get((&Client{Service: service}).Start(t.Context(), start)).In(t)
	require.Equal(t, time.Minute, service.started[1].ScheduleToCloseTimeout.AsDuration(), "its own comes first")

	start.WorkflowID, start.Policy = "order-17", UseExisting
	must.Get((&Client{Service: service}).Start(t.Context(), start)).In(t)
	require.Equal(t, "AllowDuplicate UseExisting",
		service.started[2].IdReusePolicy.String()+" "+service.started[2].IdConflictPolicy.String())
	require.Nil(t, service.started[2].OnConflictOptions, "Temporal refuses to attach a request ID alone")
}

func TestARepeatedStartFindsItsActivityAndNoOther(t *testing.T) {
	t.Parallel()
	start := func(request string, described *activitypb.ActivityExecutionInfo) (string, error) {
		service := &activityService{info: described,
			answer: serviceerror.NewActivityExecutionAlreadyStarted("taken", request, "run-there")}
		return (&Client{Service: service}).Start(t.Context(), anActivity())
	}
	id := anActivity().ID
	runID, err := start(requestID(id), nil)
	require.NoError(t, err)
	require.Equal(t, "run-there", runID)
	runID, err = start("", describedActivity("run-1", id, true))
	require.NoError(t, err, "an answer without the request ID")
	require.Equal(t, "run-1", runID)
	_, err = start("another", describedActivity("run-1", "another execution", true))
	require.ErrorIs(t, err, ErrForeign)
	require.Equal(t, engine.Permanent, Classify(err))
}

// Only a description tells whose an activity is.
func TestAnUnansweredActivityIsNotSentAgainAfterItsIDWasReused(t *testing.T) {
	t.Parallel()
	at := func(runID, executionID string, ago time.Duration) *activitypb.ActivityExecutionInfo {
		info := describedActivity(runID, executionID, false)
		info.ScheduleTime = timestamppb.New(time.Now().Add(-ago))
		return info
	}
	start := anActivity()
	start.WorkflowID, start.Policy, start.Unanswered, start.UnansweredFor = "order-17", Reuse, true, 5*time.Minute
	for name, ago := range map[string]time.Duration{"since": time.Minute, "before the first request": 3 * time.Hour} {
		service := &activityService{info: describedActivity("run-later", "another", true),
			earlier: []*activitypb.ActivityExecutionInfo{at("run-gone", "third", time.Minute), at("run-ours", start.ID, ago)}}
		runID := must.Get((&Client{Service: service}).Start(t.Context(), start)).In(t)
		require.Equal(t, "ActivityId = 'order-17'", service.lists[0].Query)
		if name == "since" {
			require.Equal(t, "run-ours", runID)
			require.Empty(t, service.started)
		} else {
			require.Len(t, service.started, 1, name)
		}
	}
}

func TestAServerWithoutActivitiesSaysNothingAboutWorkflows(t *testing.T) {
	t.Parallel()
	service := &activityService{answer: serviceerror.NewUnimplemented("Standalone activity is disabled")}
	client := &Client{Service: service}
	_, err := client.Start(t.Context(), anActivity())
	require.ErrorIs(t, err, ErrNoActivities)
	require.ErrorContains(t, err, "version 1.28.1")
	require.Equal(t, engine.Blocked, Classify(err))
	require.Contains(t, Remedy(err, "shop"), "Temporal 1.32")
	require.Equal(t, "1.28.1", client.NoActivities())
	service.answer = nil
	must.Get(client.Start(t.Context(), anActivity())).In(t)
	require.Empty(t, client.NoActivities(), "the server was upgraded")

	unknown := anItem()
	unknown.Kind = "nexus"
	_, err = (&Client{Service: service}).Start(t.Context(), unknown)
	require.ErrorContains(t, err, `kind is "nexus", which this replica does not know`)
	require.Equal(t, engine.Permanent, Classify(err))
}

func TestTheEndOfAnActivityIsItsOutcome(t *testing.T) {
	t.Parallel()
	timeout := &failurepb.Failure{Message: "activity StartToClose timeout",
		FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{}}}
	twice := proto.CloneOf(timeout)
	twice.Cause = timeout
	for name, row := range map[string]struct {
		outcome *activitypb.ActivityExecutionOutcome
		want    End
	}{
		"result":        {resulted(jsonPayload([]byte(`{"a": 1}`))), End{Outcome: "COMPLETED", Result: `{"a": 1}`}},
		"no result":     {resulted(), End{Outcome: "COMPLETED"}},
		"failure":       {failedAs(failure("declined", "Bank", nil)), End{Outcome: "FAILED", Reason: "declined (Bank)"}},
		"timeout":       {failedAs(timeout), End{Outcome: "TIMED_OUT", Reason: "activity StartToClose timeout"}},
		"timeout twice": {failedAs(twice), End{Outcome: "TIMED_OUT", Reason: "activity StartToClose timeout"}},
		"cancelled": {failedAs(&failurepb.Failure{Message: "canceled",
			FailureInfo: &failurepb.Failure_CanceledFailureInfo{CanceledFailureInfo: &failurepb.CanceledFailureInfo{}}}),
			End{Outcome: "CANCELED", Reason: "activity was cancelled"}},
		"terminated": {failedAs(&failurepb.Failure{Message: "enough",
			FailureInfo: &failurepb.Failure_TerminatedFailureInfo{TerminatedFailureInfo: &failurepb.TerminatedFailureInfo{}}}),
			End{Outcome: "TERMINATED", Reason: "activity was terminated: enough"}},
	} {
		service := &activityService{outcome: row.outcome, empty: 2, info: describedActivity("run-1", "e1", false)}
		client, execution := &Client{Service: service}, Execution{ID: "e1", RunID: "run-1", Kind: Activity}
		end, err := client.Wait(t.Context(), execution)
		require.NoError(t, err)
		require.Equal(t, row.want, end, name)
		require.Len(t, service.polls, 3, "an empty answer is no end")
		require.Equal(t, "run-1", service.polls[0].RunId)
		end, ended, err := client.Ended(t.Context(), execution)
		require.NoError(t, err)
		require.True(t, ended)
		require.Equal(t, row.want, end, name)
	}
}

func TestAnActivityThatIsOpenAwayOrGone(t *testing.T) {
	t.Parallel()
	execution := Execution{ID: "e1", RunID: "run-1", Kind: Activity}
	_, ended, err := (&Client{Service: &activityService{info: describedActivity("run-1", "e1", true)}}).
		Look(t.Context(), execution)
	require.NoError(t, err)
	require.False(t, ended)
	_, err = (&Client{Service: &activityService{answer: serviceerror.NewUnavailable("x")}}).Wait(t.Context(), execution)
	require.ErrorIs(t, err, ErrAway)
	_, err = (&Client{Service: &activityService{answer: serviceerror.NewNotFound("x")}}).Wait(t.Context(), execution)
	require.ErrorIs(t, err, ErrMissing)
	require.EqualError(t, err, "activity not found in Temporal")
}

func TestAnActivityIsStoppedOnlyIfItIsOurs(t *testing.T) {
	t.Parallel()
	stop := func(how string, service *activityService) error {
		return (&Client{Service: service}).Stop(t.Context(),
			Stop{Execution: Execution{ID: "e1", Kind: Activity}, How: how, Reason: "enough", RequestedBy: "ann"})
	}
	service := &activityService{info: describedActivity("run-1", "e1", true)}
	require.NoError(t, stop("CANCEL", service))
	require.NoError(t, stop("TERMINATE", service))
	require.Equal(t, []string{"cancel run-1 by ann: enough (e1)", "terminate run-1 by ann: enough (e1)"}, service.stops)
	service.answer = serviceerror.NewFailedPrecondition("activity is in terminal state Completed")
	require.NoError(t, stop("CANCEL", service))
	require.ErrorIs(t, stop("CANCEL", &activityService{}), ErrMissing)
	require.ErrorIs(t, stop("CANCEL", &activityService{info: describedActivity("run-1", "e1", false)}), ErrNotOpen)
	require.EqualError(t, stop("CANCEL", &activityService{info: describedActivity("run-1", "e2", true)}),
		"activity was not started by pgdispatch")
}

func TestClosedActivitiesAreListedLikeWorkflows(t *testing.T) {
	t.Parallel()
	service := &activityService{}
	since := time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)
	page := must.Get((&Client{Service: service, Namespace: "shop"}).Closed(t.Context(),
		Range{Kind: Activity, Since: since}, []byte("1"))).In(t)
	require.Equal(t, Page{ExecutionIDs: []string{anItem().ID}, Runs: map[string]string{},
		Newest: since.Add(5 * time.Minute), Next: []byte("2")}, page)
	require.Equal(t, "CloseTime >= '2026-08-01T10:00:00Z' and ActivityId starts_with 'execution-'", service.lists[0].Query)
	require.Equal(t, "shop 1", service.lists[0].Namespace+" "+string(service.lists[0].NextPageToken))
}

func TestAQueueOfActivitiesIsPolledForActivities(t *testing.T) {
	t.Parallel()
	client := &Client{Service: &activityService{}}
	for kind, want := range map[Kind]bool{Activity: true, Workflow: false} {
		require.Equal(t, want, must.Get(client.Polled(t.Context(), TaskQueue{Name: "orders", Kind: kind})).In(t))
	}
}

func TestAnActivityIsEncodedAndItsEndDecoded(t *testing.T) {
	server, codec, _ := codecServer(t)
	start := anActivity()
	start.Params = []byte(`{"card": "4111-secret"}`)
	start.Options = []byte(`{"static_summary": "summary-secret"}`)
	service := &activityService{}
	must.Get(coded(service, codec).Start(t.Context(), start)).In(t)
	wire := must.Get(proto.Marshal(service.started[0])).In(t)
	require.NotContains(t, string(wire), "secret")
	require.Contains(t, string(service.started[0].Header.Fields[idsHeader].Data), start.ID, "IDs stay readable")

	sealed := must.Get(server.Codec.Encode([]*commonpb.Payload{jsonPayload([]byte(`{"total": 3}`))})).In(t)
	end := must.Get(coded(&activityService{outcome: resulted(sealed...)}, codec).
		Wait(t.Context(), Execution{ID: "e1", Kind: Activity})).In(t)
	require.Equal(t, End{Outcome: "COMPLETED", Result: `{"total": 3}`}, end)
}
