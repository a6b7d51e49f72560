package schedule

// count is claim_grants: for each lane of a proposal, the slots held (by its receipt or by a count) and the slots
// granted.
func (x *explorer) count(m model, n int, proposal []byte, sent bool) {
	r := &m.replicas[n]
	r.phase, r.limits, r.grants = 1, m.limits, [modelLanes]byte{}
	asked, entries := [2 * modelLanes]byte{}, []byte{}
	for _, e := range proposal {
		if asked[e] == 0 {
			entries = append(entries, e)
		}
		asked[e]++
	}
	var holders [modelLanes]int
	for _, e := range entries {
		lane, known := e%modelLanes, modelReceipt{}
		if sent {
			if known = r.known[lane]; known.known == 0 {
				return // it has no receipt to send
			}
		}
		limit := m.limits[lane]
		if x.limitOld {
			limit = x.limits[lane]
		}
		bound := int(known.held) + int(m.last) - int(known.to)
		if e < modelLanes {
			r.counted[lane] = known
			// Without a receipt the last token is a bound, unless rows have higher tokens.
			none := known.known == 0 && x.moved
			if holders[lane] = bound; none || known.to > m.last && !x.aboveLastUsed || bound+int(asked[e]) > int(limit) {
				floor := known.floor
				held, lowest := m.holders(lane, floor)
				if holders[lane] = int(held); held == 0 {
					lowest = m.last + 1
				} else if !x.floorNotCapped {
					lowest = min(lowest, m.last+1)
				}
				r.counted[lane] = modelReceipt{1, lowest, held, m.last}
			}
		}
		used := int(r.grants[lane])
		if x.notCumulative {
			used = 0
		}
		r.grants[lane] += byte(max(min(int(asked[e]), int(limit)-holders[lane]-used), 0))
	}
	x.emit(m, false)
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
	first, took := m.last+1, [modelLanes]bool{}
	for at := range m.rows {
		row := &m.rows[at]
		if row.open == nothingOpen && row.state == rowWaits && r.grants[row.lane] > 0 {
			if !x.oneToken || m.last < first {
				m.last++
			}
			row.open, row.next, took[row.lane] = openTake+byte(n), m.last, true
			r.grants[row.lane]--
		}
	}
	r.phase, r.grants = 2, [modelLanes]byte{}
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

// broken reports whether a lane that was just granted slots has more holders than its limit.
func (m *model) broken(took [modelLanes]bool, limits [modelLanes]byte) bool {
	var hold [modelLanes]byte
	for _, r := range m.rows {
		if (r.holds() || r.open >= openTake) && !r.ending() {
			hold[r.lane]++
		}
	}
	return took[0] && hold[0] > limits[0] || took[1] && hold[1] > limits[1]
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
	r.phase, r.counted, r.limits = 0, [modelLanes]modelReceipt{}, [modelLanes]byte{}
	x.emit(m, false)
}
