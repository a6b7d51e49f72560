package complete

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pgdispatch/pgdispatch/claim"
)

// StopStore is the part of the store that the stopper needs.
type StopStore interface {
	TakeStops(ctx context.Context, atMost int) (stops []claim.Stop, open bool, err error)
	StopDone(ctx context.Context, stop claim.Stop, problem string) error
}

const (
	// stopPause is how long it takes until open requests are looked at again: for those that Temporal has not taken, and those
	// whose workflow was not started yet.
	stopPause = time.Second
	// atMostStops is how many requests are taken at once.
	atMostStops = 20
)

// Stopper carries out requests to cancel or to terminate workflows. It ends no execution: what frees the slot is the workflow's
// end, which is noticed like any other. Its fields are set before Run and not changed after.
type Stopper struct {
	Store    StopStore
	Temporal interface {
		Stop(ctx context.Context, stop claim.Stop) error
	}
	// Wake says that there may be a request: from the one who made it, or from somebody who has seen it.
	Wake <-chan struct{}
	Log  *slog.Logger

	last string // the error that was logged last
}

// Run carries out requests until ctx is cancelled, and returns nil then.
func (s *Stopper) Run(ctx context.Context) error {
	again := time.NewTimer(0) // what was asked for while nobody ran
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Wake:
		case <-again.C:
		}
		open, err := s.look(ctx)
		if err != nil && ctx.Err() == nil {
			s.complain(ctx, "", err)
		}
		if open || err != nil {
			again.Reset(stopPause)
		}
	}
}

// look carries out what there is, and returns whether a request was left open.
func (s *Stopper) look(ctx context.Context) (open bool, err error) {
	stops, open, err := s.Store.TakeStops(ctx, atMostStops)
	if err != nil {
		return open, err
	}
	for _, stop := range stops {
		problem := ""
		err := contained(ctx, func(ctx context.Context) error { return s.Temporal.Stop(ctx, stop) })
		switch {
		case ctx.Err() != nil:
			return open, nil
		case err != nil:
			problem = err.Error()
			s.complain(ctx, stop.ExecutionID, err)
		default:
			s.last = ""
			s.Log.InfoContext(ctx, "Asked Temporal to stop an execution", "execution_id", stop.ExecutionID, "how", stop.How, "requested_by", claim.Clean(stop.RequestedBy))
		}
		if err := s.Store.StopDone(ctx, stop, problem); err != nil {
			return open, err
		}
	}
	return open, nil
}

func (s *Stopper) complain(ctx context.Context, executionID string, err error) {
	if err.Error() != s.last {
		s.last = err.Error()
		s.Log.WarnContext(ctx, "Cannot stop an execution: trying again", "execution_id", executionID, "error", claim.Clean(s.last))
	}
}

// errNotOpen is a workflow whose newest run is closed, or not known: its end is about to be noticed, or a new run to be seen.
var errNotOpen = errors.New("workflow is not open")

// Stop asks Temporal to cancel or to terminate the run of an execution's workflow that is open, whichever that is. Asking again
// does no harm: a cancellation has a request ID, and what was terminated is not open.
func (t *TemporalWaiter) Stop(ctx context.Context, stop claim.Stop) error {
	info, err := t.newest(ctx, claim.Execution{ID: stop.ExecutionID, Namespace: stop.Namespace})
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return errNotOpen
	case err != nil:
		return err
	case !isOurs(info, stop.ExecutionID):
		return errors.New("workflow is not pgdispatch's")
	case !isOpen(info):
		return errNotOpen
	}
	namespace := t.namespace(stop.Namespace)
	run := &commonpb.WorkflowExecution{WorkflowId: workflowIDPrefix + stop.ExecutionID, RunId: info.GetExecution().GetRunId()}
	err = bounded(ctx, func(ctx context.Context) (err error) {
		if stop.How == "TERMINATE" {
			_, err = t.Service.TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
				Namespace: namespace, WorkflowExecution: run, Reason: stop.Reason, Identity: stop.RequestedBy,
			})
			return err
		}
		_, err = t.Service.RequestCancelWorkflowExecution(ctx, &workflowservice.RequestCancelWorkflowExecutionRequest{
			Namespace: namespace, WorkflowExecution: run, RequestId: stop.ExecutionID, Reason: stop.Reason, Identity: stop.RequestedBy,
		})
		return err
	})
	var before *serviceerror.CancellationAlreadyRequested
	switch {
	case err == nil, errors.As(err, &before):
		return nil
	case errors.As(err, &notFound):
		return errNotOpen // closed since, or gone on in another run
	}
	return fmt.Errorf("ask Temporal: %w", err)
}
