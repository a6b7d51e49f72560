package replica

import (
	"context"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// starter is a dispatch.Starter that starts workflows in Temporal.
type starter struct{ client *temporal.Client }

func (s starter) Start(ctx context.Context, item claim.Item) (string, engine.Outcome, error) {
	runID, err := s.client.Start(ctx, requestOf(item))
	return runID, temporal.Classify(err), err
}

func requestOf(item claim.Item) temporal.Start {
	return temporal.Start{
		Execution: item.Execution(), Policy: item.Policy,
		WorkflowType: item.WorkflowType, TaskQueue: item.TaskQueue, ExecutionTimeout: item.ExecutionTimeout,
		Traceparent: item.Traceparent,
		QueueItemID: item.ID, WorkspaceID: item.WorkspaceID,
		WorkflowDefinitionID: item.WorkflowDefinitionID, WorkflowDefinitionVersionID: item.WorkflowDefinitionVersionID,
		NodeIDs: item.NodeIDs, Params: item.Params, Input: item.Input, Options: item.StartOptions,
		Unanswered: item.MaybeSent(), UnansweredFor: item.UnansweredFor,
	}
}

func (s starter) Find(ctx context.Context, item claim.Item) (string, engine.Outcome, error) {
	runID, found, err := s.client.Find(ctx, requestOf(item))
	outcome := temporal.Classify(err)
	if err == nil && !found {
		outcome = engine.NotSent
	}
	return runID, outcome, err
}

func (s starter) Remedy(err error, namespace string) string { return temporal.Remedy(err, namespace) }
