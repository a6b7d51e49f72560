package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
)

const (
	// requestTimeout limits a request that is not a long poll.
	requestTimeout = 5 * time.Second
	// pageSize is the largest page that Temporal's visibility returns by default.
	pageSize = 1000
)

// gone is the end of a workflow that was started but that Temporal no longer knows.
var gone = End{Outcome: "FAILED", Reason: "workflow is gone from Temporal: deleted, or its retention has expired"}

// Page is one page of a list of closed workflows.
type Page struct {
	ExecutionIDs []string // executions whose workflow ID has our format, including unrelated workflows
	// Runs maps those executions that are ours to the run listed for them.
	Runs   map[string]string
	Newest time.Time
	Next   []byte // empty on the last page
}

// Closed lists the workflows that closed at or after since and whose ID has our format. Visibility is eventually
// consistent, so the latest ones may be missing.
func (t *Client) Closed(ctx context.Context, namespace string, since time.Time, page []byte) (Page, error) {
	query := fmt.Sprintf("CloseTime >= '%s'", since.UTC().Format(time.RFC3339Nano))
	if !t.noPrefix.Load() {
		query += " and WorkflowId starts_with '" + workflowIDPrefix + "'"
	}
	var response *workflowservice.ListWorkflowExecutionsResponse
	err := bounded(ctx, func(ctx context.Context) (err error) {
		response, err = t.Service.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.namespace(namespace), PageSize: pageSize, NextPageToken: page, Query: query,
		})
		return err
	})
	if Code(err) == codes.InvalidArgument && !t.noPrefix.Swap(true) {
		// This server's visibility cannot search by prefix. The loop below filters instead.
		return t.Closed(ctx, namespace, since, nil)
	}
	if err != nil {
		return Page{}, fmt.Errorf("list closed workflows: %w", err)
	}
	result := Page{Next: response.GetNextPageToken(), Runs: map[string]string{}}
	for _, info := range response.GetExecutions() {
		if closed := info.GetCloseTime().AsTime(); closed.After(result.Newest) {
			result.Newest = closed
		}
		id, ours := ExecutionID(info.GetExecution().GetWorkflowId())
		if ours && info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			result.ExecutionIDs = append(result.ExecutionIDs, id)
			if isOurs(info, id) {
				result.Runs[id] = info.GetExecution().GetRunId()
			}
		}
	}
	return result, nil
}

// Look reports whether the execution's last run has closed, and how. The last run is the newest one under the workflow
// ID, unless that run is not ours because the ID was reused after our workflow ended.
func (t *Client) Look(ctx context.Context, execution Execution) (end End, ended bool, err error) {
	info, err := t.newest(ctx, execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return gone, true, nil
	case err != nil:
		return End{}, false, err
	case !isOurs(info, execution.ID):
		return t.follow(ctx, execution, t.closed)
	case isOpen(info):
		return End{}, false, nil
	}
	execution.RunID = info.GetExecution().GetRunId()
	return t.follow(ctx, execution, t.closed)
}

// Ended reports whether the chain of runs that starts at execution.RunID has closed, and how. If RunID is empty, it
// behaves like Look.
func (t *Client) Ended(ctx context.Context, execution Execution) (end End, ended bool, err error) {
	if execution.RunID == "" {
		return t.Look(ctx, execution)
	}
	return t.follow(ctx, execution, t.closed)
}

// newest returns the newest run under the execution's workflow ID.
func (t *Client) newest(ctx context.Context, execution Execution) (*workflowpb.WorkflowExecutionInfo, error) {
	response, err := t.describe(ctx, execution)
	return response.GetWorkflowExecutionInfo(), err
}

// describe describes the newest run under the execution's workflow ID.
func (t *Client) describe(ctx context.Context,
	execution Execution) (response *workflowservice.DescribeWorkflowExecutionResponse, err error) {
	err = bounded(ctx, func(ctx context.Context) (err error) {
		response, err = t.Service.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: t.namespace(execution.Namespace),
			Execution: &commonpb.WorkflowExecution{WorkflowId: WorkflowID(execution.ID)},
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe workflow: %w", err)
	}
	return response, nil
}

func isOpen(info *workflowpb.WorkflowExecutionInfo) bool {
	return info.GetCloseTime() == nil
}

// TaskQueue identifies a task queue.
type TaskQueue struct {
	Namespace string // empty means the client's
	Name      string
}

// Polled reports whether a worker has polled the task queue for workflow tasks within the last minutes.
func (t *Client) Polled(ctx context.Context, queue TaskQueue) (polled bool, err error) {
	err = bounded(ctx, func(ctx context.Context) error {
		response, err := t.Service.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: t.namespace(queue.Namespace), TaskQueue: &taskqueuepb.TaskQueue{Name: queue.Name},
			TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
		})
		polled = len(response.GetPollers()) > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("describe task queue %q: %w", queue.Name, err)
	}
	return polled, nil
}

// TaskAttempt returns the attempt of the pending workflow task in the execution's newest run. Zero means that there is
// none.
func (t *Client) TaskAttempt(ctx context.Context, execution Execution) (int, error) {
	response, err := t.describe(ctx, execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return 0, nil
	case err != nil:
		return 0, err
	case !isOurs(response.GetWorkflowExecutionInfo(), execution.ID):
		return 0, nil
	}
	return int(response.GetPendingWorkflowTask().GetAttempt()), nil
}
