package operate

import (
	"context"
	"fmt"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// WorkspacesNamed returns up to atMost workspaces that have one of these IDs or names, by name.
func (s *Store) WorkspacesNamed(ctx context.Context, ids, names []string, atMost int) ([]WorkspaceName, error) {
	return postgres.Read[WorkspaceName](ctx, s.DB, "find workspaces", sql.Text("workspace_named"), ids, names, atMost)
}

// OverviewOf returns the overview of these workspaces only. What cannot be told apart by workspace is left out: the
// minutes, the task queues, the notification queue, and of the replicas all but what holds back starts. Counts stop at
// 10,000.
func (s *Store) OverviewOf(ctx context.Context, workspaces []string) (o Overview, err error) {
	depths, err := postgres.Read[Depth](ctx, s.DB, "read queue depth", sql.Text("view_depth"), workspaces, depthLimit)
	if err == nil && len(depths) != 1 {
		err = fmt.Errorf("read queue depth: pgdispatch.settings has %d rows, it must have one", len(depths))
	}
	if err != nil {
		return o, err
	}
	o.Depth = depths[0]
	replicas, err := s.Replicas(ctx)
	if err != nil {
		return o, err
	}
	for _, r := range replicas {
		o.Replicas = append(o.Replicas, Replica{State: ReplicaState{BreakerOpen: r.State.BreakerOpen,
			BreakerSince: r.State.BreakerSince, Listening: r.State.Listening}})
	}
	o.Stalled, err = s.Stalled(ctx, workspaces, mostStalled)
	return o, err
}

// ListWorkspacesOf is ListWorkspaces of these workspaces only. It looks at each of them.
func (s *Store) ListWorkspacesOf(ctx context.Context, workspaces []string, search string, by WorkspaceOrder,
	after *WorkspaceKey, atMost int) ([]WorkspaceRow, error) {
	var rank *float64
	var name, id *string
	if after != nil {
		rank, name, id = &after.Rank, &after.Name, &after.ID
	}
	return postgres.Read[WorkspaceRow](ctx, s.DB, "list workspaces", sql.Text("view_workspaces_of"), workspaces,
		postgres.OrNull(search), string(by), rank, name, id, atMost, countLimit, depthLimit)
}
