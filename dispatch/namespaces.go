package dispatch

import (
	"slices"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/attempt"
)

// namespaces tracks which namespaces accept no workflows now, or only a limited rate. A refusal by one says nothing
// about the others. The activities of a namespace count as a namespace of their own, because a server may start only
// workflows: see claim.ActivitiesOf. Only the claim loop uses it.
type namespaces struct {
	// inUse returns the known namespaces that items may use. If nil, there is only one.
	inUse func() []string
	// reached reports whether Temporal answers at all, and answered when it last answered. If nil, that is not known.
	reached  func() bool
	answered func() time.Time
	// refused returns the namespace that Temporal does not serve according to a probe without an item. May be nil.
	refused func() string
	// vanished returns the lanes in which nothing may be started. May be nil.
	vanished func() []string
	// connection is open while Temporal cannot be reached, or while the only namespace in use accepts no workflows.
	// Then only probes are claimed.
	connection breaker
	// only is the namespace whose refusal opened connection, because no other was known. It is empty otherwise.
	only  string
	known map[string]*namespace
	// fresh alternates: every other probe is an item that was not tried before, if there is one.
	fresh bool
}

// namespace is the state of one namespace.
type namespace struct {
	breaker  breaker
	evidence evidence
	limiter  limiter
	busy     int // dispatches in progress
	allowed  int // how many of its items the next claim may take, if it is limited
	// held means that the last claim may have left due items because of allowed.
	held bool
}

func (n *namespace) limited() bool { return n.breaker.open() || n.limiter.limits() }

