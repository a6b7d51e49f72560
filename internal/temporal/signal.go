package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// SignalTimeout limits Signal. It must be shorter than the lease that take_signals gives.
const SignalTimeout = 10 * time.Second

// signalPrefix precedes the ID of a signal in its request ID.
const signalPrefix = "pgdispatch-signal-"

// Signal is a signal to an execution's workflow.
type Signal struct {
	ExecutionID string
	Namespace   string // of its workflow; empty means the client's
	// RunID is the run that the signal is sent to. Temporal recognises a repeated request within one run.
	RunID     string
	RequestID string // a UUID, the same for every try
	Name      string
	Payload   []byte // JSON; nil means that the signal has no argument
}

// ErrEnded means that the workflow has ended and accepts no signals.
var ErrEnded = errors.New("workflow had ended")

// Signal sends a signal. It may be called repeatedly: Temporal answers a repeated request without another effect, even
// if the run has closed since. If the run has closed without this signal and the workflow continues in another run, as
// after continue-as-new, Signal sends nothing there and returns that run's ID.
func (t *Client) Signal(ctx context.Context, signal Signal) (continues string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, SignalTimeout, fmt.Errorf("signal timed out after %s", SignalTimeout))
	defer cancel()
	request := &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: t.namespace(signal.Namespace),
		WorkflowExecution: &commonpb.WorkflowExecution{
			WorkflowId: WorkflowID(signal.ExecutionID), RunId: signal.RunID},
		SignalName: signal.Name,
		RequestId:  signalPrefix + signal.RequestID,
		Identity:   t.Identity,
	}
	if signal.Payload != nil {
		request.Input = &commonpb.Payloads{Payloads: []*commonpb.Payload{jsonPayload(signal.Payload)}}
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

// continues returns the open run of a workflow whose signalled run has closed, or ErrEnded if there is none.
func (t *Client) continues(ctx context.Context, signal Signal) (string, error) {
	execution := Execution{ID: signal.ExecutionID, Namespace: signal.Namespace}
	info, err := t.newest(ctx, execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return "", ErrEnded // deleted, or its retention has expired
	case err != nil:
		return "", err
	case isOurs(info, signal.ExecutionID) && isOpen(info) && info.GetExecution().GetRunId() != signal.RunID:
		return info.GetExecution().GetRunId(), nil
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
