package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	activitypb "go.temporal.io/api/activity/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Kind is what an item starts.
type Kind string

const (
	// Workflow is the kind of most items, and of an empty Kind.
	Workflow Kind = "workflow"
	// Activity is a standalone activity: one without a workflow. Its activity ID is Execution.Workflow. It has one run, no
	// memo, and no signals. docs/contributing/activities.md lists what Temporal answers about it.
	Activity Kind = "activity"
)

// IsKnown reports whether the kind is one of these.
func (k Kind) IsKnown() bool { return k == Workflow || k == Activity || k == "" }

// String returns the kind's name.
func (k Kind) String() string {
	if k == "" {
		k = Workflow
	}
	return string(k)
}

// ErrNoActivities reports that Temporal does not start standalone activities. It says nothing about workflows.
var ErrNoActivities = errors.New("standalone activities are not started by Temporal")

// order is the request that starts an item.
type order struct {
	*workflowservice.StartWorkflowExecutionRequest
	// activity has what only the request for an activity has. Nil: the item starts a workflow.
	activity *workflowservice.StartActivityExecutionRequest
}

// post sends an order once and returns the run that it started or found.
func (t *Client) post(ctx context.Context, o order, options ...grpc.CallOption) (runID string, err error) {
	if o.activity == nil {
		response, err := t.Service.StartWorkflowExecution(ctx, o.StartWorkflowExecutionRequest, options...)
		return response.GetRunId(), err
	}
	response, err := t.Service.StartActivityExecution(ctx, o.asActivity(), options...)
	switch Code(err) {
	case codes.OK:
		t.noActivities.Store(nil)
	case codes.Unimplemented:
		version := t.serverVersion(ctx)
		t.noActivities.Store(&version)
		err = fmt.Errorf("%w: version %s: %w", ErrNoActivities, version, err)
	}
	return response.GetRunId(), err
}

// NoActivities returns the version of the Temporal server that has refused the last start of an activity because it
// starts none, or "".
func (t *Client) NoActivities() string {
	if version := t.noActivities.Load(); version != nil {
		return *version
	}
	return ""
}

// serverVersion returns the version that Temporal reports.
func (t *Client) serverVersion(ctx context.Context) string {
	info, err := t.Service.GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil || info.GetServerVersion() == "" {
		return "unknown"
	}
	return info.GetServerVersion()
}

// HasActivities reports whether Temporal starts standalone activities in a namespace.
func (t *Client) HasActivities(ctx context.Context, namespace string) (bool, error) {
	_, err := t.describeActivity(ctx, Execution{ID: nobody, Namespace: namespace})
	switch Code(err) {
	case codes.NotFound:
		return true, nil
	case codes.Unimplemented:
		return false, nil
	default:
		return err == nil, err
	}
}

// ActivitiesNeed says what makes Temporal start standalone activities.
const ActivitiesNeed = "standalone activities need Temporal 1.32 or newer, with activity.enableStandalone on"

