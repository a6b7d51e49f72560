// Package schedule is a replica's memory of what waits, and decides whose turn it is.
//
// A schedule proposes, and Postgres grants: a claim re-reads the limits and counts who holds slots, so a schedule that is wrong
// costs a round trip or a moment, never a limit and never an item. It keeps something for each workspace with waiting items and
// nothing for a waiting item, so its size does not grow with the backlog.
//
// Whose turn it is: the highest priority that is due in any workspace with room; among equals the workspace that was served least
// recently; in a workspace the earliest run_at. One of every ten starts goes to what has been due for longest, if for longer than
// the ageing allows. See docs/enqueue.md.
//
// The package is pure: no SQL, no clock, no goroutine, no log. Times are the database's. One goroutine owns a Schedule.
package schedule

import (
	"bytes"
	"math"
	"slices"
	"time"
)

const (
	// lowest and highest bound the priorities there are.
	lowest, highest = -100, 100
	// turn is how many items a workspace may get before it is another's turn, where more wait than there are workers.
	turn = 4
	// agedShare is how many starts there are for one that ageing decides.
	agedShare = 10
	// passedOverFor is how long a level is left alone whose next items are all of namespaces that take none.
	passedOverFor = 3 * time.Second
	// lockedFor is how long a level is left alone whose next item somebody else has locked.
	lockedFor = 100 * time.Millisecond
	// costly is a count of holders that is not to be repeated at once, and rest how long to wait for each of them.
	costly = 1000
	rest   = 2 * time.Microsecond
	// looks is how many items are asked for where namespaces are limited, so that those which may be given are found.
	looks = 30
	// countAgain is how long old leases are taken for held before they are counted again.
	countAgain = time.Second
	// mostNumbers is how many workspaces are known by their number. Of others, a notification says no more than that somebody is to look.
	mostNumbers = 100_000
	// unknown is the limit of a lane that no claim has told of.
	unknown = math.MaxInt32
)

// Lane is a workspace, by its ID.
type Lane [16]byte

// Epoch names a time in which no commit was forgotten. Receipts of another epoch are worth nothing. Zero: there is none yet.
type Epoch [16]byte

// Position is a place in a level of a lane: items are taken by run_at, then ID.
type Position struct {
	Due time.Time
	ID  int64
}

// Before compares places.
func (p Position) Before(q Position) bool {
	return p.Due.Before(q.Due) || p.Due.Equal(q.Due) && p.ID < q.ID
}

// Receipt bounds how many items hold a slot now, by tokens: each item that comes to hold one draws the next. No holder has a token
// below Floor, and at most Held of them have one up to To. The zero value is always true.
type Receipt struct {
	Floor int64
	Held  int
	To    int64
}

// Entry asks for items of one level of a lane.
type Entry struct {
	Lane     Lane
	Priority int
	Items    int
	// From is a place before which nothing waits, as far as is known.
	From    Position
	Receipt Receipt

	aged int // items of these that are asked for because of their age
}

// Proposal is what a claim is asked to give, in this order.
type Proposal struct {
	AtMost  int
	Entries []Entry
	// Unanswered is how many starts that nobody answered are to be repeated; they come first. Alone: it is one that may have
	// killed its holders, and nothing else is to be claimed with it.
	Unanswered int
	Alone      bool
	// Leased bounds the items that are leased, over all lanes.
	Leased Receipt
	Epoch  Epoch
}

// Empty says whether it asks for nothing.
func (p Proposal) Empty() bool { return len(p.Entries) == 0 && p.Unanswered == 0 }

// Want is what a replica can do now.
type Want struct {
	// Free is how many workers have nothing to do, and Holding how many items the replica has in its hands.
	Free, Holding int
	// Limited: namespaces are, so that what is asked for may not be given.
	Limited bool
	// Careful: somebody keeps rows locked. Of a lane only the highest level is asked for, whose first item may be one of them.
	Careful bool
}

