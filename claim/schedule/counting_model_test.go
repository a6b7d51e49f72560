package schedule

import "slices"

// This model covers only the claim's counting, as in sql/claim/claim.sql and claim_key_limits.sql. Replicas
// may propose anything, with or without the receipts they were given; every event can happen, in every order.

const (
	modelItems      = 4
	modelWorkspaces = 2
	modelReplicas   = 2
	undrawn         = 15 // a token that is never drawn
	unlimited       = modelItems
)

// A key queue is a workspace, and whether its items have the limit key.
const (
	keyed       = modelWorkspaces
	modelQueues = 2 * modelWorkspaces
)

// States of a row.
const (
	rowWaits byte = iota
	rowClaimed
	rowDispatched
	rowDoubt
	rowEnded
	rowForgettable // ended, by a commit that is not on disk yet
)

// Open changes of a row.
const (
	nothingOpen byte = iota
	openRequeue
	openTake // the replica whose claim it is
)

// modelRow is an item of a key queue. next is its token after the open change commits.
type modelRow struct{ queue, state, token, open, next byte }

// modelLimits are limits: of workspaces, of workspace 0 in a burst, and of the key in workspace 0 and over all
// workspaces.
type modelLimits struct {
	workspaces      [modelWorkspaces]byte
	burst, own, all byte
}

// modelEntry asks for items of a key queue.
type modelEntry struct {
	queue, items byte
	burst        bool
}

// modelReceipt is a receipt; it exists if known is not 0.
type modelReceipt struct{ known, floor, held, to byte }

// modelReplica is a replica's knowledge, the answer it has yet to receive, and its open claim.
type modelReplica struct {
	known, told, counted [modelWorkspaces]modelReceipt
	phase                byte // 0: no claim; 1: counted; 2: taken
	grants               [modelQueues]byte
	limits               modelLimits // what the claim must keep to
}

// model is a state of Postgres and its replicas.
type model struct {
	rows         [modelItems]modelRow
	limits       modelLimits
	last         byte
	faults, edit byte
	replicas     [modelReplicas]modelReplica
}

// rules are the rules of the protocol that can be switched off, one each.
type rules struct {
	tokenFalls      bool // a requeue resets the token to zero
	epochIgnored    bool // receipts survive a crash
	rolledBackTold  bool // the answer of a claim that was rolled back is used
	notCumulative   bool // each entry is granted independently
	aboveLastUsed   bool // a receipt for tokens that were not drawn is used
	floorNotCapped  bool // a floor may be above the next token
	countedEarly    bool // counting does not wait for the lock
	oneToken        bool // all items of a claim get the same token
	loadTold        bool // a load without the lock yields a receipt
	limitOld        bool // the limits are not read again
	keyPerEntry     bool // each entry gets the whole room of its key
	keyPerWorkspace bool // the key's limit over all workspaces is counted in each
	keyNoDoubts     bool // unanswered starts do not count for the key
	burstUnasked    bool // each entry may go up to the burst limit
	burstEndless    bool // an entry that bursts gets what it asks for
	burstOfZero     bool // a workspace with limit 0 may burst
	burstApart      bool // entries that burst are granted beside the others
}

// setting bounds the events of a run.
type setting struct {
	name     string
	queues   []byte // of the items
	limits   modelLimits
	faults   byte // maximum number of faults
	edits    byte // maximum number of changes of a limit
	edited   func(*modelLimits) *byte
	requeue  bool // leases expire
	rollback bool // claims and requeues roll back
	crash    bool
	moved    bool // the database is copied without its sequence and gets a new epoch
	lie      bool // a receipt covers tokens that were not drawn
	solo     bool // one replica only
	kill     bool
	twice    bool // proposals name a key queue twice
	release  bool
	vain     bool // a claim may find none of its items
	ownEnd   bool // a claim's transaction first ends an item, as a settle does for W
}

func (r *modelRow) workspace() byte { return r.queue % modelWorkspaces }

func (r *modelRow) holds() bool {
	return r.state == rowClaimed || r.state == rowDispatched || r.state == rowDoubt
}

// ending: the open claim has ended it.
func (r *modelRow) ending() bool { return r.state == rowDispatched && r.open >= openTake }

// explorer emits the successors of a state.
type explorer struct {
	setting
	rules
	asks [][]modelEntry // the possible proposals
	emit func(next model, broken bool)
}

func (x *explorer) next(m model) {
	for n := range m.rows {
		x.row(m, n)
	}
	if m.edit < x.edits {
		for limit := range byte(3) {
			if o := m; limit != *x.edited(&o.limits) {
				*x.edited(&o.limits), o.edit = limit, o.edit+1
				x.emit(o, false)
			}
		}
	}
	for r := range m.replicas {
		if r == 0 || !x.solo {
			x.replica(m, r)
		}
	}
	if m.faults == x.faults {
		return
	}
	m.faults++
	if x.crash {
		x.crashes(m)
	}
	if x.moved && !m.busy() {
		m.last, m.replicas = 0, [modelReplicas]modelReplica{}
		x.emit(m, false)
	}
}

// busy reports whether a claim or a requeue is open.
func (m *model) busy() bool {
	return slices.ContainsFunc(m.rows[:], func(r modelRow) bool { return r.open != nothingOpen }) ||
		slices.ContainsFunc(m.replicas[:], func(r modelReplica) bool { return r.phase > 0 })
}

