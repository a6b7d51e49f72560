package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

// Policy says what happens to an item that names a workflow ID under which Temporal has a run that was not started for
// it.
type Policy string

const (
	// Reject fails the item. The empty Policy is Reject, too.
	Reject Policy = "reject"
	// Reuse starts the workflow if that run has closed, and otherwise fails the item.
	Reuse Policy = "reuse"
	// UseExisting lets the item follow that run to its end. It starts the workflow if the run has closed.
	UseExisting Policy = "use_existing"
)

// IsKnown reports whether the policy is one of these.
func (p Policy) IsKnown() bool { return p == Reject || p == Reuse || p == UseExisting }

// applyPolicy makes Temporal apply the policy to a request.
func applyPolicy(request *workflowservice.StartWorkflowExecutionRequest, start Start) error {
	if start.WorkflowID == "" {
		return nil
	}
	switch start.Policy {
	case Reject, "":
		return nil
	case Reuse:
	case UseExisting:
		request.WorkflowIdConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
		// A repeated request then finds the run again after it has closed.
		request.OnConflictOptions = &workflowpb.OnConflictOptions{AttachRequestId: true}
	default:
		return fmt.Errorf("the definition's workflow_id_policy is %q, which this replica does not know: upgrade it",
			start.Policy)
	}
	request.WorkflowIdReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	return nil
}

// existing returns the run that made Temporal reject a start, if it was started for the execution: a run that continued
// the first one has another request ID, and an answer may lack the ID. Otherwise the run is another's.
func (t *Client) existing(ctx context.Context, start Start) (string, error) {
	runID, found, err := t.current(ctx, start.Execution)
	if err == nil && !found && start.maybeSent() {
		runID, found, err = t.Find(ctx, start)
	}
	switch {
	case err != nil || found:
		return runID, err
	case runID == "": // it was deleted meanwhile, or it is not found for the moment
		return "", As(engine.Unanswered, fmt.Errorf(
			"%s %s exists according to Temporal, which does not find it; it is asked again", start.Kind, start.Workflow()))
	case start.WorkflowID == "":
		return "", As(engine.Permanent, fmt.Errorf("%w: %s", ErrForeign, start.Workflow()))
	case start.Policy == Reuse:
		return "", As(engine.Permanent, fmt.Errorf("%w: %q is that of run %s, which is open, and the definition's "+
			"workflow_id_policy is %s", ErrExists, start.WorkflowID, runID, start.Policy))
	}
	return "", As(engine.Permanent, fmt.Errorf("%w: %q is that of run %s, and the definition's workflow_id_policy is %s",
		ErrExists, start.WorkflowID, runID, Reject))
}

// Find looks for an item's workflow or activity without starting it. found is false if there is none, or only one that
// pgdispatch did not start for this execution.
func (t *Client) Find(ctx context.Context, start Start) (runID string, found bool, err error) {
	runID, found, err = t.current(ctx, start.Execution)
	if err != nil || found || runID == "" || start.WorkflowID == "" {
		return runID, found, err
	}
	// Other clients may have reused the ID since.
	own := t.ownWorkflow
	if start.Kind == Activity {
		own = t.ownActivity
	}
	for page := []byte(nil); ; {
		listed, next, err := own(ctx, start, page)
		switch {
		case err != nil:
			return "", false, fmt.Errorf("list runs of the %s: %w", start.Kind, err)
		case listed != "":
			return listed, true, nil
		case len(next) == 0:
			return runID, false, nil
		}
		page = next
	}
}

// ownWorkflow returns the execution's run on a page of those under its workflow ID, or "".
func (t *Client) ownWorkflow(ctx context.Context, start Start, page []byte) (runID string, next []byte, err error) {
	var response *workflowservice.ListWorkflowExecutionsResponse
	query := t.runsUnder(start.Execution)
	err = bounded(ctx, func(ctx context.Context) (err error) {
		response, err = t.Service.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.namespace(start.Namespace), PageSize: pageSize, NextPageToken: page, Query: query,
		})
		return err
	})
	for _, info := range response.GetExecutions() {
		if isOurs(info, start.ID) {
			return info.GetExecution().GetRunId(), nil, err
		}
	}
	return "", response.GetNextPageToken(), err
}

// ownActivity is ownWorkflow for an activity. Only a description tells whose one is, so those are passed over that are
// older than the first request.
func (t *Client) ownActivity(ctx context.Context, start Start, page []byte) (runID string, next []byte, err error) {
	var response *workflowservice.ListActivityExecutionsResponse
	query := t.runsUnder(start.Execution)
	err = bounded(ctx, func(ctx context.Context) (err error) {
		response, err = t.Service.ListActivityExecutions(ctx, &workflowservice.ListActivityExecutionsRequest{
			Namespace: t.namespace(start.Namespace), PageSize: pageSize, NextPageToken: page, Query: query,
		})
		return err
	})
	sent := time.Now().Add(-start.UnansweredFor - greatestMargin)
	for _, info := range response.GetExecutions() {
		if info.GetActivityId() != start.WorkflowID || info.GetScheduleTime().AsTime().Before(sent) {
			continue
		}
		listed := start.Execution
		listed.RunID = info.GetRunId()
		described, err := t.describeActivity(ctx, listed)
		var notFound *serviceerror.NotFound
		switch {
		case errors.As(err, &notFound):
		case err != nil:
			return "", nil, err
		case runOf(described.GetInfo(), start.ID).ours:
			return listed.RunID, nil, nil
		}
	}
	return "", response.GetNextPageToken(), err
}

// runsUnder returns a query for the runs under an execution's ID, and perhaps others: visibility compares a quote or a
// backslash as it is escaped, so it finds no ID that has one. In Postgres it takes a question mark for a parameter.
func (t *Client) runsUnder(execution Execution) string {
	attribute := "WorkflowId"
	if execution.Kind == Activity {
		attribute = "ActivityId"
	}
	plain, _, _ := strings.Cut(strings.NewReplacer(`"`, `'`, `\`, `'`, `?`, `'`).Replace(execution.WorkflowID), "'")
	switch {
	case plain == execution.WorkflowID:
		return attribute + " = '" + plain + "'"
	case plain == "" || t.noPrefix.Load():
		return ""
	}
	return attribute + " starts_with '" + plain + "'"
}

// current returns the newest run under the execution's ID, and whether it is the execution's. runID is empty if there
// is none.
func (t *Client) current(ctx context.Context, execution Execution) (runID string, found bool, err error) {
	newest, err := t.newest(ctx, execution)
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return "", false, nil
	}
	return newest.id, newest.ours, err
}