// Standing is how a lane stood at a claim.
type Standing struct {
	// Granted is how many items the lane's limits allowed, and Taken how many were taken.
	Granted, Taken int
	// Held is how many items of the lane held a slot, these included, at the most, and Limit how many may; 0: it is paused, too.
	Held, Limit int
	Paused      bool
	// Counted is how many holders were counted for it; 0: a bound sufficed. Bound: Held is one, and fewer may hold.
	Counted int
	Bound   bool
	Receipt Receipt
	// Next is the first item that was left, due or not; nil: nothing waits at this level.
	Next *Position
	// RetryIn is how long until the lane's rate allows another; 0: it does.
	RetryIn time.Duration
	// PassedOver: what is due was left, because its namespaces take none.
	PassedOver bool
	// Number is the lane's in notifications.
	Number int64
}

// Answer is what a claim gave and how the lanes stand.
type Answer struct {
	Epoch Epoch
	// Paused: nothing is claimed at all.
	Paused bool
	// Limited: namespaces were.
	Limited bool
	// Room is how many items W allowed to be taken.
	Room int
	// Leased are the tokens of what is leased, beyond what the proposal's receipt bounds; Last is the last token that anybody drew
	// before this claim.
	Leased []int64
	Last   int64
	// Lanes has a row for each entry of the proposal.
	Lanes []Standing
	// Repeated is how many unanswered starts were taken.
	Repeated int
}

// Full is a lane that has come to its limit with more waiting.
type Full struct {
	Lane          Lane
	Active, Limit int
}

// Change is what has happened to a lane.
type Change struct {
	Lane   Lane
	Number int64 // 0: it is not said
	// Waits: items wait at Priority from Due on; Items is how many came, 0: it is not said. Else so many Items at the most gave their
	// slots back; 0: a limit was changed.
	Waits    bool
	Priority int
	Due      time.Time
	Items    int
	// Again: an item waits again, or at another place, and may have given its slot back.
	Again bool
}

// Schedule is the memory. Its zero value knows of nothing.
type Schedule struct {
	// Aging is how long an item may have been due before its age decides.
	Aging time.Duration

	lanes     map[Lane]*lane
	numbers   map[int64]Lane             // by what notifications call them; also of lanes that have nothing waiting
	ready     [highest - lowest + 1]heap // by turn, for each priority
	oldest    heap                       // the same levels by age
	later     heap                       // levels that are not to be asked for yet
	served    int64                      // the last turn that was given
	owed      int                        // starts since ageing decided last
	full      []*lane                    // to be reported
	leased    Receipt
	countedAt time.Time // when all that is leased was last counted
	epoch     Epoch
	paused    bool
	capped    bool      // the last claim got less than it asked for because of W
	doubt     time.Time // when the first unanswered start is to be repeated; zero: there is none
	doubtNot  time.Time // and not before
	suspect   bool      // it may have killed its holders
	besides   time.Time // until then it is passed over
	guarding  bool      // such a one is in the replica's hands
	busy      bool      // nothing was asked for, because of what the replica has in its hands
}

// lane is what is known of a workspace.
type lane struct {
	id      Lane
	number  int64
	held    int
	limit   int
	served  int64
	closed  bool // full or paused: not asked for before somebody says that it has changed
	paused  bool
	full    bool      // that it is full and has more waiting has been reported, or is to be
	rested  time.Time // not to be asked for before, because its holders are many to count
	receipt Receipt
	levels  []*level // the highest priority first
}

// level is a priority of a lane at which items wait.
type level struct {
	lane     *lane
	priority int
	from     Position
	items    int       // how many wait, at the most; 0: it is not known
	not      time.Time // not to be asked for before
	passed   bool      // over, for its namespaces
	short    bool      // of items, because its namespaces allowed no more
	deep     bool      // the last claim left some of it
	at       [heaps]int
}

