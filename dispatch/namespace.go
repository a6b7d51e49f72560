package dispatch

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// namespaces is what a replica knows of the namespaces that it starts workflows in: which of them take none for now, or not as
// many in a second as there are. What one of them refuses says nothing about another. It belongs to the claim loop.
type namespaces struct {
	// inUse says which namespaces items may be of, as far as is known. Nil: of one.
	inUse func() []string
	// reached says whether Temporal answers at all. Nil: nobody knows.
	reached func() bool
	// connection is open while there is nobody to ask, or, where one namespace is all there is, while that takes none: then
	// nothing is claimed but probes.
	connection breaker
	// only is the namespace whose refusal opened connection, because there seemed to be no other; "": none.
	only  string
	known map[string]*namespace
}

// namespace is one of them.
type namespace struct {
	breaker breaker
	limiter limiter
	busy    int // hand-overs under way
	allowed int // how many of its items the next claim may give, where that is limited
	// held: the last claim may have left due items behind, because it was not allowed as many.
	held bool
	// resumed: it takes workflows again, and no claim has looked for what was passed over since.
	resumed bool
}

func (n *namespace) limited() bool { return n.breaker.open() || n.limiter.limits() }

func (s *namespaces) of(name string) *namespace {
	if s.known == nil {
		s.known = map[string]*namespace{}
	}
	if s.known[name] == nil {
		s.known[name] = &namespace{}
	}
	return s.known[name]
}

// several says whether items may be of other namespaces than this one and those that are limited.
func (s *namespaces) several(name string) bool {
	for other, n := range s.known {
		if other != name && (n.limited() || n.resumed) {
			return true
		}
	}
	if s.inUse != nil {
		for _, other := range s.inUse() {
			if other != name {
				return true
			}
		}
	}
	return false
}

// allows says what may be claimed now with so many workers free of all. Where only one namespace is in question, its limit is the
// claim's own; else the claim is told of those that are limited, and gives of the others as before.
func (s *namespaces) allows(now time.Time, free, workers int, hungry bool) claim.Wanted {
	if s.reached != nil && !s.reached() {
		s.connection.postpone(now)
		for _, n := range s.known {
			n.breaker.postpone(now)
		}
	}
	wanted := claim.Wanted{AtMost: s.connection.allows(now, free, workers-free)}
	for name, n := range s.known {
		if !n.limited() && !n.resumed {
			continue
		}
		n.allowed = n.limiter.allows(now, n.breaker.allows(now, wanted.AtMost, n.busy), hungry || n.held)
		if !s.several(name) {
			n.resumed = false
			return claim.Wanted{AtMost: n.allowed}
		}
		if wanted.Namespaces == nil {
			wanted.Namespaces = map[string]int{}
		}
		wanted.Namespaces[name] = n.allowed
	}
	if wanted.Namespaces != nil && s.inUse != nil && s.allLimited(wanted.Namespaces) {
		together := 0
		for _, items := range wanted.Namespaces {
			together += items
		}
		wanted.AtMost = min(wanted.AtMost, together)
	}
	return wanted
}

func (s *namespaces) allLimited(limits map[string]int) bool {
	for _, name := range s.inUse() {
		if _, limited := limits[name]; !limited {
			return false
		}
	}
	return true
}

// reopened says whether a namespace of which the last claim may have left something behind allows some now.
func (s *namespaces) reopened(wanted claim.Wanted) bool {
	for name, items := range wanted.Namespaces {
		if items > 0 && s.known[name].held {
			return true
		}
	}
	return false
}

// claimed takes note of what a claim gave.
func (s *namespaces) claimed(now time.Time, wanted claim.Wanted, items []claim.Item) {
	given := map[string]int{}
	for _, item := range items {
		s.of(item.Namespace).busy++
		given[item.Namespace]++
	}
	for name, n := range s.known {
		n.limiter.claimed(now, given[name], given[name] == n.allowed)
		if allowed, limited := wanted.Namespaces[name]; limited {
			n.held, n.resumed = given[name] >= allowed, false
		} else {
			n.held = false
		}
	}
}

// until adds when a pause is over, or when more may be started, to a list.
func (s *namespaces) until(times []time.Time) []time.Time {
	times = append(times, s.connection.until)
	for _, n := range s.known {
		times = append(times, n.breaker.until, n.limiter.until)
	}
	return times
}

// throttled says whether any of them is limited to a rate.
func (s *namespaces) throttled() bool {
	for _, n := range s.known {
		if n.limiter.limits() {
			return true
		}
	}
	return false
}

// paused says how many of them take no workflows, and whether that means that nothing is claimed but probes.
func (s *namespaces) paused() (paused int, all bool) {
	limits := map[string]int{}
	for name, n := range s.known {
		if n.breaker.open() {
			limits[name] = 0
		}
	}
	all = s.connection.open() || len(limits) > 0 && (s.inUse == nil || s.allLimited(limits))
	return len(limits), all
}

// trip pauses a namespace; or all, where nobody was there to be asked, or where it is the only one. It says whether that is new.
func (s *namespaces) trip(now time.Time, name string, outcome Outcome) (opened bool) {
	b, said := &s.of(name).breaker, false
	switch {
	case outcome == Unreached:
		b, s.only = &s.connection, ""
	case !s.of(name).breaker.open() && !s.several(name):
		b, s.only = &s.connection, name
	default:
		said = s.connection.open() && s.only == name // before the others were known
		s.connection.close()                         // somebody answered
	}
	opened = !b.open() && !said
	b.trip(now)
	return opened
}

// answered takes note of a namespace that takes workflows. It says whether it did not before.
func (s *namespaces) answered(name string) (closed bool) {
	n := s.of(name)
	if s.connection.open() && s.only != "" && s.only != name {
		s.of(s.only).breaker = s.connection // it is that one alone, which has been said: there is another
	}
	n.resumed = n.resumed || n.breaker.open()
	closed = s.connection.open() || n.breaker.open()
	s.connection.close()
	n.breaker.close()
	return closed
}
