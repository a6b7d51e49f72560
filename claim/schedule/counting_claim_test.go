package schedule

// count is claim_pick with claim_key_limits: for each workspace of a proposal, the slots held (by its receipt or by a
// count), and for each entry the slots granted.
func (x *explorer) count(m model, n int, proposal []modelEntry, sent bool) {
	r := &m.replicas[n]
	limits := m.limits
	if x.limitOld {
		limits = x.limits
	}
	r.phase, r.limits = 1, m.limits
	var seen [modelWorkspaces]bool
	var holders, used [modelWorkspaces]int
	items := x.keyed(&m, proposal, limits)
	for at, e := range proposal {
		workspace := e.queue % modelWorkspaces
		if !seen[workspace] {
			known := modelReceipt{}
			if sent {
				if known = r.known[workspace]; known.known == 0 {
					return // it has no receipt to send
				}
			}
			seen[workspace], holders[workspace] = true, x.held(&m, r, known, e, items[at], limits.workspaces[workspace])
		}
		granted := max(min(items[at], x.slots(limits, e)-holders[workspace]-used[workspace]), 0)
		if r.grants[e.queue] += byte(granted); e.burst && granted > 0 {
			r.limits.workspaces[workspace] = 0
			if m.limits.workspaces[workspace] > 0 {
				r.limits.workspaces[workspace] = max(m.limits.workspaces[workspace], m.limits.burst)
			}
		}
		if !x.notCumulative && (!e.burst || !x.burstApart) {
			used[workspace] += granted
		}
	}
	x.emit(m, false)
}

// held is how many items of an entry's workspace hold a slot, at most. A count gives a new receipt.
func (x *explorer) held(m *model, r *modelReplica, known modelReceipt, e modelEntry, items int, limit byte) int {
	workspace := e.queue % modelWorkspaces
	r.counted[workspace] = known
	bound, floor := int(known.held)+int(m.last)-int(known.to), known.floor
	// Without a receipt the last token is a bound, unless rows have higher tokens.
	if known.known == 0 && x.moved || known.to > m.last && !x.aboveLastUsed {
		floor = 0
	} else if !e.burst && bound+items < int(limit) {
		return bound
	}
	held, lowest := m.holders(workspace, floor)
	if held == 0 {
		lowest = m.last + 1
	} else if !x.floorNotCapped {
		lowest = min(lowest, m.last+1)
	}
	r.counted[workspace] = modelReceipt{1, lowest, held, m.last}
	return int(held)
}

// slots is how many items of an entry's workspace may hold a slot.
func (x *explorer) slots(limits modelLimits, e modelEntry) int {
	limit := limits.workspaces[e.queue%modelWorkspaces]
	switch {
	case e.burst && x.burstEndless:
		return unlimited
	case (e.burst || x.burstUnasked) && (limit > 0 || x.burstOfZero):
		return int(max(limit, limits.burst))
	}
	return int(limit)
}

// keyed is claim_key_limits: the items of a proposal's entries that the key allows.
func (x *explorer) keyed(m *model, proposal []modelEntry, limits modelLimits) (items [2]int) {
	for at, e := range proposal {
		items[at] = int(e.items)
	}
	for _, own := range []bool{true, false} {
		used := 0
		for at, e := range proposal {
			limit := limits.all
			if own {
				limit = limits.own
			}
			if e.queue < keyed || own && e.queue != keyed {
				continue
			}
			items[at] = max(min(items[at], int(limit)-x.keyHolders(m, e.queue, own || x.keyPerWorkspace)-used), 0)
			if !x.keyPerEntry {
				used += items[at]
			}
		}
	}
	return items
}

// keyHolders counts the holders of a slot that have the key, in a key queue or in all workspaces.
func (x *explorer) keyHolders(m *model, queue byte, own bool) (held int) {
	for n := range m.rows {
		r := &m.rows[n]
		counts := r.holds() && !r.ending() && (r.state != rowDoubt || !x.keyNoDoubts)
		if counts && r.queue >= keyed && (!own || r.queue == queue) {
			held++
		}
	}
	return held
}

// claimGoesOn takes what was granted, then commits or rolls back.
func (x *explorer) claimGoesOn(m model, n int) {
	r := &m.replicas[n]
	if r.phase == 2 {
		x.ends(m, n, true)
		if x.rollback && m.faults < x.faults {
			m.faults++
			x.ends(m, n, false)
		}
		return
	}
	for other := range m.replicas {
		if other != n && m.replicas[other].phase == 2 {
			return // the claim lock is taken
		}
	}
	if x.vain {
		o := m
		o.replicas[n].phase, o.replicas[n].grants = 2, [modelQueues]byte{}
		x.emit(o, false)
	}
	first, took := m.last+1, [modelQueues]bool{}
	for at := range m.rows {
		row := &m.rows[at]
		if row.open == nothingOpen && row.state == rowWaits && r.grants[row.queue] > 0 {
			if !x.oneToken || m.last < first {
				m.last++
			}
			row.open, row.next, took[row.queue] = openTake+byte(n), m.last, true
			r.grants[row.queue]--
		}
	}
	r.phase, r.grants = 2, [modelQueues]byte{}
	x.emit(m, m.broken(took, r.limits))
	for at := range m.rows { // it may also take an unanswered start, which already holds its slot
		if row := &m.rows[at]; row.open == nothingOpen && row.state == rowDoubt {
			was := m
			m.last++
			row.open, row.next = openTake+byte(n), m.last
			x.emit(m, false)
			m = was
		}
	}
}

// broken reports whether more items hold a slot than a claim that took items of these key queues was allowed.
func (m *model) broken(took [modelQueues]bool, limits modelLimits) bool {
	var hold [modelQueues]byte
	for n := range m.rows {
		if r := &m.rows[n]; (r.holds() || r.open >= openTake) && !r.ending() {
			hold[r.queue]++
		}
	}
	for workspace, limit := range limits.workspaces {
		if (took[workspace] || took[workspace+keyed]) && hold[workspace]+hold[workspace+keyed] > limit {
			return true
		}
	}
	return took[keyed] && hold[keyed] > limits.own ||
		(took[keyed] || took[keyed+1]) && hold[keyed]+hold[keyed+1] > limits.all
}

// ends commits a claim or rolls it back. A commit that wrote something flushes all commits before it.
func (x *explorer) ends(m model, n int, commits bool) {
	r := &m.replicas[n]
	wrote := false
	for at := range m.rows {
		row := &m.rows[at]
		if row.open != openTake+byte(n) {
			continue
		}
		wrote = true
		switch {
		case !commits:
		case row.ending():
			row.state = rowEnded
		default:
			row.state, row.token = rowClaimed, row.next
		}
		row.open, row.next = nothingOpen, 0
	}
	for at := range m.rows {
		if row := &m.rows[at]; commits && wrote && row.state == rowForgettable {
			row.state = rowEnded
		}
	}
	if commits || x.rolledBackTold {
		r.told = r.counted
	}
	r.phase, r.counted, r.limits = 0, [modelWorkspaces]modelReceipt{}, modelLimits{}
	x.emit(m, false)
}
