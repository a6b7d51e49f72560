package dispatch

import (
	"context"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// TemporalStarter starts the workflows of items.
type TemporalStarter struct{ Client *temporal.Client }

// Start implements Starter.
func (s *TemporalStarter) Start(ctx context.Context, item claim.Item) (string, error) {
	return s.Client.Start(ctx, requestOf(item))
}

func requestOf(item claim.Item) temporal.Start {
	return temporal.Start{
		ExecutionID: item.ExecutionID, Namespace: item.Namespace,
		WorkflowType: item.WorkflowType, TaskQueue: item.TaskQueue, ExecutionTimeout: item.ExecutionTimeout,
		Traceparent: item.Traceparent,
		QueueItemID: item.ID, WorkspaceID: item.WorkspaceID,
		WorkflowDefinitionID: item.WorkflowDefinitionID, WorkflowDefinitionVersionID: item.WorkflowDefinitionVersionID,
		NodeIDs: item.NodeIDs, Params: item.Params, Options: item.StartOptions,
		UnansweredFor: item.UnansweredFor,
	}
}

// Find implements Starter.
func (s *TemporalStarter) Find(ctx context.Context, item claim.Item) (runID string, found bool, err error) {
	return s.Client.Find(ctx, temporal.Execution{ID: item.ExecutionID, Namespace: item.Namespace})
}
