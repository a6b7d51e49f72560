package dispatch

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// namespaces tracks which namespaces accept no workflows now, or only a limited rate. A refusal by one says nothing
// about the others. Only the claim loop uses it.
type namespaces struct {
	// inUse returns the known namespaces that items may use. If nil, there is only one.
	inUse func() []string
	// reached reports whether Temporal answers at all, and answered when it last answered. If nil, that is not known.
	reached  func() bool
	answered func() time.Time
	// refused returns the namespace that Temporal does not serve according to a probe without an item. May be nil.
	refused func() string
	// connection is open while Temporal cannot be reached, or while the only namespace in use accepts no workflows.
	// Then only probes are claimed.
	connection breaker
	// only is the namespace whose refusal opened connection, because no other was known. It is empty otherwise.
	only  string
	known map[string]*namespace
}

// namespace is the state of one namespace.
type namespace struct {
	breaker breaker
	limiter limiter
	busy    int // dispatches in progress
	allowed int // how many of its items the next claim may take, if it is limited
	// held means that the last claim may have left due items because of allowed.
	held bool
	// resumed means that it accepts workflows again, but no claim has looked for the skipped items yet.
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

// several reports whether items may use namespaces other than name, counting those that are limited.
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

// allows returns what may be claimed now, with free of all workers free. If only one namespace is in use, its limit
// bounds the whole claim. Otherwise the claim gets the limited namespaces with their limits, and takes items of the
// others as usual.
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

// reopened reports whether a namespace of which the last claim may have left items allows some now.
func (s *namespaces) reopened(wanted claim.Wanted) bool {
	for name, items := range wanted.Namespaces {
		if items > 0 && s.known[name].held {
			return true
		}
	}
	return false
}

// claimed records the result of a claim.
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

// until appends the times when pauses end or more starts are allowed.
func (s *namespaces) until(times []time.Time) []time.Time {
	times = append(times, s.connection.until)
	for _, n := range s.known {
		times = append(times, n.breaker.until, n.limiter.until)
	}
	return times
}

// throttled reports whether any namespace has a rate limit.
func (s *namespaces) throttled() bool {
	for _, n := range s.known {
		if n.limiter.limits() {
			return true
		}
	}
	return false
}

// paused returns how many namespaces accept no workflows, as far as known, and whether Temporal accepts none at all.
func (s *namespaces) paused(now time.Time) (paused int, all bool) {
	answered := time.Time{}
	if s.answered != nil {
		answered = s.answered()
	}
	limits := map[string]int{}
	for name, n := range s.known {
		if n.breaker.refuses(now, answered) {
			limits[name] = 0
		}
	}
	if s.refused != nil && s.refused() != "" {
		limits[s.refused()] = 0
	}
	all = s.connection.refuses(now, answered) || len(limits) > 0 && (s.inUse == nil || s.allLimited(limits))
	return len(limits), all
}

// trip pauses a namespace, or everything if Temporal could not be reached or if it is the only namespace. It reports
// whether that is new.
func (s *namespaces) trip(now time.Time, name string, outcome temporal.Outcome) (opened bool) {
	b, said := &s.of(name).breaker, false
	switch {
	case outcome == temporal.Unreached:
		b, s.only = &s.connection, ""
	case !s.of(name).breaker.open() && !s.several(name):
		b, s.only = &s.connection, name
	default:
		said = s.connection.open() && s.only == name // logged before the others were known
		s.connection.close()                         // Temporal answered
	}
	opened = !b.open() && !said
	b.trip(now)
	return opened
}

// accepted records that a namespace accepts workflows. It reports whether it did not before.
func (s *namespaces) accepted(name string) (closed bool) {
	n := s.of(name)
	if s.connection.open() && s.only != "" && s.only != name {
		s.of(s.only).breaker = s.connection // only that namespace is paused, and that was logged: there is another one
	}
	n.resumed = n.resumed || n.breaker.open()
	closed = s.connection.open() || n.breaker.open()
	s.connection.close()
	n.breaker.close()
	return closed
}
