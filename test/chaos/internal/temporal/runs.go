package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// pageSize is the number of runs per page.
const pageSize = 1000

// Kinds of runs.
const (
	Workflow = "workflow"
	Activity = "activity"
)

// Run is one run of a workflow or an activity as listed by Temporal.
type Run struct {
	// Kind is Workflow or Activity. ID and RunID identify the run among its kind.
	Kind, ID, RunID string
	// Execution is the execution that it was started for, as its ID says or else its memo or header. Empty means that it
	// is unrelated.
	Execution string
	// Status is the run's status, such as COMPLETED.
	Status string
	// Start and Close are Temporal's times. Close is zero while the run is open.
	Start, Close time.Time
}

var (
	statuses = map[enumspb.WorkflowExecutionStatus]string{
		enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:          "RUNNING",
		enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:        "COMPLETED",
		enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:           "FAILED",
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:         "CANCELED",
		enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:       "TERMINATED",
		enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:        "TIMED_OUT",
		enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW: "CONTINUED_AS_NEW",
	}
	activityStatuses = map[enumspb.ActivityExecutionStatus]string{
		enumspb.ACTIVITY_EXECUTION_STATUS_RUNNING:    "RUNNING",
		enumspb.ACTIVITY_EXECUTION_STATUS_COMPLETED:  "COMPLETED",
		enumspb.ACTIVITY_EXECUTION_STATUS_FAILED:     "FAILED",
		enumspb.ACTIVITY_EXECUTION_STATUS_CANCELED:   "CANCELED",
		enumspb.ACTIVITY_EXECUTION_STATUS_TERMINATED: "TERMINATED",
		enumspb.ACTIVITY_EXECUTION_STATUS_TIMED_OUT:  "TIMED_OUT",
	}
)

// idPrefix precedes the execution in an ID that no item has named.
const idPrefix = "execution-"

// WorkflowID returns the ID of an execution's workflow or activity, unless the item has named another.
func WorkflowID(execution string) string { return idPrefix + execution }

// Lister lists runs. It remembers what it has asked about activities, whose lists do not tell whose they are.
type Lister struct {
	client.Client
	// Namespace is the client's.
	Namespace string

	headers map[string]string // executions by run
}

// Runs lists the runs under an ID. An empty one lists all.
func (l *Lister) Runs(ctx context.Context, id string) ([]Run, error) {
	workflows, err := pages(func(token []byte) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		return l.WorkflowService().ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: l.Namespace, PageSize: pageSize, NextPageToken: token, Query: under("WorkflowId", id)})
	})
	if err != nil {
		return nil, fmt.Errorf("list workflows: %w", err)
	}
	var runs []Run
	for _, page := range workflows {
		for _, e := range page.GetExecutions() {
			id := e.GetExecution().GetWorkflowId()
			runs = append(runs, Run{Kind: Workflow, ID: id, RunID: e.GetExecution().GetRunId(), Execution: owner(id, marked(e)),
				Status: statuses[e.GetStatus()], Start: e.GetStartTime().AsTime(), Close: orZero(e.GetCloseTime())})
		}
	}
	activities, err := pages(func(token []byte) (*workflowservice.ListActivityExecutionsResponse, error) {
		return l.WorkflowService().ListActivityExecutions(ctx, &workflowservice.ListActivityExecutionsRequest{
			Namespace: l.Namespace, PageSize: pageSize, NextPageToken: token, Query: under("ActivityId", id)})
	})
	if err != nil {
		return nil, fmt.Errorf("list activities: %w", err)
	}
	for _, page := range activities {
		for _, e := range page.GetExecutions() {
			run := Run{Kind: Activity, ID: e.GetActivityId(), RunID: e.GetRunId(), Status: activityStatuses[e.GetStatus()],
				Start: e.GetScheduleTime().AsTime(), Close: orZero(e.GetCloseTime())}
			if run.Execution, err = l.ownerOf(ctx, run); err != nil {
				return nil, err
			}
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// pages reads all pages of a list.
func pages[T interface{ GetNextPageToken() []byte }](read func(token []byte) (T, error)) (all []T, err error) {
	for token := []byte(nil); ; {
		page, err := read(token)
		if err != nil {
			return nil, err
		}
		all = append(all, page)
		if token = page.GetNextPageToken(); len(token) == 0 {
			return all, nil
		}
	}
}

func under(attribute, id string) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf("%s = '%s'", attribute, id)
}

// owner returns the execution that a run was started for.
func owner(id, marked string) string {
	if execution, ok := strings.CutPrefix(id, idPrefix); ok {
		return execution
	}
	return marked
}

// marked returns the execution in a workflow's memo, or empty.
func marked(e *workflowpb.WorkflowExecutionInfo) (execution string) {
	_ = json.Unmarshal(e.GetMemo().GetFields()["pgdispatch_execution_id"].GetData(), &execution)
	return execution
}

// ownerOf is owner for an activity, which only its description tells.
func (l *Lister) ownerOf(ctx context.Context, run Run) (string, error) {
	if execution, known := l.headers[run.RunID]; known || run.RunID != "" && strings.HasPrefix(run.ID, idPrefix) {
		return owner(run.ID, execution), nil
	}
	described, err := l.WorkflowService().DescribeActivityExecution(ctx,
		&workflowservice.DescribeActivityExecutionRequest{Namespace: l.Namespace, ActivityId: run.ID, RunId: run.RunID})
	if err != nil {
		return "", fmt.Errorf("describe activity: %w", err)
	}
	var marked struct {
		ExecutionID string `json:"executionId"`
	}
	header := described.GetInfo().GetHeader().GetFields()["pgdispatch"]
	_ = json.Unmarshal(header.GetData(), &marked) // empty without one
	if l.headers == nil {
		l.headers = map[string]string{}
	}
	l.headers[run.RunID] = marked.ExecutionID
	return owner(run.ID, marked.ExecutionID), nil
}

func orZero(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}

// Newest returns the execution that the newest run under an ID was started for, or "" if there is none or it is
// unrelated. Unlike a list, it does not lag behind.
func (l *Lister) Newest(ctx context.Context, id string) (string, error) {
	var notFound *serviceerror.NotFound
	described, err := l.DescribeWorkflowExecution(ctx, id, "")
	if err == nil {
		return owner(id, marked(described.GetWorkflowExecutionInfo())), nil
	} else if !errors.As(err, &notFound) {
		return "", err
	}
	execution, err := l.ownerOf(ctx, Run{ID: id})
	if errors.As(err, &notFound) {
		return "", nil
	}
	return execution, err
}
