// Package finish lets a worker report the end of a workflow or a standalone activity as soon as Temporal has accepted
// it, some milliseconds before pgdispatch would detect it.
//
// It intercepts the worker's connection. The worker's own code would report before Temporal has closed what it ends,
// and the workspace's next item could start while this one is still open.
package finish

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// Store records ends. Use a *complete.Postgres on a pool of the worker's own.
type Store interface {
	Finish(ctx context.Context, executionID, outcome, reason, result string) (first bool, err error)
	// Running returns the runs that executions of a kind, workflow or activity, follow under a workflow ID that their
	// items name, by execution ID.
	Running(ctx context.Context, kind, namespace, workflowID string) (map[string]string, error)
}

const (
	// sayTimeout limits reporting one end. After that, pgdispatch detects the end.
	sayTimeout = 2 * time.Second
	// failurePause is how long a goroutine pauses after a failed report. pgdispatch detects the ends that are dropped
	// meanwhile.
	failurePause = time.Second
	// atMostWaiting is the queue's capacity. Further ends are dropped, and pgdispatch detects them.
	atMostWaiting = 1000
	// speakers is the number of ends reported concurrently.
	speakers = 4
)

// Reporter reports that workflows and standalone activities have ended. Create it with New. Set the fields before use
// and do not change them afterwards.
type Reporter struct {
	// Store records the ends.
	Store Store
	// Codec decodes results and messages of failures, if the worker's data converter encodes them with it. It is called on
	// the worker's goroutine. Nil means that they are not encoded.
	Codec converter.PayloadCodec
	// Log receives a warning for each end that could not be reported. Nil disables it.
	Log *slog.Logger

	ends chan end
}

// end is the end of a workflow or a standalone activity that Temporal has accepted.
type end struct {
	kind        temporal.Kind
	workflowID  string
	executionID string // that the workflow ID names; empty if it has another format
	how
	conn      *grpc.ClientConn
	namespace string
}

// how describes how something ended. reason is why it did not complete, or a note about the result if it did.
type how struct{ outcome, reason, result string }

// New returns a reporter. Set its Intercept as an interceptor of the worker's Temporal client, and call Run alongside
// the worker. A nil log disables warnings.
func New(store Store, log *slog.Logger) *Reporter {
	return &Reporter{Store: store, Log: log, ends: make(chan end, atMostWaiting)}
}

// Run reports ends until ctx is cancelled, then returns nil.
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

