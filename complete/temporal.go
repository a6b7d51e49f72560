package complete

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/summary"
)

// pollTimeout bounds one long poll. The server answers an empty one every 20 s, so one that takes longer has lost its
// connection without being told.
const pollTimeout = 65 * time.Second

// ErrCrowded is a long poll that Temporal refused, because the namespace has as many as it may.
var ErrCrowded = errors.New("too many long polls")

// ErrAway is a request that Temporal did not answer, or had no capacity to.
var ErrAway = errors.New("Temporal is away")

// Service is the part of Temporal's workflow service that waiting needs.
type Service interface {
	GetWorkflowExecutionHistory(context.Context, *workflowservice.GetWorkflowExecutionHistoryRequest, ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryResponse, error)
	DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	ListWorkflowExecutions(context.Context, *workflowservice.ListWorkflowExecutionsRequest, ...grpc.CallOption) (*workflowservice.ListWorkflowExecutionsResponse, error)
	RequestCancelWorkflowExecution(context.Context, *workflowservice.RequestCancelWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.RequestCancelWorkflowExecutionResponse, error)
	TerminateWorkflowExecution(context.Context, *workflowservice.TerminateWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.TerminateWorkflowExecutionResponse, error)
	DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error)
	DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error)
}

// TemporalWaiter waits for close events by long polls, and asks about executions.
type TemporalWaiter struct {
	Service   Service
	Namespace string // of executions that name none, and of the probe

	noPrefix atomic.Bool // visibility cannot search by prefix
}

// namespace is the one that is named, or else the waiter's.
func (t *TemporalWaiter) namespace(named string) string { return cmp.Or(named, t.Namespace) }

// Wait returns when the execution's last run has closed: a run that was continued, retried, reset or is due again by cron is
// followed to the next. An execution that Temporal does not know (any more) has ended as well: nothing will free its slot
// otherwise.
func (t *TemporalWaiter) Wait(ctx context.Context, execution claim.Execution) (End, error) {
	end, _, err := t.follow(ctx, execution, t.closeEvent)
	return end, err
}

// follow follows a chain of runs to the close event of its last, by a function that returns a run's close event; nil: the run
// is open.
func (t *TemporalWaiter) follow(ctx context.Context, execution claim.Execution,
	closeEvent func(ctx context.Context, execution claim.Execution) (*historypb.HistoryEvent, error)) (end End, ended bool, err error) {
	for {
		event, err := closeEvent(ctx, execution)
		var notFound *serviceerror.NotFound
		if errors.As(err, &notFound) {
			return gone, true, nil
		}
		if err != nil {
			return End{}, false, fmt.Errorf("wait for close event: %w", err)
		}
		if event == nil {
			return End{}, false, nil
		}
		end, next, err := read(event)
		if err != nil {
			return End{}, false, err
		}
		if end.Outcome == "TERMINATED" {
			// A reset terminates the run and goes on with another, which the event does not name.
			next, err = t.resetTo(ctx, execution, looksReset(event))
			if err != nil {
				return End{}, false, err
			}
		}
		if next == "" {
			return end, true, nil
		}
		execution.RunID = next
	}
}

// resetterIdentity is who terminates a run in a reset.
const resetterIdentity = "history-resetter"

// resetPauses are when it is asked again whether another run goes on: it may be seen a moment after the end of the one before.
var resetPauses = []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 500 * time.Millisecond}

// looksReset says whether a run was terminated by a reset, as far as the event tells: Temporal's own resetter signs it, and gives
// the reason that a person gave for the reset.
func looksReset(event *historypb.HistoryEvent) bool {
	attributes := event.GetWorkflowExecutionTerminatedEventAttributes()
	return attributes.GetIdentity() == resetterIdentity || strings.Contains(strings.ToLower(attributes.GetReason()), "reset")
}

