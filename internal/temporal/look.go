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
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
)

const (
	// requestTimeout limits a request that is not a long poll.
	requestTimeout = 5 * time.Second
	// pageSize is the largest page that Temporal's visibility returns by default.
	pageSize = 1000
)

// ErrMissing means that Temporal does not find a workflow or activity that was started. It may have been deleted, its
// retention may have expired, or this answer comes from another or an older state of Temporal: one such answer does not
// prove that it is gone.
var ErrMissing = errors.New("not found in Temporal")

func missing(kind Kind) error { return fmt.Errorf("%s %w", kind, ErrMissing) }

// Gone is the end of an execution that was started but that Temporal no longer has.
func Gone(kind Kind) End {
	return End{Outcome: "FAILED", Reason: kind.String() + " is gone from Temporal: deleted, or its retention has expired"}
}

// Page is one page of a list of closed workflows or activities.
type Page struct {
	ExecutionIDs []string // executions whose workflow ID has our format, including unrelated workflows
	WorkflowIDs  []string // the others, of a Range of All
	// Runs maps the executions for which listed workflows were started to the run listed for them.
	Runs   map[string]string
	Newest time.Time
	Next   []byte // empty on the last page
}

// Range is what Closed lists: executions of a kind that closed at or after Since.
type Range struct {
	Kind      Kind
	Namespace string
	Since     time.Time
	All       bool // also those whose ID does not have our format
}

// Closed lists a range of closed executions, page by page. Visibility is eventually consistent, so the latest ones may
// be missing.
func (t *Client) Closed(ctx context.Context, of Range, page []byte) (Page, error) {
	list, id := t.closedWorkflows, "WorkflowId"
	if of.Kind == Activity {
		list, id = t.closedActivities, "ActivityId"
	}
	query := fmt.Sprintf("CloseTime >= '%s'", of.Since.UTC().Format(time.RFC3339Nano))
	if !of.All && !t.noPrefix.Load() {
		query += " and " + id + " starts_with '" + workflowIDPrefix + "'"
	}
	result := Page{Runs: map[string]string{}}
	err := bounded(ctx, func(ctx context.Context) error {
		return list(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.namespace(of.Namespace), PageSize: pageSize, NextPageToken: page, Query: query,
		}, &result)
	})
	if Code(err) == codes.InvalidArgument && !of.All && !t.noPrefix.Swap(true) {
		// This server's visibility cannot search by prefix. What follows filters instead.
		return t.Closed(ctx, of, nil)
	}
	if err != nil {
		return Page{}, fmt.Errorf("list what has closed: %w", err)
	}
	if !of.All {
		result.WorkflowIDs = nil
	}
	return result, nil
}

// closedWorkflows reads a page of workflows.
func (t *Client) closedWorkflows(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest,
	page *Page) error {
	response, err := t.Service.ListWorkflowExecutions(ctx, request)
	page.Next = response.GetNextPageToken()
	for _, info := range response.GetExecutions() {
		if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			page.saw(info.GetCloseTime().AsTime())
			continue
		}
		id := page.add(info.GetExecution().GetWorkflowId(), info.GetCloseTime().AsTime())
		if owner := startedFor(info); owner != "" && (id == "" || id == owner) {
			page.Runs[owner] = info.GetExecution().GetRunId()
		}
	}
	return err
}

// closedActivities reads a page of activities. The list does not tell whose they are.
func (t *Client) closedActivities(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest,
	page *Page) error {
	response, err := t.Service.ListActivityExecutions(ctx, &workflowservice.ListActivityExecutionsRequest{
		Namespace: request.GetNamespace(), PageSize: request.GetPageSize(), NextPageToken: request.GetNextPageToken(),
		Query: request.GetQuery(),
	})
	page.Next = response.GetNextPageToken()
	for _, info := range response.GetExecutions() {
		page.add(info.GetActivityId(), info.GetCloseTime().AsTime())
	}
	return err
}

func (p *Page) saw(closed time.Time) {
	if closed.After(p.Newest) {
		p.Newest = closed
	}
}

// add adds a closed workflow or activity, and returns the execution that its ID names, or "".
func (p *Page) add(workflowID string, closed time.Time) (executionID string) {
	p.saw(closed)
	id, ours := ExecutionID(workflowID)
	if !ours {
		p.WorkflowIDs = append(p.WorkflowIDs, workflowID)
		return ""
	}
	p.ExecutionIDs = append(p.ExecutionIDs, id)
	return id
}