// row emits the changes of an item that need no claim.
func (x *explorer) row(m model, n int) {
	r := &m.rows[n]
	was := *r
	become := func(next modelRow) {
		*r = next
		x.emit(m, false)
		*r = was
	}
	with := func(state byte) modelRow { return modelRow{queue: was.queue, state: state, token: was.token} }
	switch {
	case was.open == openRequeue:
		next := with(rowDoubt)
		if next.token = was.next; x.tokenFalls {
			next.token = 0
		}
		become(next)
		if x.rollback {
			become(with(rowClaimed))
		}
	case was.open != nothingOpen:
	case was.state == rowClaimed:
		become(with(rowDispatched))
		if m.faults == x.faults {
			break
		}
		m.faults++
		if x.release {
			become(with(rowWaits))
		}
		if x.requeue {
			m.last++
			become(modelRow{queue: was.queue, state: rowClaimed, token: was.token, open: openRequeue, next: m.last})
		}
	case was.state == rowDispatched && x.crash:
		become(with(rowForgettable))
	case was.state == rowDispatched:
		become(with(rowEnded))
	}
}

// crashes drops ends that are not on disk and all open work. The sequence may fall back to the highest token known.
func (x *explorer) crashes(m model) {
	var top byte
	for n := range m.rows {
		r := &m.rows[n]
		if r.state == rowForgettable {
			r.state = rowDispatched
		}
		r.open, r.next = nothingOpen, 0
		top = max(top, r.token)
	}
	for n := range m.replicas {
		known := m.replicas[n].known
		if m.replicas[n] = (modelReplica{}); x.epochIgnored {
			m.replicas[n].known = known
		}
	}
	x.emit(m, false)
	if m.last != top {
		m.last = top
		x.emit(m, false)
	}
}

// replica emits the possible steps of a replica.
func (x *explorer) replica(m model, n int) {
	r := &m.replicas[n]
	was := *r
	if r.told != [modelWorkspaces]modelReceipt{} {
		r.told = [modelWorkspaces]modelReceipt{}
		x.emit(m, false) // the answer is lost
		for workspace, told := range was.told {
			if told.known == 0 {
				continue
			}
			r.known[workspace] = told
		}
		x.emit(m, false)
		*r = was
	}
	if was.phase > 0 {
		x.claimGoesOn(m, n)
		return
	}
	if x.loadTold {
		x.load(m, n)
	}
	if x.kill && m.faults < x.faults && was != (modelReplica{}) {
		m.faults++
		*r = modelReplica{}
		x.emit(m, false)
		*r = was
		m.faults--
	}
	if x.lie && m.faults < x.faults && was.known[0].known != 0 {
		m.faults++
		r.known[0].to = undrawn
		x.emit(m, false)
		*r = was
		m.faults--
	}
	if m.claims() >= 0 && !x.countedEarly {
		return
	}
	for _, asked := range x.asks {
		for _, sent := range []bool{false, true} {
			x.count(m, n, asked, sent)
			for at := range m.rows {
				if row := &m.rows[at]; x.ownEnd && row.open == nothingOpen && row.state == rowDispatched {
					row.open = openTake + byte(n)
					x.count(m, n, asked, sent)
					row.open = nothingOpen
				}
			}
		}
	}
}

// proposals returns what replicas may ask for: one or two items of a key queue, or these and an item of another entry.
func (s setting) proposals() (all [][]modelEntry) {
	var one []modelEntry
	for queue := range byte(modelQueues) {
		for items := range byte(2) {
			if slices.Contains(s.queues, queue) {
				one = append(one, modelEntry{queue, items + 1, false})
			}
			if slices.Contains(s.queues, queue) && queue%modelWorkspaces == 0 && s.limits.burst > 0 {
				one = append(one, modelEntry{queue, items + 1, true})
			}
		}
	}
	for _, a := range one {
		all = append(all, []modelEntry{a})
		for _, b := range one {
			if b.items == 1 && (a.queue < b.queue || a.queue == b.queue && (s.twice || a.burst != b.burst)) {
				all = append(all, []modelEntry{a, b})
			}
		}
	}
	return all
}

// claims is the replica that holds the lock, or negative.
func (m *model) claims() int {
	return slices.IndexFunc(m.replicas[:], func(r modelReplica) bool { return r.phase > 0 })
}

// load reads without the lock: it sees rows of an uncommitted claim in their previous state.
func (x *explorer) load(m model, n int) {
	for workspace := range byte(modelWorkspaces) {
		held, lowest := m.holders(workspace, 0)
		if held == 0 {
			lowest = m.last + 1
		}
		m.replicas[n].known[workspace] = modelReceipt{1, lowest, held, m.last}
	}
	x.emit(m, false)
}

// holders counts the holders of a slot with at least the given token.
func (m *model) holders(workspace, floor byte) (held, lowest byte) {
	for n := range m.rows {
		r := &m.rows[n]
		if r.workspace() == workspace && r.holds() && !r.ending() && r.token >= floor {
			held++
			if lowest == 0 || r.token < lowest {
				lowest = r.token
			}
		}
	}
	return held, lowest
}
