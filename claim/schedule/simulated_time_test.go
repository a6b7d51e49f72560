package schedule

import (
	"fmt"
	"slices"
	"time"
)

// passes lets time pass between a claim's clock and its snapshot, which may see an item that was not due at that time.
func (m *simulation) passes() {
	m.now = m.now.Add(time.Duration(m.r.IntN(20)) * time.Millisecond)
	if m.rare(3) {
		row := m.insert(m.begin(true), WorkspaceID{byte(m.r.IntN(len(m.limits)))}, m.someKey(), m.r.IntN(3), m.now)
		m.commits(m.open[len(m.open)-1])
		m.now = row.due.Add(time.Millisecond)
	}
}

// checkSkipped checks that a claim makes no workspace wait for a lock: no waiting row is ever locked here.
func (m *simulation) checkSkipped(r *simReplica, w *simAnswer) {
	for _, e := range w.proposal.Entries {
		skipped := func(v *level) bool { return v.not.After(w.answer.At) }
		if l := r.s.workspaces[e.Workspace]; l != nil && slices.ContainsFunc(l.levels, skipped) {
			m.broken = fmt.Sprintf("workspace %d is skipped, as if a row were locked", e.Workspace[0])
		}
	}
}
