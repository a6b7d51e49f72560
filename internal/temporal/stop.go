package temporal

import (
	"context"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// Stop is a request to stop an execution's workflow.
type Stop struct {
	ExecutionID string
	Namespace   string // of its workflow; empty means the client's
	How         string // CANCEL or TERMINATE
	Reason      string
	RequestedBy string
}

// ErrNotOpen means that the newest run is closed or unknown. Its end, or a new run, will be seen shortly.
var ErrNotOpen = errors.New("workflow is not open")

// Stop asks Temporal to cancel or terminate the open run of an execution's workflow. It may be called repeatedly: a
// cancellation has a request ID, and a terminated run is no longer open.
func (t *Client) Stop(ctx context.Context, stop Stop) error {
	info, err := t.newest(ctx, Execution{ID: stop.ExecutionID, Namespace: stop.Namespace})
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return ErrNotOpen
	case err != nil:
		return err
	case !isOurs(info, stop.ExecutionID):
		return errors.New("workflow was not started by pgdispatch")
	case !isOpen(info):
		return ErrNotOpen
	}
	namespace := t.namespace(stop.Namespace)
	run := &commonpb.WorkflowExecution{WorkflowId: WorkflowID(stop.ExecutionID), RunId: info.GetExecution().GetRunId()}
	err = bounded(ctx, func(ctx context.Context) (err error) {
		if stop.How == "TERMINATE" {
			_, err = t.Service.TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
				Namespace: namespace, WorkflowExecution: run, Reason: stop.Reason, Identity: stop.RequestedBy,
			})
			return err
		}
		_, err = t.Service.RequestCancelWorkflowExecution(ctx, &workflowservice.RequestCancelWorkflowExecutionRequest{
			Namespace: namespace, WorkflowExecution: run, RequestId: stop.ExecutionID, Reason: stop.Reason,
			Identity: stop.RequestedBy,
		})
		return err
	})
	var before *serviceerror.CancellationAlreadyRequested
	switch {
	case err == nil, errors.As(err, &before):
		return nil
	case errors.As(err, &notFound):
		return ErrNotOpen // closed meanwhile, or continued in another run
	}
	return fmt.Errorf("ask Temporal: %w", err)
}
