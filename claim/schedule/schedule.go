// Package schedule is a replica's in-memory view of waiting items. It decides which workspace is served next.
//
//	workspace            limit, burst limit, holders, receipt
//	└─ level             one per priority at which items wait
//	   └─ key queue      the items of one limit key, or those without one: its first position and at most how many
//
// A level of a workspace that is not full is in one or more heaps, from which Propose takes it:
//
//	ready[priority]      the workspaces' turns; proven: those of workspaces that got an item when last asked for
//	oldest               the same levels, by the age of their first item: one start in ten
//	bursting             levels of workspaces at their limit but below their burst limit: only after all others
//	later                what must not be asked for yet, by the time from which it may be
//
// Within a level, ripe and unripe are the heaps of its key queues: those that may be asked for, and those that may not.
//
// It proposes and Postgres grants: a wrong schedule costs a round trip or a short delay, never a limit or an item. It
// stores nothing per waiting item. docs/limits.md defines the order.
//
// The package is pure: no SQL, no clock, no goroutine, no log. All times are the database's.
package schedule

import (
	"bytes"
	"math"
	"slices"
	"time"
)

const (
	// lowest and highest are the bounds of priorities.
	lowest, highest = -100, 100
	// turn is how many items a workspace may get before the next workspace is served, if more items wait than workers
	// are free.
	turn = 4
	// agedShare is the share of age: one in agedShare starts is decided by it.
	agedShare = 10
	// passedOverFor is how long a level is skipped if the namespaces of its next items accept no workflows.
	passedOverFor = 3 * time.Second
	// lockedFor is how long a level is skipped if another transaction has locked its next item.
	lockedFor = 100 * time.Millisecond
	// costly is the number of counted holders above which the count is not repeated at once. rest is the wait per
	// holder.
	costly = 1000
	rest   = 2 * time.Microsecond
	// looks is the minimum number of items to ask for while namespaces are limited, so that items of other namespaces
	// are found.
	looks = 30
	// countAgain is how long old leases are assumed to be held before they are counted again.
	countAgain = time.Second
	// mostNumbers is how many workspaces are kept by number. For other workspaces, a notification only means that the
	// table must be looked at.
	mostNumbers = 100_000
	// unknownLimit is the limit of a workspace before a claim has reported it.
	unknownLimit = math.MaxInt32
)

// Schedule is the in-memory view. The zero value is empty and ready to use. It is not safe for concurrent use.
type Schedule struct {
	// Aging is how long an item must have been due before its age decides.
	Aging time.Duration

	workspaces          map[WorkspaceID]*workspace
	keys                map[string]*key              // limit keys of waiting items, over all workspaces
	rated               map[WorkspaceID]bool         // workspaces that had a rate of starts when they were last asked for
	numbers             map[int64]WorkspaceID        // by number in notifications; also of workspaces where nothing waits
	ready               [highest - lowest + 1]levels // by turn, one per priority
	oldest              levels                       // the same levels by age
	bursting            levels                       // levels of workspaces in a burst: asked for after all others
	proven              levels                       // the ready levels of workspaces that got an item when last asked for
	later               levels                       // levels with something that must not be asked for yet
	served              int64                        // the last turn given
	applied             int64                        // the last turn given before the answer that is being applied
	owed                int                          // starts since age last decided
	full                []*workspace                 // workspaces to report
	leased              Receipt
	countedAt           time.Time // when all leases were last counted
	epoch               Epoch
	paused              bool
	clock               time.Time // of the last Tell
	heldBack            time.Time // the last time at which W, a pause or the namespaces held back everything
	capped              bool      // the last claim got less than it asked for because of W
	unansweredAt        time.Time // when the first unanswered start is to be repeated; zero if there is none
	unansweredNotBefore time.Time // earliest time to repeat it
	reserved            bool      // it was not repeated, because all free workers were reserved for others
	suspect             bool      // that start may have crashed its holders
	suspectNotBefore    time.Time // the suspect is skipped until then
	guarding            bool      // the replica holds a suspect
	busy                bool      // nothing was asked for because of what the replica holds
}

// workspace is the state of a workspace.
type workspace struct {
	id         WorkspaceID
	number     int64
	held       int
	limit      int
	served     int64
	closed     bool // full or paused: not asked for until a change is reported
	proven     bool // got an item when it was last asked for
	paused     bool
	full       bool      // full with more waiting: reported or about to be reported
	burstLimit int32     // how many may hold a slot while no other workspace needs the workers; has no effect up to limit
	rested     time.Time // not asked for until then: counting its holders is expensive, or its items are rejected
	receipt    Receipt
	levels     []*level        // highest priority first
	keys       map[string]*key // limit keys of its waiting items
	// heldBack is the last time at which its limits held it back.
	heldBack time.Time
}

// level is a priority of a workspace at which items wait.
type level struct {
	workspace *workspace
	priority  int
	plain     *keyQueue            // items without a key; nil if there are none
	keyed     map[string]*keyQueue // by limit key
	ripe      heap[*keyQueue]      // key queues that may be asked for, by their first items
	unripe    heap[*keyQueue]      // key queues that must not be asked for yet
	not       time.Time            // not asked for until then
	at        [levelHeaps]int32
}

type levels = heap[*level]

func newLevel(l *workspace, priority int) *level {
	return &level{workspace: l, priority: priority, unripe: heap[*keyQueue]{kind: inUnripe},
		at: [levelHeaps]int32{-1, -1, -1, -1}}
}

// due returns when ripen must look at the level: when it may be asked for, or when another of its key queues may.
func (l *level) due() time.Time {
	if l.ripe.len() > 0 && !l.offered() {
		return l.not
	}
	return latest(l.not, l.unripe.first().due())
}

