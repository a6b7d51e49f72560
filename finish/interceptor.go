// Package finish is for workers: it tells pgdispatch that a workflow has ended as soon as Temporal has taken the worker's word
// for it, a few milliseconds before pgdispatch would have learnt of it. It is optional, and a matter of speed only: an end that
// it does not say is found by pgdispatch itself.
//
// It listens at the worker's connection, and not in the workflow: an activity at the workflow's end would speak before Temporal
// has closed the workflow, and the next one of the workspace could start while this one is still open.
package finish

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgdispatch/pgdispatch/internal/summary"
)

// Store records ends: a *claim.Store on a pool of the worker's own.
type Store interface {
	Finish(ctx context.Context, executionID, outcome, reason, result string) (first bool, err error)
}

const (
	// sayTimeout bounds what saying one end may take. What takes longer is left to pgdispatch.
	sayTimeout = 2 * time.Second
	// failurePause is for how long ends are left to pgdispatch after one could not be said.
	failurePause = time.Second
	// atMostWaiting is how many ends wait to be said; those that come on top are left to pgdispatch.
	atMostWaiting = 1000
	// speakers is how many ends are said at once.
	speakers = 4
)

// Reporter says that workflows have ended. Its fields are set before it is used and not changed after. Make it with New.
type Reporter struct {
	// Store records the ends.
	Store Store
	// Log hears of ends that could not be said. Nil: nobody does.
	Log *slog.Logger

	ends chan end
}

// end is a workflow that its worker has closed.
type end struct {
	executionID string
	how
	conn      *grpc.ClientConn
	namespace string
}

// how a workflow ended. The reason is why it did not complete; of one that did, a note on its result.
type how struct{ outcome, reason, result string }

// New makes a reporter. Give its Intercept to the connection of the worker's client, and run it beside the worker.
func New(store Store, log *slog.Logger) *Reporter {
	return &Reporter{Store: store, Log: log, ends: make(chan end, atMostWaiting)}
}

// Run says what ends until ctx is cancelled, and returns nil then.
func (r *Reporter) Run(ctx context.Context) error {
	var g errgroup.Group
	for range speakers {
		g.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case e := <-r.ends:
					r.say(ctx, e)
				}
			}
		})
	}
	return g.Wait()
}

// say records one end. Where it fails, the database is likely to be away: ends that come meanwhile fall off the queue's end.
func (r *Reporter) say(ctx context.Context, e end) {
	bounded, cancel := context.WithTimeoutCause(ctx, sayTimeout, fmt.Errorf("saying it gave up after %s", sayTimeout))
	defer cancel()
	over, err := isOver(bounded, e)
	if err == nil && over {
		_, err = r.Store.Finish(bounded, e.executionID, e.outcome, e.reason, e.result)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	if r.Log != nil {
		r.Log.WarnContext(ctx, "Cannot say that an execution has ended: pgdispatch will find out", "execution_id", e.executionID, "error", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(failurePause):
	}
}

// isOver asks Temporal whether a failed workflow goes on in another run, because it has a retry policy: the worker cannot know.
func isOver(ctx context.Context, e end) (bool, error) {
	if e.outcome == "COMPLETED" || e.outcome == "CANCELED" {
		return true, nil
	}
	response, err := workflowservice.NewWorkflowServiceClient(e.conn).DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: e.namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: workflowIDPrefix + e.executionID},
	})
	if err != nil {
		return false, fmt.Errorf("describe workflow: %w", err)
	}
	return response.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, nil
}

// workflowIDPrefix is before the execution's ID in its workflow's ID.
const workflowIDPrefix = "execution-"

// Intercept is a grpc.UnaryClientInterceptor. It changes no request and no answer, and waits for nothing.
func (r *Reporter) Intercept(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, answer, conn, options...)
	if completed, ok := request.(*workflowservice.RespondWorkflowTaskCompletedRequest); ok && err == nil {
		if e, found := ended(completed); found {
			e.conn = conn
			select {
			case r.ends <- e:
			default: // more end than can be said
			}
		}
	}
	return err
}

// ended finds the command that closes a workflow of ours, if there is one. Continue-as-new closes a run, not a workflow.
func ended(request *workflowservice.RespondWorkflowTaskCompletedRequest) (end, bool) {
	id, ours := strings.CutPrefix(request.GetResourceId(), "workflow:"+workflowIDPrefix)
	if !ours || uuid.Validate(id) != nil {
		return end{}, false
	}
	for _, command := range request.GetCommands() {
		if how := closes(command); how.outcome != "" {
			return end{executionID: id, how: how, namespace: request.GetNamespace()}, true
		}
	}
	return end{}, false
}

// closes says which end of a workflow a command asks for; without an outcome: none.
func closes(command *commandpb.Command) how {
	switch command.GetCommandType() {
	case enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION:
		result, note := summary.Result(command.GetCompleteWorkflowExecutionCommandAttributes().GetResult())
		return how{"COMPLETED", note, result}
	case enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION:
		return how{outcome: "CANCELED", reason: "workflow was cancelled"}
	case enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION:
		return how{outcome: "FAILED", reason: summary.Failure(command.GetFailWorkflowExecutionCommandAttributes().GetFailure())}
	default:
		return how{}
	}
}
