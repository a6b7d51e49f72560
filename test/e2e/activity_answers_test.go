package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	activitypb "go.temporal.io/api/activity/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
)

type (
	activityStart    = workflowservice.StartActivityExecutionRequest
	activityDescribe = workflowservice.DescribeActivityExecutionRequest
	activityPoll     = workflowservice.PollActivityExecutionRequest
	activityStop     = workflowservice.TerminateActivityExecutionRequest
	activityCancel   = workflowservice.RequestCancelActivityExecutionRequest
	activityList     = workflowservice.ListActivityExecutionsRequest
)

// asked is one standalone activity that a test asks Temporal about.
type asked struct {
	*stack
	service workflowservice.WorkflowServiceClient
	id, run string
}

func (s *stack) activityOf(activityType string, edits ...func(*activityStart)) *asked {
	s.t.Helper()
	a := &asked{stack: s, service: s.client.WorkflowService(), id: "execution-" + uuid.NewString()}
	response, err := a.start("ours", activityType, edits...)
	require.NoError(s.t, err)
	a.run = response.GetRunId()
	return a
}

func (a *asked) start(request, activityType string,
	edits ...func(*activityStart)) (*workflowservice.StartActivityExecutionResponse, error) {
	r := &activityStart{Namespace: "default", ActivityId: a.id, RequestId: request, Identity: "pgdispatch",
		ActivityType: &commonpb.ActivityType{Name: activityType}, TaskQueue: &taskqueuepb.TaskQueue{Name: a.queue},
		IdReusePolicy:          enumspb.ACTIVITY_ID_REUSE_POLICY_REJECT_DUPLICATE,
		IdConflictPolicy:       enumspb.ACTIVITY_ID_CONFLICT_POLICY_FAIL,
		ScheduleToCloseTimeout: durationpb.New(time.Minute),
		RetryPolicy:            &commonpb.RetryPolicy{MaximumAttempts: 2, InitialInterval: durationpb.New(time.Millisecond)},
		Header: &commonpb.Header{Fields: map[string]*commonpb.Payload{
			"pgdispatch": {Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte("{}")}}},
		Input: &commonpb.Payloads{Payloads: []*commonpb.Payload{
			{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"params": {}}`)}}},
	}
	for _, edit := range edits {
		edit(r)
	}
	return a.service.StartActivityExecution(context.Background(), r)
}

// again says what a start of the same ID is answered.
func (a *asked) again(request string, edits ...func(*activityStart)) string {
	response, err := a.start(request, "Pass", edits...)
	var exists *serviceerror.ActivityExecutionAlreadyStarted
	switch {
	case errors.As(err, &exists) && exists.RunId == a.run && exists.StartRequestId == "ours":
		return "exists: its run and request ID"
	case err != nil:
		return refusal(err)
	case response.GetRunId() == a.run:
		return "its run"
	}
	return "**a new run**"
}

// refusal names an error without what differs between two runs of the test.
func refusal(err error) string {
	if err == nil {
		return "OK"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*serviceerror.")
}

func (a *asked) poll(wait time.Duration) *activitypb.ActivityExecutionOutcome {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	response, err := a.service.PollActivityExecution(ctx,
		&activityPoll{Namespace: "default", ActivityId: a.id, RunId: a.run})
	require.NoError(a.t, err)
	return response.GetOutcome()
}

func (a *asked) describe() *activitypb.ActivityExecutionInfo {
	a.t.Helper()
	response, err := a.service.DescribeActivityExecution(context.Background(),
		&activityDescribe{Namespace: "default", ActivityId: a.id})
	require.NoError(a.t, err)
	return response.GetInfo()
}

// ends says what a poll answers when the activity has ended, and which status a description then has.
func (a *asked) ends() string {
	a.t.Helper()
	var outcome *activitypb.ActivityExecutionOutcome
	a.eventually(func() bool { outcome = a.poll(10 * time.Second); return outcome != nil }, "the activity ends")
	said := "its result"
	if failure := outcome.GetFailure(); failure != nil {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", failure.GetFailureInfo()), "*failure.Failure_")
		said = strings.TrimSuffix(kind, "Info")
		if _, isApplication := failure.GetFailureInfo().(*failurepb.Failure_ApplicationFailureInfo); !isApplication {
			said += ` "` + failure.GetMessage() + `"`
		}
	}
	return said + "; " + a.describe().GetStatus().String()
}

func (a *asked) cancel(request string) string {
	_, err := a.service.RequestCancelActivityExecution(context.Background(),
		&activityCancel{Namespace: "default", ActivityId: a.id, RunId: a.run, RequestId: request, Reason: "enough"})
	return refusal(err)
}

func (a *asked) terminate(request string) string {
	_, err := a.service.TerminateActivityExecution(context.Background(),
		&activityStop{Namespace: "default", ActivityId: a.id, RunId: a.run, RequestId: request, Reason: "enough"})
	return refusal(err)
}

// listed says whether a list by close time and prefix has the activity.
func (a *asked) listed(query string) string {
	a.t.Helper()
	var found *activitypb.ActivityExecutionListInfo
	a.eventually(func() bool {
		response, err := a.service.ListActivityExecutions(context.Background(),
			&activityList{Namespace: "default", Query: query, PageSize: 1000})
		require.NoError(a.t, err)
		for _, info := range response.GetExecutions() {
			if info.GetActivityId() == a.id {
				found = info
			}
		}
		return found != nil
	}, "the list has it")
	return fmt.Sprintf("found: run %t, close time %t", found.GetRunId() == a.run, found.GetCloseTime() != nil)
}

func unpolled(r *activityStart) { r.TaskQueue.Name += "-nobody" }

func timeouts(toClose, toStart, each, heartbeat time.Duration) func(*activityStart) {
	return func(r *activityStart) {
		r.ScheduleToCloseTimeout, r.ScheduleToStartTimeout = durationpb.New(toClose), durationpb.New(toStart)
		r.StartToCloseTimeout, r.HeartbeatTimeout = durationpb.New(each), durationpb.New(heartbeat)
	}
}

func useExisting(attach bool) func(*activityStart) {
	return func(r *activityStart) {
		r.IdReusePolicy = enumspb.ACTIVITY_ID_REUSE_POLICY_ALLOW_DUPLICATE
		r.IdConflictPolicy = enumspb.ACTIVITY_ID_CONFLICT_POLICY_USE_EXISTING
		if attach {
			r.OnConflictOptions = &commonpb.OnConflictOptions{AttachRequestId: true}
		}
	}
}

func TestWhatTemporalAnswersAboutAStandaloneActivity(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	open, passed, failed := s.activityOf("Pass", unpolled), s.activityOf("Pass"), s.activityOf("Break")
	waits := s.activityOf("Pass", unpolled)
	rows := [][2]string{
		{"started again with its request ID, open", open.again("ours")},
		{"with another request ID, open", open.again("another")},
		{"with another, under use_existing; with `attach_request_id`",
			open.again("follower", useExisting(false)) + "; " + open.again("follower", useExisting(true))},
		{"a poll while it is open, when its time is up", fmt.Sprintf("no outcome: %t", open.poll(2*time.Second) == nil)},
		{"it completed", passed.ends()},
		{"it failed for the last time", failed.ends()},
		{"it was cancelled before a worker took it", waits.cancel("ours") + ", " + waits.ends()},
		{"its cancellation again: same request ID, another", waits.cancel("ours") + ", " + waits.cancel("another")},
		{"it was terminated", open.terminate("ours") + ", " + open.ends()},
		{"its termination again: same request ID, another", open.terminate("ours") + ", " + open.terminate("another")},
		{"terminated after it completed", passed.terminate("ours")},
		{"schedule-to-close timeout", s.activityOf("Hang", timeouts(time.Second, 0, 0, 0)).ends()},
		{"schedule-to-start timeout",
			s.activityOf("Pass", unpolled, timeouts(time.Minute, time.Second, 0, 0)).ends()},
		{"start-to-close timeout, the last attempt", s.activityOf("Hang", timeouts(0, 0, time.Second, 0)).ends()},
		{"heartbeat timeout, the last attempt", s.activityOf("Hang", timeouts(0, 0, time.Minute, time.Second)).ends()},
		{"started again with its request ID: completed, failed, cancelled, terminated", strings.Join([]string{
			passed.again("ours"), failed.again("ours"), waits.again("ours"), open.again("ours")}, ", ")},
		{"with another request ID, completed", passed.again("another")},
		{"a description's header, memo, search attributes", fmt.Sprintf("header %t, no memo in the API, search attributes %t",
			passed.describe().GetHeader().GetFields()["pgdispatch"] != nil, passed.describe().GetSearchAttributes() != nil)},
		{"`CloseTime >= ... and ActivityId starts_with ...`",
			passed.listed("CloseTime >= '2020-01-01T00:00:00Z' and ActivityId starts_with 'execution-'")},
		{"the same with `WorkflowId`",
			passed.listed("CloseTime >= '2020-01-01T00:00:00Z' and WorkflowId starts_with 'execution-'")},
	}
	_, err := s.client.DescribeWorkflowExecution(t.Context(), passed.id, "")
	rows = append(rows, [2]string{"a workflow of its ID: described, signalled", refusal(err) + ", " +
		refusal(s.client.SignalWorkflow(t.Context(), passed.id, "", "x", nil))})
	rows = append(rows, [2]string{"with the follower's request ID under use_existing, terminated",
		open.again("follower", useExisting(false))})
	both := (&trial{stack: s, idPolicy: idPolicies[0], id: passed.id, request: "ours"}).start("ours", "Hold")
	rows = append(rows, [2]string{"a workflow started under its ID", both})
	passed.id = "execution-" + uuid.NewString()
	rows = append(rows,
		[2]string{"a poll of an unknown one", func() string {
			_, err := passed.service.PollActivityExecution(t.Context(),
				&activityPoll{Namespace: "default", ActivityId: passed.id})
			return refusal(err)
		}()},
		[2]string{"without start-to-close and schedule-to-close", passed.again("ours", timeouts(0, 0, 0, 0))},
		[2]string{"with a completion callback", passed.again("ours", func(r *activityStart) {
			r.CompletionCallbacks = []*commonpb.Callback{{Variant: &commonpb.Callback_Nexus_{
				Nexus: &commonpb.Callback_Nexus{Url: "http://127.0.0.1:1/"}}}}
		})},
		[2]string{"in an unknown namespace", passed.again("ours", func(r *activityStart) { r.Namespace = "nobody" })})

	var table strings.Builder
	table.WriteString("\n| | answer |\n|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&table, "| %s | %s |\n", row[0], row[1])
	}
	goldentest.RequirePart(t, checkout+"/docs/contributing/activities.md", "<!-- activities: begin -->\n",
		"<!-- activities: end -->", table.String()+"\n")
}
