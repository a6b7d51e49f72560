package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	failurepb "go.temporal.io/api/failure/v1"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// pollTimeout limits one long poll. The server answers an empty poll every 20 s, so a poll that takes longer has lost
// its connection.
const pollTimeout = 65 * time.Second

// End describes how an execution ended.
type End struct {
	Outcome string // Temporal's status: COMPLETED, FAILED, CANCELED, TERMINATED or TIMED_OUT
	Reason  string // why it did not complete; for COMPLETED, a note about the result
	Result  string // for COMPLETED, the result as JSON; empty if none is kept
}

// Wait returns when the execution's last run has closed. It follows runs that were continued as new, retried, reset or
// rescheduled by cron. It returns ErrMissing if Temporal does not find the execution, or a run that continues it.
func (t *Client) Wait(ctx context.Context, execution Execution) (End, error) {
	if execution.Kind == Activity {
		end, _, err := t.activityEnd(ctx, execution, true)
		return end, err
	}
	end, _, err := t.follow(ctx, execution, t.closeEvent)
	return end, err
}

// follow follows a chain of runs to the close event of the last one. closeEvent returns a run's close event, or nil if
// the run is open.
func (t *Client) follow(ctx context.Context, execution Execution,
	closeEvent func(ctx context.Context,
		execution Execution) (*historypb.HistoryEvent, error)) (end End, ended bool, err error) {
	for {
		event, err := closeEvent(ctx, execution)
		var notFound *serviceerror.NotFound
		if errors.As(err, &notFound) {
			return End{}, false, missing(Workflow)
		}
		if err != nil {
			return End{}, false, fmt.Errorf("wait for close event: %w", err)
		}
		if event == nil {
			return End{}, false, nil
		}
		if err := t.decode(ctx, execution, event.GetWorkflowExecutionCompletedEventAttributes().GetResult(),
			event.GetWorkflowExecutionFailedEventAttributes().GetFailure()); err != nil {
			return End{}, false, err
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
	return attributes.GetIdentity() == resetterIdentity ||
		strings.Contains(strings.ToLower(attributes.GetReason()), "reset")
}

// resetTo returns the run that continues a terminated run, even if it has closed since, or "" if there is none. It
// always looks once, because the resetter's identity may change between versions. Only after a reset does it wait for a
// run that is not visible yet.
func (t *Client) resetTo(ctx context.Context, terminated Execution, reset bool) (string, error) {
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

func (t *Client) goesOn(ctx context.Context, terminated Execution) (string, error) {
	newest, err := t.newest(ctx, terminated)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return "", missing(Workflow) // its run was found
	case err != nil:
		return "", err
	case !newest.ours || newest.id == terminated.RunID:
		return "", nil
	}
	return newest.id, nil
}

// closeEvent long-polls until the run closes, and returns its close event.
func (t *Client) closeEvent(ctx context.Context, execution Execution) (*historypb.HistoryEvent, error) {
	request := t.closeRequest(execution)
	request.WaitNewEvent = true
	for {
		response, err := poll(ctx, request, t.Service.GetWorkflowExecutionHistory)
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
func (t *Client) closed(ctx context.Context, execution Execution) (event *historypb.HistoryEvent, err error) {
	err = bounded(ctx, func(ctx context.Context) error {
		response, err := t.Service.GetWorkflowExecutionHistory(ctx, t.closeRequest(execution))
		event = last(response)
		return err
	})
	return event, err
}

func (t *Client) closeRequest(execution Execution) *workflowservice.GetWorkflowExecutionHistoryRequest {
	return &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:              t.namespace(execution.Namespace),
		Execution:              &commonpb.WorkflowExecution{WorkflowId: execution.Workflow(), RunId: execution.RunID},
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

// poll makes one long poll.
func poll[Q, A any](ctx context.Context, request Q,
	ask func(context.Context, Q, ...grpc.CallOption) (A, error)) (A, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pollTimeout, fmt.Errorf("long poll timed out after %s", pollTimeout))
	defer cancel()
	response, err := ask(ctx, request)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return response, away(err)
}

// read returns how a run closed, or the ID of the run that continues it.
func read(event *historypb.HistoryEvent) (end End, next string, err error) {
	switch event.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		attributes := event.GetWorkflowExecutionCompletedEventAttributes()
		result, note := Result(attributes.GetResult())
		return End{Outcome: "COMPLETED", Reason: note, Result: result}, attributes.GetNewExecutionRunId(), nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		attributes := event.GetWorkflowExecutionFailedEventAttributes()
		return End{Outcome: "FAILED", Reason: Failure(attributes.GetFailure())}, attributes.GetNewExecutionRunId(), nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		next := event.GetWorkflowExecutionTimedOutEventAttributes().GetNewExecutionRunId()
		return End{Outcome: "TIMED_OUT", Reason: "workflow timed out"}, next, nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		return End{Outcome: "CANCELED", Reason: "workflow was cancelled"}, "", nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		why := event.GetWorkflowExecutionTerminatedEventAttributes().GetReason()
		return End{Outcome: "TERMINATED", Reason: whyTerminated(Workflow, why)}, "", nil
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return End{}, event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId(), nil
	default:
		return End{}, "", fmt.Errorf("read close event: type %s does not close a workflow", event.GetEventType())
	}
}

// whyTerminated returns the reason of a termination, which may have one.
func whyTerminated(kind Kind, why string) string {
	return strings.TrimSuffix(kind.String()+" was terminated: "+why, ": ")
}

const (
	// MaxResult is the size limit of a result in bytes of JSON, and the maximum of the setting result-bytes.
	MaxResult = 64 << 10
	// maxFailure is the length in bytes at which a failure's text ends. A row keeps less than that.
	maxFailure = 8000
	// maxCauses limits the causes of a failure that are included.
	maxCauses = 10
	// maxEncoding limits the bytes shown of an encoding's name, which the payload's author chose.
	maxEncoding = 100
)

// nameless are the type names of generic Go errors. They carry no information.
var nameless = []string{"", "errorString", "wrapError", "wrapErrors", "joinError"}

// Failure returns the failure's message followed by those of its causes, which contain, for example, an activity's
// error. Each is followed by its error type, if it has one.
func Failure(failure *failurepb.Failure) string {
	var text strings.Builder
	for n := 0; failure != nil && n <= maxCauses && text.Len() < maxFailure; n++ {
		if n > 0 {
			text.WriteString(": ")
		}
		message := failure.GetMessage()
		text.WriteString(message[:min(len(message), maxFailure)])
		if kind := failure.GetApplicationFailureInfo().GetType(); !slices.Contains(nameless, kind) {
			fmt.Fprintf(&text, " (%s)", kind[:min(len(kind), maxEncoding)])
		}
		failure = failure.GetCause()
	}
	return strings.ToValidUTF8(text.String(), "\uFFFD")
}

// Result returns a workflow's result as JSON, or a note why it is not kept. Both are empty if the workflow returned
// nothing. A payload that a codec has encrypted or compressed is not JSON and is not kept.
func Result(payloads *commonpb.Payloads) (result, note string) {
	if len(payloads.GetPayloads()) == 0 {
		return "", ""
	}
	payload := payloads.GetPayloads()[0]
	data := payload.GetData()
	switch encoding := string(payload.GetMetadata()["encoding"]); {
	case encoding == "binary/null":
		return "", ""
	case encoding != "json/plain":
		return "", fmt.Sprintf("encoding %q, %d bytes: not stored", encoding[:min(len(encoding), maxEncoding)], len(data))
	case len(data) > MaxResult:
		return "", fmt.Sprintf("%d bytes: too large to store", len(data))
	case !json.Valid(data) || !utf8.Valid(data):
		return "", fmt.Sprintf("%d bytes that are not JSON: not stored", len(data))
	}
	return string(data), ""
}