// asActivity returns the request for an activity. All that both kinds have is that of the workflow's request.
func (o order) asActivity() *workflowservice.StartActivityExecutionRequest {
	a := o.activity
	a.Namespace, a.Identity, a.RequestId, a.ActivityId = o.GetNamespace(), o.GetIdentity(), o.GetRequestId(),
		o.GetWorkflowId()
	a.IdReusePolicy = enumspb.ACTIVITY_ID_REUSE_POLICY_REJECT_DUPLICATE
	if o.GetWorkflowIdReusePolicy() == enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE {
		a.IdReusePolicy = enumspb.ACTIVITY_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	a.IdConflictPolicy = enumspb.ACTIVITY_ID_CONFLICT_POLICY_FAIL
	if o.GetOnConflictOptions() != nil {
		// Temporal attaches a request ID only with a callback or a link. Without, an unanswered start whose activity has
		// closed since starts another, as if it had never arrived.
		a.IdConflictPolicy = enumspb.ACTIVITY_ID_CONFLICT_POLICY_USE_EXISTING
	}
	a.ActivityType, a.TaskQueue = &commonpb.ActivityType{Name: o.GetWorkflowType().GetName()}, o.GetTaskQueue()
	if a.ScheduleToCloseTimeout == nil {
		a.ScheduleToCloseTimeout = o.GetWorkflowExecutionTimeout()
	}
	a.RetryPolicy, a.Priority, a.SearchAttributes = o.GetRetryPolicy(), o.GetPriority(), o.GetSearchAttributes()
	a.Input, a.Header, a.UserMetadata = o.GetInput(), o.GetHeader(), o.GetUserMetadata()
	return a
}

// startedBy returns the run that holds an ID and the request ID of its start, or false if err is no refusal of an ID.
func startedBy(err error) (runID, requestID string, exists bool) {
	var workflow *serviceerror.WorkflowExecutionAlreadyStarted
	var activity *serviceerror.ActivityExecutionAlreadyStarted
	switch {
	case errors.As(err, &workflow):
		return workflow.RunId, workflow.StartRequestId, true
	case errors.As(err, &activity):
		return activity.RunId, activity.StartRequestId, true
	}
	return "", "", false
}

// describeActivity describes an execution's activity: its run, or the newest one if RunID is empty.
func (t *Client) describeActivity(ctx context.Context,
	execution Execution) (response *workflowservice.DescribeActivityExecutionResponse, err error) {
	err = bounded(ctx, func(ctx context.Context) (err error) {
		response, err = t.Service.DescribeActivityExecution(ctx, &workflowservice.DescribeActivityExecutionRequest{
			Namespace: t.namespace(execution.Namespace), ActivityId: execution.Workflow(), RunId: execution.RunID,
			IncludeOutcome: true,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe activity: %w", err)
	}
	return response, nil
}

// runOf returns what a description says of an activity's run. An activity has no memo: its header says whose it is.
func runOf(info *activitypb.ActivityExecutionInfo, executionID string) run {
	var marked struct {
		ExecutionID string `json:"executionId"`
	}
	err := json.Unmarshal(info.GetHeader().GetFields()[idsHeader].GetData(), &marked)
	return run{id: info.GetRunId(), first: info.GetRunId(), open: info.GetCloseTime() == nil,
		ours: err == nil && marked.ExecutionID == executionID}
}

// activityEnd is Wait and Ended for an activity. Without a wait, ended may be false.
func (t *Client) activityEnd(ctx context.Context, execution Execution, wait bool) (end End, ended bool, err error) {
	outcome, err := t.outcome(ctx, execution, wait)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return End{}, false, missing(Activity)
	case err != nil:
		return End{}, false, fmt.Errorf("wait for activity: %w", err)
	case outcome == nil:
		return End{}, false, nil
	}
	if err := t.decode(ctx, execution, outcome.GetResult(), outcome.GetFailure()); err != nil {
		return End{}, false, err
	}
	return readOutcome(outcome), true, nil
}

// outcome returns the outcome of an activity. Without a wait, it is nil for one that is open.
func (t *Client) outcome(ctx context.Context, execution Execution,
	wait bool) (*activitypb.ActivityExecutionOutcome, error) {
	if !wait {
		response, err := t.describeActivity(ctx, execution)
		return response.GetOutcome(), err
	}
	request := &workflowservice.PollActivityExecutionRequest{Namespace: t.namespace(execution.Namespace),
		ActivityId: execution.Workflow(), RunId: execution.RunID}
	for {
		response, err := poll(ctx, request, t.Service.PollActivityExecution)
		if err != nil || response.GetOutcome() != nil {
			return response.GetOutcome(), err
		}
	}
}

// readOutcome returns how an activity ended.
func readOutcome(outcome *activitypb.ActivityExecutionOutcome) End {
	failure := outcome.GetFailure()
	if failure == nil {
		result, note := Result(outcome.GetResult())
		return End{Outcome: "COMPLETED", Reason: note, Result: result}
	}
	switch failure.GetFailureInfo().(type) {
	case *failurepb.Failure_CanceledFailureInfo:
		return End{Outcome: "CANCELED", Reason: "activity was cancelled"}
	case *failurepb.Failure_TerminatedFailureInfo:
		return End{Outcome: "TERMINATED", Reason: whyTerminated(Activity, failure.GetMessage())}
	case *failurepb.Failure_TimeoutFailureInfo:
		if cause := failure.GetCause(); cause.GetMessage() == failure.GetMessage() {
			failure = cause // Temporal says it twice
		}
		return End{Outcome: "TIMED_OUT", Reason: Failure(failure)}
	}
	return End{Outcome: "FAILED", Reason: Failure(failure)}
}

// stopActivity asks Temporal to cancel or terminate an activity's run.
func (t *Client) stopActivity(ctx context.Context, stop Stop, runID string) error {
	if stop.How == "TERMINATE" {
		_, err := t.Service.TerminateActivityExecution(ctx, &workflowservice.TerminateActivityExecutionRequest{
			Namespace: t.namespace(stop.Namespace), ActivityId: stop.Workflow(), RunId: runID,
			RequestId: stop.ID, Reason: stop.Reason, Identity: stop.RequestedBy,
		})
		return err
	}
	_, err := t.Service.RequestCancelActivityExecution(ctx, &workflowservice.RequestCancelActivityExecutionRequest{
		Namespace: t.namespace(stop.Namespace), ActivityId: stop.Workflow(), RunId: runID,
		RequestId: stop.ID, Reason: stop.Reason, Identity: stop.RequestedBy,
	})
	return err
}
