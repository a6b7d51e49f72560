package temporal

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"

	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

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
