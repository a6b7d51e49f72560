package schedule

import (
	"fmt"
	"slices"
)

// The limits and burst limits of the simulated Postgres' lanes.

// burstLimit is sql/functions/burst_limit.sql.
func (p *simPostgres) burstLimit(lane Lane) int {
	if limit := p.limits[lane[0]]; limit > 0 {
		return max(limit, p.bursts[lane[0]])
	}
	return 0
}

// limitLane changes the limits of a lane, or those of its plan.
func (m *simulation) limitLane(lane, limit, burst int) {
	m.limits[lane], m.bursts[lane] = limit, burst
	tx := m.begin(false)
	if tx.mark(Change{Lane: Lane{byte(lane)}}); m.r.IntN(2) == 0 {
		tx.marks[0].all = true
	}
	m.close(tx, true)
}

// lie makes a replica believe something wrong of a lane or of a limit key.
func (m *simulation) lie(r *simReplica) {
	l := r.s.lanes[Lane{byte(m.r.IntN(len(m.limits)))}]
	if l == nil || m.r.IntN(2) == 0 {
		m.lieOfKey(r)
		return
	}
	r.s.reopen(l)
	for _, v := range l.levels {
		r.s.takeOut(v)
	}
	l.held, l.limit, l.most, l.closed = m.r.IntN(6), m.r.IntN(4), int32(m.r.IntN(6)), m.r.IntN(2) == 0
	for _, v := range l.levels {
		r.s.place(v)
	}
	m.say("%d is wrong about %d", r.name, l.id[0])
}

// checkBursts checks that the lanes which a replica takes for bursting ask for a burst, last, and no others do.
func (m *simulation) checkBursts(r *simReplica, q Proposal) {
	last := false
	for _, e := range q.Entries {
		if last = last || e.Burst; e.Burst != last || e.Burst != r.s.lanes[e.Lane].bursts() {
			m.broken = fmt.Sprintf("%d asks for the wrong bursts: %+v", r.name, q.Entries)
		}
	}
}

// checkLanes checks each item that a claim gives, in the claim's order, against the limit of its lane or, if its entry
// bursts, against the burst limit.
func (m *simulation) checkLanes(q Proposal, taken []*simRow) {
	held := m.held()
	for _, row := range taken {
		if m.rows[row.id].holds() {
			continue // an unanswered start, which has its slot
		}
		e := q.Entries[slices.IndexFunc(q.Entries, func(e Entry) bool {
			return e.Lane == row.lane && e.Priority == row.priority && e.Key == row.key
		})]
		limit := m.limits[row.lane[0]]
		if held[row.lane]++; held[row.lane] > limit {
			m.beyond++
		}
		if limit == 0 || held[row.lane] > limit && (!e.Burst || held[row.lane] > m.burstLimit(row.lane)) {
			m.broken = fmt.Sprintf("lane %d has %d of %d to %d, burst %t", row.lane[0], held[row.lane], limit,
				m.burstLimit(row.lane), e.Burst)
		}
	}
}

// startable counts the items that could start if nothing ended: their lanes and keys have room.
func (m *simulation) startable() (n int) {
	held := m.held()
	for _, row := range m.rows {
		if row.locked || row.status == rowWaits && held[row.lane] < m.burstLimit(row.lane) &&
			!m.keyFull(scope{row.lane, row.key}) && !m.keyFull(scope{everywhere, row.key}) {
			n++
		}
	}
	return n
}

// held counts the items of each lane that hold a slot.
func (m *simulation) held() map[Lane]int {
	held := map[Lane]int{}
	for _, row := range m.rows {
		if row.holds() {
			held[row.lane]++
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
