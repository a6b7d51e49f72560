package complete

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/pgdispatch/pgdispatch/claim"
)

// pollTimeout bounds one long poll. The server answers an empty one every 20 s, so one that takes longer has lost its
// connection without being told.
const pollTimeout = 65 * time.Second

// Service is the part of Temporal's workflow service that waiting needs.
type Service interface {
	GetWorkflowExecutionHistory(context.Context, *workflowservice.GetWorkflowExecutionHistoryRequest, ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryResponse, error)
}

// TemporalWaiter waits for close events by long polls.
type TemporalWaiter struct {
	Service   Service
	Namespace string
}

// Wait returns when the execution's last run has closed: a run that was continued, retried or is due again by cron is
// followed to the next. An execution that Temporal does not know (any more) has ended as well: nothing will free its slot
// otherwise.
func (t *TemporalWaiter) Wait(ctx context.Context, execution claim.Execution) (End, error) {
	runID := execution.RunID
	for {
		event, err := t.closeEvent(ctx, "execution-"+execution.ID, runID)
		var notFound *serviceerror.NotFound
		if errors.As(err, &notFound) {
			return End{Outcome: "FAILED", Reason: "workflow is gone from Temporal: deleted, or its retention is over"}, nil
		}
		if err != nil {
			return End{}, fmt.Errorf("wait for close event: %w", err)
		}
		end, next, err := read(event)
		if err != nil {
			return End{}, err
		}
		if next == "" {
			return end, nil
		}
		runID = next
	}
}

// closeEvent polls until the run's history has its last event.
func (t *TemporalWaiter) closeEvent(ctx context.Context, workflowID, runID string) (*historypb.HistoryEvent, error) {
	request := &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:              t.Namespace,
		Execution:              &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: runID},
		WaitNewEvent:           true,
		HistoryEventFilterType: enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
		SkipArchival:           true,
	}
	for {
		response, err := t.poll(ctx, request)
		if err != nil {
			return nil, err
		}
		if events := response.GetHistory().GetEvents(); len(events) > 0 {
			return events[len(events)-1], nil
		}
		// Without a token the server has nothing more to say of this request: ask anew.
		request.NextPageToken = response.GetNextPageToken()
	}
}

func (t *TemporalWaiter) poll(ctx context.Context, request *workflowservice.GetWorkflowExecutionHistoryRequest) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pollTimeout, fmt.Errorf("long poll gave up after %s", pollTimeout))
	defer cancel()
	response, err := t.Service.GetWorkflowExecutionHistory(ctx, request)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return response, err
}

// read says how a run closed, or which run goes on in its place.
func read(event *historypb.HistoryEvent) (end End, next string, err error) {
	switch event.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		return End{Outcome: "COMPLETED"}, event.GetWorkflowExecutionCompletedEventAttributes().GetNewExecutionRunId(), nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		attributes := event.GetWorkflowExecutionFailedEventAttributes()
		return End{Outcome: "FAILED", Reason: reason(attributes.GetFailure())}, attributes.GetNewExecutionRunId(), nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		next := event.GetWorkflowExecutionTimedOutEventAttributes().GetNewExecutionRunId()
		return End{Outcome: "TIMED_OUT", Reason: "workflow timed out"}, next, nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		return End{Outcome: "CANCELED", Reason: "workflow was cancelled"}, "", nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		why := event.GetWorkflowExecutionTerminatedEventAttributes().GetReason()
		return End{Outcome: "TERMINATED", Reason: "workflow was terminated: " + why}, "", nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return End{}, event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId(), nil
	default:
		return End{}, "", fmt.Errorf("read close event: type %s does not close a workflow", event.GetEventType())
	}
}

// reason is the failure's own message and its cause's, which is the one that says what went wrong in an activity.
func reason(failure *failurepb.Failure) string {
	text := failure.GetMessage()
	for cause := failure.GetCause(); cause != nil; cause = cause.GetCause() {
		text += ": " + cause.GetMessage()
	}
	return text
}
