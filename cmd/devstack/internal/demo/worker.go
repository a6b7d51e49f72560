package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	// workflowType and taskQueue are those of the demonstration's workflow definitions.
	workflowType = "demo.RunGraph"
	taskQueue    = "demo"
	// activityTimeout bounds one attempt of an activity.
	activityTimeout = 30 * time.Second
	// A node works for shortestWork plus up to workSpread.
	shortestWork = 100 * time.Millisecond
	workSpread   = 300 * time.Millisecond
)

// workflowInput is the input that pgdispatch passes to every workflow.
type workflowInput struct {
	ExecutionID                 string         `json:"executionId"`
	WorkspaceID                 string         `json:"workspaceId"`
	WorkflowDefinitionID        string         `json:"workflowDefinitionId"`
	WorkflowDefinitionVersionID string         `json:"workflowDefinitionVersionId"`
	QueueItemID                 json.Number    `json:"queueItemId"`
	NodeIDs                     []string       `json:"nodeIds"`
	Params                      map[string]any `json:"params"`
}

// nodeTask is the input of the activity that does a node's work.
type nodeTask struct {
	ID string `json:"id"`
	// Fail makes the work end with an error that is not retried.
	Fail bool `json:"fail"`
}

// newWorker registers the workflow and its activities on a worker and does not start it. fatal receives the error that
// ends the worker, if any.
func newWorker(c client.Client, activities *graphActivities, fatal chan<- error) worker.Worker {
	w := worker.New(c, taskQueue, worker.Options{
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default:
			}
		},
	})
	w.RegisterWorkflowWithOptions(runGraph, workflow.RegisterOptions{Name: workflowType})
	w.RegisterActivity(activities)
	return w
}

// runGraph is the workflow. It runs the nodes of its definition's graph one after another, each after its
// predecessors. It returns the nodes in the order in which they ran.
func runGraph(ctx workflow.Context, in workflowInput) ([]string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: activityTimeout})
	var activities *graphActivities
	var g graph
	loaded := workflow.ExecuteActivity(ctx, activities.LoadGraph, in.WorkflowDefinitionVersionID)
	if err := loaded.Get(ctx, &g); err != nil {
		return nil, fmt.Errorf("load graph: %w", err)
	}
	if !slices.Equal(g.nodeIDs(), in.NodeIDs) {
		return nil, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("nodeIds %q of the input are not the graph's %q", in.NodeIDs, g.nodeIDs()), "InvalidInput", nil)
	}
	order, err := g.order()
	if err != nil {
		return nil, temporal.NewNonRetryableApplicationError(err.Error(), "InvalidGraph", err)
	}
	for _, id := range order {
		task := nodeTask{ID: id, Fail: in.Params["fail_at"] == id}
		if err := workflow.ExecuteActivity(ctx, activities.RunNode, task).Get(ctx, nil); err != nil {
			return nil, nodeFailure(id, err)
		}
	}
	return order, nil
}

// nodeFailure returns the workflow's error for a failed node: the activity's message without Temporal's event numbers
// and causes.
func nodeFailure(id string, err error) error {
	reason := err.Error()
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		reason = application.Message()
	}
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf("node %s %s", id, reason), "NodeFailed", nil)
}

// rowQuerier is the part of a connection pool that LoadGraph needs.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// graphActivities are the activities of the workflow.
type graphActivities struct {
	// db is pgdispatch's database.
	db rowQuerier
}

// LoadGraph reads the graph of a version of a definition.
func (a *graphActivities) LoadGraph(ctx context.Context, versionID string) (graph, error) {
	var g graph
	err := a.db.QueryRow(ctx, graphQuery, versionID).Scan(&g)
	if errors.Is(err, pgx.ErrNoRows) {
		return g, temporal.NewNonRetryableApplicationError("no version "+versionID, "NotFound", err)
	}
	if err != nil {
		return g, fmt.Errorf("read graph of version %s: %w", versionID, err)
	}
	return g, nil
}

// RunNode works for a time that depends on the node's name, and fails if the task says so.
func (a *graphActivities) RunNode(ctx context.Context, task nodeTask) error {
	timer := time.NewTimer(workTime(task.ID))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	if task.Fail {
		return temporal.NewNonRetryableApplicationError("failed on purpose (params.fail_at)", "Deliberate", nil)
	}
	activity.GetLogger(ctx).Debug("node is done", "node", task.ID)
	return nil
}

// workTime returns how long a node works. It is always the same for the same name.
func workTime(node string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node))
	return shortestWork + time.Duration(h.Sum32()%uint32(workSpread/time.Millisecond))*time.Millisecond
}