// resetTo returns the run that goes on in place of an execution's terminated one, or did and has closed since; "": there is none. It
// asks in any case, because a signature may change with a version; it waits for a run that is not to be seen yet only where there was a reset.
func (t *TemporalWaiter) resetTo(ctx context.Context, terminated claim.Execution, reset bool) (string, error) {
	for _, pause := range resetPauses {
		if !reset {
			break
		}
		if next, err := t.goesOn(ctx, terminated); next != "" || err != nil {
			return next, err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return t.goesOn(ctx, terminated)
}

func (t *TemporalWaiter) goesOn(ctx context.Context, terminated claim.Execution) (string, error) {
	info, err := t.newest(ctx, terminated)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return "", nil
	case err != nil:
		return "", err
	case !isOurs(info, terminated.ID) || info.GetExecution().GetRunId() == terminated.RunID:
		return "", nil
	}
	return info.GetExecution().GetRunId(), nil
}

// closeEvent polls until the run's history has its last event.
func (t *TemporalWaiter) closeEvent(ctx context.Context, execution claim.Execution) (*historypb.HistoryEvent, error) {
	request := t.closeRequest(execution)
	request.WaitNewEvent = true
	for {
		response, err := t.poll(ctx, request)
		if err != nil {
			return nil, err
		}
		if event := last(response); event != nil {
			return event, nil
		}
		// Without a token the server has nothing more to say of this request: ask anew.
		request.NextPageToken = response.GetNextPageToken()
	}
}

// closed returns the run's last event; nil: it is open.
func (t *TemporalWaiter) closed(ctx context.Context, execution claim.Execution) (event *historypb.HistoryEvent, err error) {
	err = bounded(ctx, func(ctx context.Context) error {
		response, err := t.Service.GetWorkflowExecutionHistory(ctx, t.closeRequest(execution))
		event = last(response)
		return err
	})
	return event, err
}

func (t *TemporalWaiter) closeRequest(execution claim.Execution) *workflowservice.GetWorkflowExecutionHistoryRequest {
	return &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:              t.namespace(execution.Namespace),
		Execution:              &commonpb.WorkflowExecution{WorkflowId: workflowIDPrefix + execution.ID, RunId: execution.RunID},
		HistoryEventFilterType: enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
		SkipArchival:           true,
	}
}

func last(response *workflowservice.GetWorkflowExecutionHistoryResponse) *historypb.HistoryEvent {
	if events := response.GetHistory().GetEvents(); len(events) > 0 {
		return events[len(events)-1]
	}
	return nil
}

func (t *TemporalWaiter) poll(ctx context.Context, request *workflowservice.GetWorkflowExecutionHistoryRequest) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pollTimeout, fmt.Errorf("long poll gave up after %s", pollTimeout))
	defer cancel()
	response, err := t.Service.GetWorkflowExecutionHistory(ctx, request)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return response, classify(err)
}

// Probe asks Temporal for the namespace. A refusal is an answer, too, unless it means that all else would be refused; that there
// is no such namespace says nothing about others.
func (t *TemporalWaiter) Probe(ctx context.Context) error {
	_, err := t.Service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		return nil
	}
	switch code(err) {
	case codes.OK, codes.PermissionDenied, codes.Unimplemented, codes.ResourceExhausted:
		return nil
	default:
		return fmt.Errorf("describe namespace: %w", err)
	}
}

// classify marks the errors that say nothing about the execution that was asked for.
func classify(err error) error {
	var exhausted *serviceerror.ResourceExhausted
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exhausted) && exhausted.Cause == enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT:
		return fmt.Errorf("%w: %w", ErrCrowded, err)
	}
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return fmt.Errorf("%w: %w", ErrAway, err)
	default:
		return err
	}
}

// code finds an error's gRPC code behind any number of wrappings.
func code(err error) codes.Code {
	var service serviceerror.ServiceError
	switch {
	case err == nil:
		return codes.OK
	case errors.As(err, &service):
		return service.Status().Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return status.Code(err)
}

// read says how a run closed, or which run goes on in its place.
func read(event *historypb.HistoryEvent) (end End, next string, err error) {
	switch event.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		attributes := event.GetWorkflowExecutionCompletedEventAttributes()
		result, note := summary.Result(attributes.GetResult())
		return End{Outcome: "COMPLETED", Reason: note, Result: result}, attributes.GetNewExecutionRunId(), nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		attributes := event.GetWorkflowExecutionFailedEventAttributes()
		return End{Outcome: "FAILED", Reason: summary.Failure(attributes.GetFailure())}, attributes.GetNewExecutionRunId(), nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		next := event.GetWorkflowExecutionTimedOutEventAttributes().GetNewExecutionRunId()
		return End{Outcome: "TIMED_OUT", Reason: "workflow timed out"}, next, nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		return End{Outcome: "CANCELED", Reason: "workflow was cancelled"}, "", nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		why := event.GetWorkflowExecutionTerminatedEventAttributes().GetReason()
		return End{Outcome: "TERMINATED", Reason: strings.TrimSuffix("workflow was terminated: "+why, ": ")}, "", nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return End{}, event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId(), nil
	default:
		return End{}, "", fmt.Errorf("read close event: type %s does not close a workflow", event.GetEventType())
	}
}
