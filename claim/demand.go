package claim

import (
	"maps"
	"sync"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// demand are the workspaces that are at their limit while items wait, as far as this replica knows. Its mutex is never
// held during a statement, so a reader need not wait for a claim.
type demand struct {
	mu         sync.Mutex
	workspaces map[string]bool
}

// AwaitsSlot reports whether items wait for a slot of a workspace that is at its limit, as far as this replica knows.
func (s *Store) AwaitsSlot(workspaceID string) bool {
	s.demand.mu.Lock()
	defer s.demand.mu.Unlock()
	return s.demand.workspaces[workspaceID]
}

// note records what a claim has found.
func (d *demand) note(batch *Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.workspaces == nil {
		d.workspaces = map[string]bool{}
	}
	for _, item := range batch.Items {
		if item.Awaited {
			d.workspaces[item.WorkspaceID] = true
		} else {
			delete(d.workspaces, item.WorkspaceID)
		}
	}
	for _, full := range batch.AtCapacity {
		d.workspaces[full.WorkspaceID] = true
	}
}

// forget forgets workspaces for which nothing waits any more, because it was cancelled or other replicas claimed it.
func (d *demand) forget(all *schedule.Schedule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.workspaces, func(id string, _ bool) bool {
		return !all.Awaited(schedule.WorkspaceID(uuid.MustParse(id)), "")
	})
}
