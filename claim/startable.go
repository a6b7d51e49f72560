package claim

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// startable sets the items' Startable. An unanswered start holds its slot, so it has been startable since it was due.
func (a *claimAnswer) startable(p schedule.Proposal) {
	type key struct {
		workspace schedule.WorkspaceID
		priority  int
	}
	from := map[key]time.Time{}
	for _, e := range p.Entries {
		from[key{e.Workspace, e.Priority}] = e.Startable
	}
	for n := range a.items {
		item := &a.items[n]
		item.Startable = item.Waited
		if since := from[key{a.workspaces[n], item.Priority}]; !since.IsZero() && !item.Unanswered {
			item.Startable = min(item.Waited, max(a.standing.At.Sub(since), 0))
		}
	}
}