// say records one end. On failure it pauses, because the database is probably unavailable. The queue may overflow
// meanwhile.
func (r *Reporter) say(ctx context.Context, e end) {
	bounded, cancel := context.WithTimeoutCause(ctx, sayTimeout,
		fmt.Errorf("report of the end timed out after %s", sayTimeout))
	defer cancel()
	err := r.report(bounded, e)
	if err == nil || ctx.Err() != nil {
		return
	}
	if r.Log != nil {
		r.Log.WarnContext(ctx, "Cannot report the end of an execution; pgdispatch will detect it", "workflow_id",
			e.workflowID, "error", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(failurePause):
	}
}

// report records an end for all executions that have ended with it.
func (r *Reporter) report(ctx context.Context, e end) error {
	if e.executionID != "" {
		over, err := isOver(ctx, e)
		if err == nil && over {
			_, err = r.Store.Finish(ctx, e.executionID, e.outcome, e.reason, e.result)
		}
		return err
	}
	runs, err := r.Store.Running(ctx, e.kind.String(), e.namespace, e.workflowID)
	if err != nil {
		return err
	}
	for id, run := range runs {
		// The workflow ID may have been reused since.
		found, over, err := e.temporal().Ended(ctx,
			temporal.Execution{ID: id, WorkflowID: e.workflowID, RunID: run, Kind: e.kind})
		if err == nil && over && found.Outcome == e.outcome {
			_, err = r.Store.Finish(ctx, id, e.outcome, e.reason, e.result)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isOver reports whether what failed has ended. With a retry policy a workflow continues in another run, and an
// activity with another attempt. The worker cannot know that, so isOver asks Temporal.
func isOver(ctx context.Context, e end) (bool, error) {
	if e.outcome == "COMPLETED" || e.outcome == "CANCELED" {
		return true, nil
	}
	if e.kind == temporal.Activity {
		found, over, err := e.temporal().Look(ctx, temporal.Execution{ID: e.executionID, Kind: e.kind})
		return over && found.Outcome == e.outcome, err
	}
	response, err := e.temporal().Service.DescribeWorkflowExecution(ctx,
		&workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: e.namespace,
			Execution: &commonpb.WorkflowExecution{WorkflowId: e.workflowID},
		})
	if err != nil {
		return false, fmt.Errorf("describe workflow: %w", err)
	}
	return response.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, nil
}

// temporal returns a client for the worker's connection.
func (e end) temporal() *temporal.Client {
	return &temporal.Client{Service: workflowservice.NewWorkflowServiceClient(e.conn), Namespace: e.namespace}
}

// Intercept is a grpc.UnaryClientInterceptor. It changes neither requests nor responses, and does not block, unless
// Codec does.
func (r *Reporter) Intercept(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, answer, conn, options...)
	if err == nil {
		if e, found := r.ended(request); found {
			e.conn = conn
			select {
			case r.ends <- e:
			default: // queue full
			}
		}
	}
	return err
}

// ended returns the end that a request reports: a worker's answer to a task, of which the resource ID says what the
// task belongs to.
func (r *Reporter) ended(request any) (end, bool) {
	answer, isAnswer := request.(interface {
		GetResourceId() string
		GetNamespace() string
	})
	if !isAnswer {
		return end{}, false
	}
	kind, workflowID, _ := strings.Cut(answer.GetResourceId(), ":")
	e := end{kind: temporal.Kind(kind), workflowID: workflowID, namespace: answer.GetNamespace()}
	switch e.kind {
	case temporal.Workflow:
		e.how = r.endOfWorkflow(request)
	case temporal.Activity: // a standalone one
		e.how = r.endOfActivity(request)
	}
	if id, named := temporal.ExecutionID(workflowID); named {
		e.executionID = id
	}
	return e, e.outcome != ""
}

// endOfWorkflow finds the command that closes a workflow. Continue-as-new closes only a run.
func (r *Reporter) endOfWorkflow(request any) how {
	if completed, is := request.(*workflowservice.RespondWorkflowTaskCompletedRequest); is {
		for _, command := range completed.GetCommands() {
			if how := r.closes(command); how.outcome != "" {
				return how
			}
		}
	}
	return how{}
}

// endOfActivity returns how an attempt of an activity ended.
func (r *Reporter) endOfActivity(request any) how {
	switch request := request.(type) {
	case *workflowservice.RespondActivityTaskCompletedRequest:
		return r.completed(request.GetResult())
	case *workflowservice.RespondActivityTaskCanceledRequest:
		return how{outcome: "CANCELED", reason: "activity was cancelled"}
	case *workflowservice.RespondActivityTaskFailedRequest:
		return r.failed(request.GetFailure())
	}
	return how{}
}

// closes returns how a command ends its workflow. An empty outcome means that it does not.
func (r *Reporter) closes(command *commandpb.Command) how {
	switch command.GetCommandType() {
	case enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION:
		return r.completed(command.GetCompleteWorkflowExecutionCommandAttributes().GetResult())
	case enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION:
		return how{outcome: "CANCELED", reason: "workflow was cancelled"}
	case enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION:
		return r.failed(command.GetFailWorkflowExecutionCommandAttributes().GetFailure())
	default:
		return how{}
	}
}

func (r *Reporter) completed(payloads *commonpb.Payloads) how {
	if r.Codec != nil {
		payloads = proto.CloneOf(payloads)
		_ = temporal.Decode(payloads, nil, r.Codec.Decode) // what is not decoded is noted like what is too large
	}
	result, note := temporal.Result(payloads)
	return how{"COMPLETED", note, result}
}

func (r *Reporter) failed(failure *failurepb.Failure) how {
	if r.Codec != nil {
		failure = proto.CloneOf(failure)
		_ = temporal.Decode(nil, failure, r.Codec.Decode)
	}
	return how{outcome: "FAILED", reason: temporal.Failure(failure)}
}
