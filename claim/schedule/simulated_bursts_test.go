package schedule

import (
	"fmt"
	"slices"
)

// The limits and burst limits of the simulated Postgres' workspaces.

// burstLimit is sql/claim/claim.sql.
func (p *simPostgres) burstLimit(workspace WorkspaceID) int {
	if limit := p.limits[workspace[0]]; limit > 0 {
		return max(limit, p.bursts[workspace[0]])
	}
	return 0
}

// limitWorkspace changes the limits of a workspace, or those of its plan.
func (m *simulation) limitWorkspace(workspace, limit, burst int) {
	m.limits[workspace], m.bursts[workspace] = limit, burst
	tx := m.begin(false)
	if tx.mark(Change{Workspace: WorkspaceID{byte(workspace)}}); m.r.IntN(2) == 0 {
		tx.marks[0].all = true
	}
	m.close(tx, true)
}

// lie makes a replica believe something wrong of a workspace or of a limit key.
func (m *simulation) lie(r *simReplica) {
	l := r.s.workspaces[WorkspaceID{byte(m.r.IntN(len(m.limits)))}]
	if l == nil || m.r.IntN(2) == 0 {
		m.lieOfKey(r)
		return
	}
	r.s.reopen(l)
	for _, v := range l.levels {
		r.s.takeOut(v)
	}
	l.held, l.limit, l.burstLimit, l.closed = m.r.IntN(6), m.r.IntN(4), int32(m.r.IntN(6)), m.r.IntN(2) == 0
	for _, v := range l.levels {
		r.s.place(v)
	}
	m.say("%d is wrong about %d", r.name, l.id[0])
}

// checkBursts checks that the workspaces which a replica takes for bursting ask for a burst, last, and no others do.
func (m *simulation) checkBursts(r *simReplica, q Proposal) {
	last := false
	for _, e := range q.Entries {
		if last = last || e.Burst; e.Burst != last || e.Burst != r.s.workspaces[e.Workspace].bursts() {
			m.broken = fmt.Sprintf("%d asks for the wrong bursts: %+v", r.name, q.Entries)
		}
	}
}

// checkWorkspaces checks each item that a claim gives, in the claim's order, against the limit of its workspace or, if
// its entry bursts, against the burst limit.
func (m *simulation) checkWorkspaces(q Proposal, taken []*simRow) {
	held := m.held()
	for _, row := range taken {
		if m.rows[row.id].holds() {
			continue // an unanswered start, which has its slot
		}
		e := q.Entries[slices.IndexFunc(q.Entries, func(e Entry) bool {
			return e.Workspace == row.workspace && e.Priority == row.priority && e.Key == row.key
		})]
		limit := m.limits[row.workspace[0]]
		if held[row.workspace]++; held[row.workspace] > limit {
			m.beyond++
		}
		if limit == 0 || held[row.workspace] > limit && (!e.Burst || held[row.workspace] > m.burstLimit(row.workspace)) {
			m.broken = fmt.Sprintf("workspace %d has %d of %d to %d, burst %t", row.workspace[0], held[row.workspace], limit,
				m.burstLimit(row.workspace), e.Burst)
		}
	}
}

// startable counts the items that could start if nothing ended: their workspaces and keys have room.
func (m *simulation) startable() (n int) {
	held := m.held()
	for _, row := range m.rows {
		if row.locked || row.status == rowWaits && held[row.workspace] < m.burstLimit(row.workspace) &&
			!m.keyFull(scope{row.workspace, row.key}) && !m.keyFull(scope{everywhere, row.key}) {
			n++
		}
	}
	return n
}

// held counts the items of each workspace that hold a slot.
func (m *simulation) held() map[WorkspaceID]int {
	held := map[WorkspaceID]int{}
	for _, row := range m.rows {
		if row.holds() {
			held[row.workspace]++
		}
	}
	return held
}

// fills runs until everything has started that can, though nothing ends.
func (m *simulation) fills() string {
	m.stays = true
	defer func() { m.stays = false }()
	for steps := range 20_000 {
		if steps%10 == 0 && m.startable() == 0 {
			return ""
		}
		if m.step(); m.broken != "" {
			return m.broken
		}
	}
	return fmt.Sprintf("%d items have not started", m.startable())
}

// skips reports whether an item is parked.
func (p *simPostgres) skips(r *simRow) bool { return p.parked[r.id].After(p.now) }

// lets reports whether a claim may take another item of a row's lane, and counts it.
func (p *simPostgres) lets(allowed map[string]int, r *simRow) bool {
	if allowed == nil {
		return true
	}
	lane := p.laneOf(r.workspace)
	left, limited := allowed[lane]
	if limited && left == 0 {
		return false
	}
	if limited {
		allowed[lane]--
	}
	return true
}
