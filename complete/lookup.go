package complete

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"

	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// requestTimeout limits a request that is not a long poll.
	requestTimeout = 5 * time.Second
	// pageSize is the largest page that Temporal's visibility returns by default.
	pageSize = 1000
	// workflowIDPrefix precedes the execution ID in a workflow ID.
	workflowIDPrefix = "execution-"
	// memoKey marks a workflow as ours. Every run that continues it carries the memo, too.
	memoKey = "pgdispatch_execution_id"
)

// gone is the end of a workflow that was started but that Temporal no longer knows.
var gone = End{Outcome: "FAILED", Reason: "workflow is gone from Temporal: deleted, or its retention is over"}

// Closed lists the workflows that closed at or after since and whose ID has our format. Visibility is eventually
// consistent, so the latest ones may be missing.
func (t *TemporalWaiter) Closed(ctx context.Context, namespace string, since time.Time, page []byte) (Page, error) {
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
	if code(err) == codes.InvalidArgument && !t.noPrefix.Swap(true) {
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
		id, ours := strings.CutPrefix(info.GetExecution().GetWorkflowId(), workflowIDPrefix)
		if ours && uuid.Validate(id) == nil && info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			result.ExecutionIDs = append(result.ExecutionIDs, id)
			if isOurs(info, id) {
				result.Runs[id] = info.GetExecution().GetRunId()
			}
		}
	}
	return result, nil
}

// Look reports whether the execution's last run has closed, and how. The last run is the newest one under the workflow
// ID, unless that run is not ours: somebody reused the ID after our workflow ended.
func (t *TemporalWaiter) Look(ctx context.Context, execution claim.Execution) (end End, ended bool, err error) {
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
func (t *TemporalWaiter) Ended(ctx context.Context, execution claim.Execution) (end End, ended bool, err error) {
	if execution.RunID == "" {
		return t.Look(ctx, execution)
	}
	return t.follow(ctx, execution, t.closed)
}

// newest returns the newest run under the execution's workflow ID.
func (t *TemporalWaiter) newest(ctx context.Context, execution claim.Execution) (*workflowpb.WorkflowExecutionInfo, error) {
	response, err := t.describe(ctx, execution)
	return response.GetWorkflowExecutionInfo(), err
}

// describe describes the newest run under the execution's workflow ID.
func (t *TemporalWaiter) describe(ctx context.Context, execution claim.Execution) (response *workflowservice.DescribeWorkflowExecutionResponse, err error) {
	err = bounded(ctx, func(ctx context.Context) (err error) {
		response, err = t.Service.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: t.namespace(execution.Namespace),
			Execution: &commonpb.WorkflowExecution{WorkflowId: workflowIDPrefix + execution.ID},
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe workflow: %w", err)
	}
	return response, nil
}

func isOurs(info *workflowpb.WorkflowExecutionInfo, executionID string) bool {
	var marked string
	err := json.Unmarshal(info.GetMemo().GetFields()[memoKey].GetData(), &marked)
	return err == nil && marked == executionID
}

func isOpen(info *workflowpb.WorkflowExecutionInfo) bool {
	return info.GetCloseTime() == nil
}

// bounded makes a request with requestTimeout and classifies its error.
func bounded(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("request gave up after %s", requestTimeout))
	defer cancel()
	err := request(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return classify(err)
}
