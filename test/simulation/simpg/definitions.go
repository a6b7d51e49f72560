package simpg

import "github.com/pgdispatch/pgdispatch/claim/schedule"

// The definitions of the simulated Postgres: each workspace has one, whose graph changes.

// Graph is the newest version of a workspace's definition.
type Graph struct {
	Revision int64 // the transaction that wrote it, whose ID may be used again after a crash
	Nodes    int   // names its nodes, which differ at every change
}

// graphTable are the definitions by workspace.
type graphTable struct {
	newest  map[schedule.WorkspaceID]Graph
	nodes   int
	replace map[int]int                    // at which step a graph was replaced or lost
	lost    map[schedule.WorkspaceID]int64 // revisions that the last crash has lost
}

// ChangeGraph changes the definition of a workspace. A crash may undo it.
func (s *Postgres) ChangeGraph(tx *Tx, workspace int) {
	id, of := schedule.WorkspaceID{byte(workspace + 1)}, &s.graphs
	of.nodes++
	next := Graph{tx.xid, of.nodes}
	if s.Lies == "revisions stay" {
		next.Revision = 0
	}
	tx.commits = func() {
		was := s.Graph(id)
		of.newest[id], of.replace[was.Nodes] = next, s.steps
		tx.undo = func() {
			of.newest[id], of.replace[next.Nodes], of.lost[id] = was, s.steps, next.Revision
			delete(of.replace, was.Nodes)
		}
	}
}

// ChangeLostGraph changes a definition whose last change the crash before has lost, in a transaction of the same ID.
func (s *Postgres) ChangeLostGraph() {
	for workspace := range s.Workspaces() {
		if revision := s.graphs.lost[schedule.WorkspaceID{byte(workspace + 1)}]; revision > s.next {
			s.next = revision - 1 // others were rolled back
			tx := s.begin(true)
			s.ChangeGraph(tx, workspace)
			s.close(tx, true)
			break
		}
	}
	clear(s.graphs.lost)
}

// Graph is the newest version of a workspace's definition.
func (s *Postgres) Graph(id schedule.WorkspaceID) Graph {
	if graph, changed := s.graphs.newest[id]; changed {
		return graph
	}
	return Graph{0, -int(id[0])}
}

// IsOutdated reports whether a graph was no longer the newest of a definition at an item's claim, if that is its last.
func (s *Postgres) IsOutdated(nodes int, item, token int64) bool {
	at, replaced := s.graphs.replace[nodes]
	return replaced && s.rows[item].token == token && at < s.rows[item].claimedAt
}
