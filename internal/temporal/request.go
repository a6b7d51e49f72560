package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
)

// SignalTimeout limits Signal. It must be shorter than the lease that next_signals gives.
const SignalTimeout = 10 * time.Second

// signalPrefix precedes the ID of a signal in its request ID.
const signalPrefix = "pgdispatch-signal-"

// Signal is a signal to an execution's workflow.
type Signal struct {
	Execution
	// To is the run that the signal is sent to. Temporal recognises a repeated request within one run. Empty means the
	// first run.
	To string
	// Unanswered means that the signal may have been sent without a known answer, to that run or to one after it.
	// Otherwise it has reached no other run.
	Unanswered bool
	RequestID  string // a UUID, the same for every try
	Name       string
	Payload    []byte // JSON; nil means that the signal has no argument
}

// ErrEnded means that the workflow has ended and accepts no signals. ErrMissing does not mean that: the signal is tried
// again until the execution has ended.
var ErrEnded = errors.New("workflow had ended")

// Signal sends a signal. It may be called repeatedly: Temporal answers a repeated request without another effect, even
// if the run has closed since. If the run has closed without this signal and the workflow continues in another run, as
// after continue-as-new, Signal sends nothing there and returns that run's ID: the open run or, if the signal is
// unanswered, the next.
func (t *Client) Signal(ctx context.Context, signal Signal) (continues string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, SignalTimeout, fmt.Errorf("signal timed out after %s", SignalTimeout))
	defer cancel()
	if signal.To == "" {
		return t.first(ctx, signal.Execution)
	}
	request := &workflowservice.SignalWorkflowExecutionRequest{
		Namespace:         t.namespace(signal.Namespace),
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: signal.Workflow(), RunId: signal.To},
		SignalName:        signal.Name,
		RequestId:         signalPrefix + signal.RequestID,
		Identity:          t.Identity,
	}
	if signal.Payload != nil {
		request.Input = &commonpb.Payloads{Payloads: []*commonpb.Payload{jsonPayload(signal.Payload)}}
	}
	if err := t.encode(ctx, request.Namespace, request.GetInput().GetPayloads()); err != nil {
		return "", err
	}
	err = bounded(ctx, func(ctx context.Context) error {
		_, err := t.Service.SignalWorkflowExecution(ctx, request)
		return err
	})
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return t.continues(ctx, signal)
	case err != nil:
		return "", fmt.Errorf("signal workflow: %w", err)
	}
	return "", nil
}

// first returns the first run of a workflow, or ErrMissing if Temporal does not find it.
func (t *Client) first(ctx context.Context, execution Execution) (string, error) {
	newest, err := t.newest(ctx, execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return "", missing(execution.Kind)
	case err != nil:
		return "", err
	case !newest.ours:
		return "", ErrEnded
	}
	return cmp.Or(newest.first, newest.id), nil
}

// continues returns the run to try after the signalled run, which has closed, or ErrEnded if there is none.
func (t *Client) continues(ctx context.Context, signal Signal) (string, error) {
	execution := signal.Execution
	execution.RunID = signal.To
	if signal.Unanswered {
		if next, err := t.successor(ctx, execution); next != "" || err != nil {
			return next, err
		}
	}
	newest, err := t.newest(ctx, execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return "", missing(execution.Kind)
	case err != nil:
		return "", err
	case newest.ours && newest.open && newest.id != signal.To:
		return newest.id, nil
	}
	_, ended, err := t.Look(ctx, execution) // the run may have been reset just now
	if err == nil {
		err = errors.New("workflow is closing, or continues in another run")
		if ended {
			err = ErrEnded
		}
	}
	return "", err
}

// successor returns the run that continues a closed run, even if it has closed since. After a reset, or if the closed
// run is gone, that is the newest one. It returns "" if there is none.
func (t *Client) successor(ctx context.Context, closed Execution) (string, error) {
	event, err := t.closed(ctx, closed)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return t.goesOn(ctx, closed)
	case err != nil:
		return "", fmt.Errorf("read close event: %w", err)
	case event == nil: // a reset is replacing it
		return "", nil
	}
	_, next, err := read(event)
	if next == "" && err == nil {
		return t.goesOn(ctx, closed)
	}
	return next, err
}

// Stop is a request to stop an execution's workflow or activity.
type Stop struct {
	Execution
	How         string // CANCEL or TERMINATE
	Reason      string
	RequestedBy string
}

// ErrNotOpen means that the newest run is closed. Its end, or a new run, will be seen shortly.
var ErrNotOpen = errors.New("workflow is not open")

// Stop asks Temporal to cancel or terminate the open run of an execution. It may be called repeatedly: a cancellation
// has a request ID, and a terminated run is no longer open.
func (t *Client) Stop(ctx context.Context, stop Stop) error {
	newest, err := t.newest(ctx, stop.Execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return missing(stop.Kind)
	case err != nil:
		return err
	case !newest.ours:
		return fmt.Errorf("%s was not started by pgdispatch", stop.Kind)
	case !newest.open:
		return ErrNotOpen
	}
	ask := t.stopWorkflow
	if stop.Kind == Activity {
		ask = t.stopActivity
	}
	err = bounded(ctx, func(ctx context.Context) (err error) { return ask(ctx, stop, newest.id) })
	var before *serviceerror.CancellationAlreadyRequested
	switch {
	case err == nil, errors.As(err, &before):
		return nil
	case errors.As(err, &notFound):
		return ErrNotOpen // closed meanwhile, or continued in another run
	case Code(err) == codes.FailedPrecondition && stop.Kind == Activity:
		return nil // closed meanwhile, or its cancellation was requested before
	}
	return fmt.Errorf("ask Temporal: %w", err)
}

// stopWorkflow asks Temporal to cancel or terminate a workflow's run.
func (t *Client) stopWorkflow(ctx context.Context, stop Stop, runID string) error {
	namespace := t.namespace(stop.Namespace)
	run := &commonpb.WorkflowExecution{WorkflowId: stop.Workflow(), RunId: runID}
	if stop.How == "TERMINATE" {
		_, err := t.Service.TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
			Namespace: namespace, WorkflowExecution: run, Reason: stop.Reason, Identity: stop.RequestedBy,
		})
		return err
	}
	_, err := t.Service.RequestCancelWorkflowExecution(ctx, &workflowservice.RequestCancelWorkflowExecutionRequest{
		Namespace: namespace, WorkflowExecution: run, RequestId: stop.ID, Reason: stop.Reason,
		Identity: stop.RequestedBy,
	})
	return err
}