// due is when the level may be asked for.
func (l *level) due() time.Time {
	return latest(l.not, l.from.Due)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *Schedule) add(id Lane) *lane {
	if s.lanes == nil {
		s.lanes, s.numbers = map[Lane]*lane{}, map[int64]Lane{}
		s.oldest.kind, s.later.kind = inOldest, inLater
	}
	l := &lane{id: id, limit: unknown}
	s.lanes[id] = l
	return l
}

func (s *Schedule) name(l *lane, number int64) {
	if number != 0 && number != l.number {
		delete(s.numbers, l.number)
		l.number = number
		s.numbers[number] = l.id
	}
}

// fill has a lane reported that is at its limit with something waiting.
func (s *Schedule) fill(l *lane) {
	if l.closed && !l.paused && !l.full && len(l.levels) > 0 {
		l.full = true
		s.full = append(s.full, l)
	}
}

// Full returns the lanes that have come to their limit with something due, each once until it has been given something again.
func (s *Schedule) Full(now time.Time) (full []Full) {
	for _, l := range s.full {
		if l.full = l.closed && l.due(now); l.full {
			full = append(full, Full{Lane: l.id, Active: l.held, Limit: l.limit})
		}
	}
	s.full = s.full[:0]
	return full
}

// Pause says whether nothing is claimed at all.
func (s *Schedule) Pause(paused bool) { s.paused = paused }

// Paused says whether nothing is claimed at all.
func (s *Schedule) Paused() bool { return s.paused }

// place puts a level where it belongs: among those to come, from where ripen takes it, or nowhere.
func (s *Schedule) place(v *level) {
	s.takeOut(v)
	if !v.lane.closed {
		s.later.push(v)
	}
}

// ripen makes ready what may be asked for by now.
func (s *Schedule) ripen(now time.Time) {
	for s.later.len() > 0 && !s.later.first().due().After(now) {
		v := s.later.first()
		s.later.remove(v)
		s.ready[v.priority-lowest].push(v)
		s.oldest.push(v)
	}
}

// takeOut takes a level out of all heaps.
func (s *Schedule) takeOut(v *level) {
	s.ready[v.priority-lowest].remove(v)
	s.oldest.remove(v)
	s.later.remove(v)
}

// remove forgets a level at which nothing waits.
func (s *Schedule) remove(v *level) {
	s.takeOut(v)
	v.lane.levels = slices.DeleteFunc(v.lane.levels, func(o *level) bool { return o == v })
}

// Ready says whether something could be asked for now.
func (s *Schedule) Ready(now time.Time) bool {
	s.ripen(now)
	return !s.paused && (s.oldest.len() > 0 || s.doubtful(now))
}

// Capped says whether nothing more is to be had before something ends: the last claim met W, or an unanswered start that may have
// killed its holders waits for a replica that holds nothing else, or is in this one's hands.
func (s *Schedule) Capped() bool { return s.capped || s.guarding || s.busy }

// Next is when something may be asked for that may not be asked for now; zero: never, unless somebody says so.
func (s *Schedule) Next(now time.Time) (at time.Time) {
	if s.paused {
		return at
	}
	s.ripen(now)
	if s.later.len() > 0 {
		at = s.later.first().due()
	}
	if again := latest(s.doubt, s.doubtNot); !s.doubt.IsZero() && again.After(now) && (at.IsZero() || again.Before(at)) {
		at = again
	}
	return at
}

// Lanes is how many lanes are known, and Levels how many of their priorities wait.
func (s *Schedule) Lanes() (lanes, levels int) {
	for _, l := range s.lanes {
		levels += len(l.levels)
	}
	return len(s.lanes), levels
}

// compare orders lanes that were served at the same turn.
func (l *lane) compare(o *lane) int {
	switch {
	case l.served < o.served:
		return -1
	case l.served > o.served:
		return 1
	default:
		return bytes.Compare(l.id[:], o.id[:])
	}
}
