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

// pollTimeout limits one long poll. The server answers an empty poll every 20 s, so a poll that takes longer has lost
// its connection.
const pollTimeout = 65 * time.Second

// ErrCrowded means that Temporal refused a long poll because the namespace has reached its limit.
var ErrCrowded = errors.New("too many long polls")

// ErrAway means that Temporal did not answer or had no capacity.
var ErrAway = errors.New("Temporal is away")

// Service is the part of Temporal's workflow service that TemporalWaiter needs.
type Service interface {
	GetWorkflowExecutionHistory(context.Context, *workflowservice.GetWorkflowExecutionHistoryRequest, ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryResponse, error)
	DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	ListWorkflowExecutions(context.Context, *workflowservice.ListWorkflowExecutionsRequest, ...grpc.CallOption) (*workflowservice.ListWorkflowExecutionsResponse, error)
	RequestCancelWorkflowExecution(context.Context, *workflowservice.RequestCancelWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.RequestCancelWorkflowExecutionResponse, error)
	TerminateWorkflowExecution(context.Context, *workflowservice.TerminateWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.TerminateWorkflowExecutionResponse, error)
	DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error)
	DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error)
}

// TemporalWaiter waits for close events by long polls and queries executions.
type TemporalWaiter struct {
	Service   Service
	Namespace string // for Probe and for executions that name none

	noPrefix atomic.Bool // visibility cannot search by prefix
}

// namespace returns named, or the waiter's namespace if named is empty.
func (t *TemporalWaiter) namespace(named string) string { return cmp.Or(named, t.Namespace) }

// Wait returns when the execution's last run has closed. It follows runs that were continued as new, retried, reset or
// rescheduled by cron. An execution that Temporal does not know (any more) counts as ended, because nothing else would
// free its slot.
func (t *TemporalWaiter) Wait(ctx context.Context, execution claim.Execution) (End, error) {
	end, _, err := t.follow(ctx, execution, t.closeEvent)
	return end, err
}

// follow follows a chain of runs to the close event of the last one. closeEvent returns a run's close event, or nil if
// the run is open.
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
			// A reset terminates the run and continues in another run, which the event does not name.
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

// resetterIdentity is the identity with which a reset terminates a run.
const resetterIdentity = "history-resetter"

// resetPauses are the delays between lookups of the next run, which may become visible shortly after the previous one
// closed.
var resetPauses = []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 500 * time.Millisecond}

// looksReset reports whether the event looks like a termination by a reset. Temporal's resetter sets the identity and
// copies the reason given for the reset.
func looksReset(event *historypb.HistoryEvent) bool {
	attributes := event.GetWorkflowExecutionTerminatedEventAttributes()
	return attributes.GetIdentity() == resetterIdentity || strings.Contains(strings.ToLower(attributes.GetReason()), "reset")
}

// resetTo returns the run that continues a terminated run, even if it has closed since, or "" if there is none. It
// always looks once, because the resetter's identity may change between versions. Only after a reset does it wait for a
// run that is not visible yet.
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

// closeEvent long-polls until the run closes, and returns its close event.
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
		// Without a token the server has finished this request; poll again from the start.
		request.NextPageToken = response.GetNextPageToken()
	}
}

// closed returns the run's close event, or nil if the run is open.
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

// Probe describes the namespace. A refusal counts as an answer unless it implies that all other requests would fail,
// too. A missing namespace is not an error, because other namespaces may exist.
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

// classify marks errors that say nothing about the requested execution as ErrCrowded or ErrAway.
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

// code returns the gRPC code of a possibly wrapped error.
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

// read returns how a run closed, or the ID of the run that continues it.
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