// Look reports whether the execution's last run has closed, and how. The last run is the newest one under the workflow
// ID, unless that run is not the execution's because the ID was reused after its workflow ended. Look returns
// ErrMissing if Temporal does not find it.
func (t *Client) Look(ctx context.Context, execution Execution) (end End, ended bool, err error) {
	if execution.Kind == Activity {
		return t.activityEnd(ctx, execution, false)
	}
	newest, err := t.newest(ctx, execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return End{}, false, missing(Workflow)
	case err != nil:
		return End{}, false, err
	case !newest.ours:
		return t.follow(ctx, execution, t.closed)
	case newest.open:
		return End{}, false, nil
	}
	execution.RunID = newest.id
	return t.follow(ctx, execution, t.closed)
}

// Ended reports whether the chain of runs that starts at execution.RunID has closed, and how. If RunID is empty, it
// behaves like Look.
func (t *Client) Ended(ctx context.Context, execution Execution) (end End, ended bool, err error) {
	if execution.RunID == "" || execution.Kind == Activity {
		return t.Look(ctx, execution)
	}
	return t.follow(ctx, execution, t.closed)
}

// run is a run of a workflow or an activity.
type run struct {
	id, first   string // first is the first run's ID, or empty
	open, ours  bool   // ours: pgdispatch started it for the execution, or the execution follows it
	taskAttempt int    // of the pending workflow task; zero if there is none
}

// newest returns the newest run under the execution's ID.
func (t *Client) newest(ctx context.Context, execution Execution) (run, error) {
	if execution.Kind == Activity {
		newest := execution
		newest.RunID = ""
		response, err := t.describeActivity(ctx, newest)
		described := runOf(response.GetInfo(), execution.ID)
		described.ours = described.ours || execution.WorkflowID != "" && execution.RunID == described.id
		return described, err
	}
	newest, err := t.describe(ctx, execution, "")
	if err == nil && !newest.ours {
		newest.ours, err = t.follows(ctx, execution, newest)
	}
	return newest, err
}

// follows reports whether a run that was not started for an execution is the one that it follows, or continues it.
func (t *Client) follows(ctx context.Context, execution Execution, newest run) (bool, error) {
	switch {
	case execution.WorkflowID == "" || execution.RunID == "":
		return false, nil
	case execution.RunID == newest.id || execution.RunID == newest.first:
		return true, nil
	}
	followed, err := t.describe(ctx, execution, execution.RunID)
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return false, nil
	}
	return err == nil && newest.first != "" && followed.first == newest.first, err
}

// describe describes a run of an execution's workflow, or the newest one if runID is empty. ours says only whether it
// was started for the execution.
func (t *Client) describe(ctx context.Context, execution Execution, runID string) (run, error) {
	var response *workflowservice.DescribeWorkflowExecutionResponse
	err := bounded(ctx, func(ctx context.Context) (err error) {
		response, err = t.Service.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: t.namespace(execution.Namespace),
			Execution: &commonpb.WorkflowExecution{WorkflowId: execution.Workflow(), RunId: runID},
		})
		return err
	})
	if err != nil {
		return run{}, fmt.Errorf("describe workflow: %w", err)
	}
	info := response.GetWorkflowExecutionInfo()
	return run{id: info.GetExecution().GetRunId(), first: info.GetFirstRunId(), open: info.GetCloseTime() == nil,
		ours: isOurs(info, execution.ID), taskAttempt: int(response.GetPendingWorkflowTask().GetAttempt())}, nil
}

// TaskQueue identifies a task queue.
type TaskQueue struct {
	Namespace string // empty means the client's
	Name      string
	Kind      Kind // of the tasks that are polled for
}

// Polled reports whether a worker has polled the task queue for tasks of its kind within the last minutes.
func (t *Client) Polled(ctx context.Context, queue TaskQueue) (polled bool, err error) {
	tasks := enumspb.TASK_QUEUE_TYPE_WORKFLOW
	if queue.Kind == Activity {
		tasks = enumspb.TASK_QUEUE_TYPE_ACTIVITY
	}
	err = bounded(ctx, func(ctx context.Context) error {
		response, err := t.Service.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: t.namespace(queue.Namespace), TaskQueue: &taskqueuepb.TaskQueue{Name: queue.Name},
			TaskQueueType: tasks,
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
	newest, err := t.newest(ctx, execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return 0, nil
	case err != nil:
		return 0, err
	case !newest.ours:
		return 0, nil
	}
	return newest.taskAttempt, nil
}
