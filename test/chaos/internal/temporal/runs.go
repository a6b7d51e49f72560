package temporal

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// pageSize is the number of runs per page.
const pageSize = 1000

// Run is one run as listed by Temporal.
type Run struct {
	// WorkflowID and RunID identify the run.
	WorkflowID, RunID string
	// Type is the workflow type.
	Type string
	// Status is the run's status, such as COMPLETED.
	Status string
	// Start and Close are Temporal's times. Close is zero while the run is open.
	Start, Close time.Time
}

var statuses = map[enumspb.WorkflowExecutionStatus]string{
	enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:          "RUNNING",
	enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:        "COMPLETED",
	enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:           "FAILED",
	enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:         "CANCELED",
	enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:       "TERMINATED",
	enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:        "TIMED_OUT",
	enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW: "CONTINUED_AS_NEW",
}

// WorkflowID returns the workflow ID of an execution.
func WorkflowID(execution string) string { return "execution-" + execution }

// Runs lists all runs.
func Runs(ctx context.Context, c client.Client) ([]Run, error) { return list(ctx, c, "") }

// RunsOf lists the runs of one execution.
func RunsOf(ctx context.Context, c client.Client, execution string) ([]Run, error) {
	return list(ctx, c, fmt.Sprintf("WorkflowId = '%s'", WorkflowID(execution)))
}

func list(ctx context.Context, c client.Client, query string) ([]Run, error) {
	var runs []Run
	for token := []byte(nil); ; {
		page, err := c.ListWorkflow(ctx,
			&workflowservice.ListWorkflowExecutionsRequest{PageSize: pageSize, NextPageToken: token, Query: query})
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		for _, e := range page.GetExecutions() {
			run := Run{WorkflowID: e.GetExecution().GetWorkflowId(), RunID: e.GetExecution().GetRunId(),
				Type: e.GetType().GetName(), Status: statuses[e.GetStatus()], Start: e.GetStartTime().AsTime()}
			if e.GetCloseTime() != nil {
				run.Close = e.GetCloseTime().AsTime()
			}
			runs = append(runs, run)
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			return runs, nil
		}
	}
}