// offered reports whether the level is in one of the heaps from which proposals are made.
func (l *level) offered() bool { return l.at[inReady] >= 0 || l.at[inBursting] >= 0 }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *Schedule) add(id WorkspaceID) *workspace {
	if s.workspaces == nil {
		s.workspaces, s.numbers, s.rated = map[WorkspaceID]*workspace{}, map[int64]WorkspaceID{}, map[WorkspaceID]bool{}
		s.oldest.kind, s.later.kind, s.bursting.kind, s.proven.kind = inOldest, inLater, inBursting, inProven
	}
	l := &workspace{id: id, limit: unknownLimit}
	s.workspaces[id] = l
	return l
}

func (s *Schedule) name(l *workspace, number int64) {
	if number != 0 && number != l.number {
		delete(s.numbers, l.number)
		l.number = number
		s.numbers[number] = l.id
	}
}

// slots returns how many items of the workspace may hold a slot while no other workspace needs the workers.
func (l *workspace) slots() int { return max(l.limit, int(l.burstLimit)) }

// bursts reports whether the workspace is at its limit but not at its burst limit.
func (l *workspace) bursts() bool { return l.held >= l.limit && l.held < l.slots() }

// fill marks a workspace for Full if it is at its limit and has waiting items.
func (s *Schedule) fill(l *workspace) {
	if l.closed && !l.paused && !l.full && len(l.levels) > 0 {
		l.full = true
		s.full = append(s.full, l)
	}
}

// Full returns the workspaces that have reached their limit and have more items due. Each is returned once, until it
// gets an item again.
func (s *Schedule) Full(now time.Time) (full []Full) {
	for _, l := range s.full {
		if l.full = l.closed && l.due(now); l.full {
			full = append(full, Full{Workspace: l.id, Active: l.held, Limit: l.slots()})
		}
	}
	s.full = s.full[:0]
	return full
}

// Awaited reports whether items wait for a slot of the workspace or of the limit key.
func (s *Schedule) Awaited(id WorkspaceID, name string) bool {
	full := func(k *key) bool { return k != nil && k.closed && k.queues.len() > 0 }
	l := s.workspaces[id]
	return l != nil && (l.closed && len(l.levels) > 0 || full(l.keys[name])) || full(s.keys[name])
}

// Pause sets whether claims are paused by the settings.
func (s *Schedule) Pause(paused bool) {
	if s.paused && !paused {
		s.heldBack = latest(s.heldBack, s.clock)
	}
	s.paused = paused
}

// Paused reports whether claims are paused by the settings.
func (s *Schedule) Paused() bool { return s.paused }

// place queues a level in later, from which ripen takes it. A level of a closed workspace is in no heap.
func (s *Schedule) place(v *level) {
	s.takeOut(v)
	if !v.workspace.closed && v.ripe.len()+v.unripe.len() > 0 {
		s.later.push(v)
	}
}

// ripen moves levels and key queues that may be asked for now from later to the heaps that proposals are made from.
func (s *Schedule) ripen(now time.Time) {
	for s.later.len() > 0 && !s.later.first().due().After(now) {
		v := s.later.first()
		s.takeOut(v)
		for v.unripe.len() > 0 && !v.unripe.first().due().After(now) {
			x := v.unripe.first()
			v.unripe.remove(x)
			v.ripe.push(x)
		}
		switch {
		case v.ripe.len() == 0:
		case v.workspace.bursts():
			s.bursting.push(v)
		default:
			s.ready[v.priority-lowest].push(v)
			s.oldest.push(v)
			if v.workspace.proven {
				s.proven.push(v)
			}
		}
		if v.unripe.len() > 0 {
			s.later.push(v)
		}
	}
}

// takeOut removes a level from all heaps.
func (s *Schedule) takeOut(v *level) {
	s.ready[v.priority-lowest].remove(v)
	s.oldest.remove(v)
	s.bursting.remove(v)
	s.proven.remove(v)
	s.later.remove(v)
}

// remove forgets a level at which nothing waits.
func (s *Schedule) remove(v *level) {
	s.takeOut(v)
	v.workspace.levels = slices.DeleteFunc(v.workspace.levels, func(o *level) bool { return o == v })
}

// Ready reports whether there is something to ask for now.
func (s *Schedule) Ready(now time.Time) bool {
	s.ripen(now)
	return !s.paused && (s.oldest.len()+s.bursting.len() > 0 || s.repeats(now) && !s.reserved)
}

// Capped reports whether no more can be claimed until a lease ends: the last claim hit W, or the replica holds a
// suspect (an unanswered start that may have crashed its holders), or a suspect waits for the replica to hold nothing
// else.
func (s *Schedule) Capped() bool { return s.capped || s.guarding || s.busy }

// Next returns the time from which more may be asked for than now. Zero means that only a reported change can allow
// more.
func (s *Schedule) Next(now time.Time) (at time.Time) {
	if s.paused {
		return at
	}
	s.ripen(now)
	if s.later.len() > 0 {
		at = s.later.first().due()
	}
	if again := latest(s.unansweredAt, s.unansweredNotBefore); !s.unansweredAt.IsZero() && again.After(now) &&
		(at.IsZero() || again.Before(at)) {
		at = again
	}
	return at
}

// Workspaces returns the number of known workspaces and of their levels with waiting items.
func (s *Schedule) Workspaces() (workspaces, levels int) {
	for _, l := range s.workspaces {
		levels += len(l.levels)
	}
	return len(s.workspaces), levels
}

// compare orders workspaces by the turn at which they were last served, then by ID.
func (l *workspace) compare(o *workspace) int {
	switch {
	case l.served < o.served:
		return -1
	case l.served > o.served:
		return 1
	default:
		return bytes.Compare(l.id[:], o.id[:])
	}
}
