package lab

import (
	"context"
	"fmt"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pgdispatch/pgdispatch/test/failover/internal/audit"
)

const (
	// workflowType and taskQueue are those of all items.
	workflowType, taskQueue = "Any", "failover"
	// namespace is Temporal's.
	namespace = "default"
	// idPrefix precedes an item's execution in the ID of its workflow.
	idPrefix = "execution-"
	// pageSize is the number of runs per page of a list.
	pageSize = 1000
)

// startWorker starts a worker that completes every workflow at once.
func startWorker(c client.Client) (worker.Worker, error) {
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context, converter.RawValue) error { return nil },
		workflow.RegisterOptions{Name: workflowType})
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	return w, nil
}

// listRuns returns all workflow runs of Temporal.
func listRuns(ctx context.Context, c client.Client) (runs []audit.Run, err error) {
	for token := []byte(nil); ; {
		page, err := c.WorkflowService().ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: namespace, PageSize: pageSize, NextPageToken: token})
		if err != nil {
			return nil, fmt.Errorf("list workflows: %w", err)
		}
		for _, e := range page.GetExecutions() {
			runs = append(runs, audit.Run{
				Execution: strings.TrimPrefix(e.GetExecution().GetWorkflowId(), idPrefix), Started: e.GetStartTime().AsTime(),
			})
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			return runs, nil
		}
	}
}