func (s *namespaces) get(name string) *namespace {
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
		if other != name && n.limited() {
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
func (s *namespaces) allows(now time.Time, free, workers int, expectsWork bool) claim.Wanted {
	if s.reached != nil && !s.reached() {
		s.connection.postpone(now)
		for _, n := range s.known {
			n.breaker.postpone(now)
		}
	}
	answered := s.lastAnswer()
	wanted := claim.Wanted{AtMost: s.connection.allows(now, answered, free, workers-free), Fresh: s.fresh}
	for name, n := range s.known {
		if !n.limited() {
			continue
		}
		n.allowed = n.limiter.allows(now, n.breaker.allows(now, answered, wanted.AtMost, n.busy), expectsWork || n.held)
		if !s.several(name) {
			return claim.Wanted{AtMost: n.allowed, Fresh: s.fresh}
		}
		if wanted.Namespaces == nil {
			wanted.Namespaces = map[string]int{}
		}
		wanted.Namespaces[name] = n.allowed
	}
	for _, name := range s.gone() {
		if !s.several(name) {
			return claim.Wanted{Fresh: s.fresh}
		}
		if wanted.Namespaces == nil {
			wanted.Namespaces = map[string]int{}
		}
		s.get(name).allowed, wanted.Namespaces[name] = 0, 0
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

// gone returns the lanes in which nothing may be started, because many of their running executions are missing.
func (s *namespaces) gone() []string {
	if s.vanished == nil {
		return nil
	}
	return s.vanished()
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

// took records what a claim took.
func (s *namespaces) took(now time.Time, wanted claim.Wanted, items []claim.Item) {
	given := map[string]int{}
	for _, item := range items {
		s.get(item.Lane()).busy++
		given[item.Lane()]++
	}
	if len(items) > 0 {
		s.connection.probes(now)
	}
	for name, n := range s.known {
		if given[name] > 0 {
			n.breaker.probes(now)
		}
		n.limiter.spend(now, given[name], given[name] == n.allowed)
		allowed, limited := wanted.Namespaces[name]
		n.held = limited && given[name] >= allowed
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
	answered := s.lastAnswer()
	limits := map[string]int{}
	for name, n := range s.known {
		if n.breaker.refuses(now, answered) {
			limits[name] = 0
		}
	}
	if s.refused != nil && s.refused() != "" {
		limits[s.refused()] = 0
		if activities := claim.ActivitiesOf(s.refused()); s.inUse != nil && slices.Contains(s.inUse(), activities) {
			limits[activities] = 0
		}
	}
	for _, name := range s.gone() {
		if s.inUse == nil || slices.Contains(s.inUse(), name) {
			limits[name] = 0
		}
	}
	all = s.connection.refuses(now, answered) || len(limits) > 0 && (s.inUse == nil || s.allLimited(limits))
	return len(limits), all
}

// trip records that the start of an item failed. It pauses the namespace, or everything if Temporal could not be
// reached or if it is the only namespace, and reports whether that is new. A single item pauses nothing, unless a probe
// without an item fails, too, or the error is certainly not the item's own.
func (s *namespaces) trip(now time.Time, name string, outcome engine.Outcome, item *claim.Item,
	certain bool) (opened bool) {
	b, said := &s.get(name).breaker, false
	s.fresh = !s.fresh
	lane := s.get(name).evidence.fails(item.ID, item.Unanswered) || certain || s.refuses(item.Namespace)
	if paused := b.open() || s.connection.open(); !lane && !paused && s.answers() {
		return false
	}
	switch {
	case outcome == engine.Unreached:
		b, s.only = &s.connection, ""
	case !s.get(name).breaker.open() && !s.several(name):
		b, s.only = &s.connection, name
	default:
		said = s.connection.open() && s.only == name // it was logged when no other was known
		s.connection.close()                         // Temporal answered
	}
	opened = !b.open() && !said
	b.trip(now)
	return opened
}

// shut returns the lanes whose starts are paused, and whether all are.
func (s *namespaces) shut() (lanes map[string]bool, all bool) {
	for name, n := range s.known {
		if !n.breaker.open() {
			continue
		}
		if lanes == nil {
			lanes = map[string]bool{}
		}
		lanes[name] = true
	}
	return lanes, s.connection.open()
}

// refuses reports whether Temporal does not serve a namespace, according to a probe without an item.
func (s *namespaces) refuses(namespace string) bool {
	return s.refused != nil && namespace != "" && s.refused() == namespace
}

// lastAnswer returns when Temporal last answered a probe without an item, as far as known.
func (s *namespaces) lastAnswer() time.Time {
	if s.answered == nil {
		return time.Time{}
	}
	return s.answered()
}

// answers reports whether Temporal answers the replica's own probes, as far as known.
func (s *namespaces) answers() bool { return s.reached == nil || s.reached() }

// accepted records that a namespace accepts workflows. It reports whether it did not before.
func (s *namespaces) accepted(name string) (closed bool) {
	n := s.get(name)
	if s.connection.open() && s.only != "" && s.only != name {
		s.get(s.only).breaker = s.connection // there is another namespace, so only that one is paused, as logged
	}
	closed = s.connection.open() || n.breaker.open()
	s.fresh = false
	s.connection.close()
	n.breaker.close()
	return closed
}

const (
	// probeBase is the first pause and probeCap the longest one. probeCap bounds the time from Temporal's recovery to
	// the first started workflow.
	probeBase = 100 * time.Millisecond
	probeCap  = 3 * time.Second
	// probeRarely is how long probes may be postponed while Temporal does not answer questions either. After that an
	// item is tried anyway, because questions may be all that is unanswered.
	probeRarely = 30 * time.Second
	// quietAfter is how long no item may have been refused before an answer to a probe ends a reported outage. It exceeds
	// the time between two items that are tried as probes.
	quietAfter = 10 * time.Second
	// retryBase is the delay of an item after its first failure. The delay doubles up to retryCap.
	retryBase = time.Second
	retryCap  = 5 * time.Minute
)

// breaker stops claims while Temporal accepts no workflows, so that an outage costs probes and not attempts. It starts
// closed. Only the claim loop uses it: it is not safe for concurrent use.
type breaker struct {
	backoff retry.Backoff // nil if closed
	until   time.Time
	tripped time.Time // time of the last failed probe
	probed  time.Time // time of the last claim while it was open
}

func (b *breaker) open() bool { return b.backoff != nil }

// trip opens the breaker, or backs off further if it is open. It ignores a failure during a pause, because the request
// was in progress before the pause began.
func (b *breaker) trip(now time.Time) {
	if b.open() && now.Before(b.until) {
		return
	}
	if b.backoff == nil {
		b.backoff = attempt.Backoff(probeBase, probeCap)
	}
	pause, _ := b.backoff.Next()
	b.until, b.tripped, b.probed = now.Add(pause), now, now
}

// postpone delays the next probe by up to probeBase, because the probe would only hold up its item.
func (b *breaker) postpone(now time.Time) {
	if soon := now.Add(probeBase); b.open() && b.until.Before(soon) && now.Sub(b.tripped) < probeRarely {
		b.until = soon
	}
}

func (b *breaker) close() { *b = breaker{} }

// refuses reports whether the breaker is open and nothing has changed since. It is false if no item was tried lately
// and Temporal has answered a probe since the last one failed: the next item decides.
func (b *breaker) refuses(now, answered time.Time) bool {
	return b.open() && !(answered.After(b.tripped) && now.Sub(b.tripped) >= quietAfter)
}

// probes records that items are started, which are probes if the breaker is open.
func (b *breaker) probes(now time.Time) {
	if b.open() {
		b.probed = now
	}
}

// allows returns how many items may be claimed now: free while the breaker is closed, one as a probe after each pause.
// An item that is being started postpones the next probe, unless Temporal has answered another probe since: what was
// sent during an outage may hang until its timeout, long after the outage.
func (b *breaker) allows(now, answered time.Time, free, busy int) int {
	hangs := answered.After(b.probed)
	switch {
	case !b.open():
		return free
	case now.Before(b.until) || busy > 0 && !hangs:
		return 0
	default:
		return min(free, 1)
	}
}

// retryDelay returns the delay of an item after the given number of failures, counted from 1.
func retryDelay(failures int) time.Duration {
	backoff := attempt.Backoff(retryBase, retryCap)
	var delay time.Duration
	for range min(failures, 32) {
		delay, _ = backoff.Next()
	}
	return delay
}
