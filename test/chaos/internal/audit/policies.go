package audit

import (
	"strings"
	"time"
)

// Rules about calls of pgdispatch.enqueue.
const (
	// RuleCalls requires that a call has done what it answered, and nothing else.
	RuleCalls = "a call of enqueue does what it answers"
	// RuleWaiting forbids two items of a key that wait for their first claim.
	RuleWaiting = "one item of a key waits"
	// RuleSkip forbids two open items of a key that is only used with skip.
	RuleSkip = "skip inserts nothing while an item of its key is open"
	// RuleParams forbids changes of an item that is claimed or may have been started, and requires that the last params
	// before its claim are run.
	RuleParams = "a claimed item keeps its params, and they are run"
	// RuleQuiet forbids that a debounced item is claimed before it has been quiet.
	RuleQuiet = "a debounced item is not claimed before it is due"
)

// Call is a call of pgdispatch.enqueue with a key in the books of the application.
type Call struct {
	// Marker identifies the call. It is in the params.
	Marker string
	// Workspace, Key and Policy are the arguments. Quiet and AtMost are those of debounce.
	Workspace, Key, Policy string
	Quiet, AtMost          time.Duration
	// Acknowledged means that it was answered with Execution and Action, Unknown that the answer was lost. Otherwise it
	// was rolled back.
	Acknowledged, Unknown bool
	Execution, Action     string
	// Sent and Answered are when the call began and ended, by the machine's clock.
	Sent, Answered time.Time
}

// SkipPrefix begins the keys that are only used with skip.
const SkipPrefix = "skip-"

// keyed is an item with a key.
type keyed struct {
	execution, key string // the key with its workspace
	marker, ran    string // ran: the marker at its last claim
	created, ended time.Time
	createdAhead   time.Duration
	open, claimed  bool
}

// calls is the state of the replay.
type calls struct {
	items      map[string]*keyed
	wait, open map[string]int // by key
	by         map[string]Change
	inserted   map[string]bool // markers of inserts
	known      map[string]*Call
	violations []Violation
}

func (s *calls) fail(rule, format string, args ...any) {
	s.violations = append(s.violations, violation(rule, format, args...))
}

// Policies compares the calls with the changes of the items, which are in commit order, and with what was run: ran has
// the markers that workflows have received, by execution.
func Policies(made []Call, changes []Change, ran map[string]string) []Violation {
	s := &calls{items: map[string]*keyed{}, wait: map[string]int{}, open: map[string]int{}, by: map[string]Change{},
		inserted: map[string]bool{}, known: map[string]*Call{}}
	for n := range made {
		s.known[made[n].Marker] = &made[n]
	}
	for begin := 0; begin < len(changes); {
		end := begin + 1
		for end < len(changes) && changes[end].Transaction == changes[begin].Transaction {
			end++
		}
		for _, c := range changes[begin:end] {
			if c.Kind == Item && c.PolicyKey != "" {
				s.change(c)
			}
		}
		for _, c := range changes[begin:end] { // a call may insert an item and delete it again
			if c.Kind == Item && c.PolicyKey != "" {
				s.key(c)
			}
		}
		begin = end
	}
	for n := range made {
		s.answer(&made[n])
	}
	for execution, marker := range ran {
		if item := s.items[execution]; item != nil && item.claimed && item.ran != marker {
			s.fail(RuleParams, "%s was claimed with the params of call %s, and ran those of %s", execution, item.ran, marker)
		}
	}
	return s.violations
}

func isOpen(status string) bool {
	return status == "PENDING" || status == "CLAIMED" || status == "DISPATCHED"
}

// change applies one change.
func (s *calls) change(c Change) {
	item := s.items[c.Execution]
	if item == nil {
		item = &keyed{execution: c.Execution, key: c.Workspace + " " + c.PolicyKey, created: c.At, createdAhead: c.Ahead}
		s.items[c.Execution] = item
	}
	if waits := c.New == "PENDING" && !item.claimed; waits != (item.open && !item.claimed) {
		s.wait[item.key] += sign(waits)
	}
	if open := isOpen(c.New); open != item.open {
		s.open[item.key] += sign(open)
		item.open, item.ended = open, c.Committed
	}
	switch {
	case c.New == "" && hasEnded(c.Old): // by retention
	case c.New == "":
		delete(s.by, item.marker) // the call was slower than another, and tries again
		item.marker = ""
	case c.Marker != item.marker:
		s.mark(c, item)
	}
	if c.Old != "PENDING" || c.New != "CLAIMED" || c.Held {
		return
	}
	item.ran = item.marker // one that was handed back may have been changed since
	if !item.claimed {
		item.claimed = true
		s.due(c, item)
	}
}

func sign(more bool) int {
	if more {
		return 1
	}
	return -1
}

// mark notes that a call has changed an item.
func (s *calls) mark(c Change, item *keyed) {
	if c.Old != "" && (c.Old != "PENDING" || c.Held) {
		s.fail(RuleParams, "call %s changed %s at %s, while it was claimed", c.Marker, c.Execution, clock(c.At))
	}
	if before, twice := s.by[c.Marker]; twice {
		s.fail(RuleCalls, "call %s has changed %s and %s", c.Marker, before.Execution, c.Execution)
	}
	if call := s.known[c.Marker]; call == nil || !call.Acknowledged && !call.Unknown {
		s.fail(RuleCalls, "call %s was not made or rolled back, and changed %s", c.Marker, c.Execution)
	}
	item.marker, s.by[c.Marker] = c.Marker, c
	s.inserted[c.Marker] = c.Old == ""
}

// due checks when a debounced item is claimed.
func (s *calls) due(c Change, item *keyed) {
	call := s.known[item.marker]
	if call == nil || call.Policy != "debounce" || c.Ahead != item.createdAhead {
		return
	}
	due := call.Sent.Add(call.Quiet)
	if latest := item.created.Add(call.AtMost); call.AtMost > 0 && latest.Before(due) {
		due = latest
	}
	if c.At.Before(due) {
		s.fail(RuleQuiet, "%s was claimed at %s, %s before it was due", c.Execution, clock(c.At), due.Sub(c.At))
	}
}

// key checks a key after a transaction.
func (s *calls) key(c Change) {
	item := s.items[c.Execution]
	if s.wait[item.key] > 1 && c.Old == "" && c.New != "" {
		s.fail(RuleWaiting, "%d items of key %s wait after %s was inserted at %s", s.wait[item.key], item.key, c.Execution,
			clock(c.At))
	}
	if strings.HasPrefix(c.PolicyKey, SkipPrefix) && s.open[item.key] > 1 && c.Old == "" && c.New != "" {
		s.fail(RuleSkip, "%d items of key %s are open after %s was inserted at %s", s.open[item.key], item.key,
			c.Execution, clock(c.At))
	}
}

// answer checks what a call answered.
func (s *calls) answer(call *Call) {
	if !call.Acknowledged {
		return
	}
	change, did := s.by[call.Marker]
	item := s.items[call.Execution]
	switch {
	case item == nil || item.key != call.Workspace+" "+call.Key:
		s.fail(RuleCalls, "call %s answered %s %s, which is no item of its key", call.Marker, call.Action, call.Execution)
	case call.Action == "skipped" && did:
		s.fail(RuleCalls, "call %s answered skipped, and changed %s", call.Marker, change.Execution)
	case call.Action == "skipped" &&
		(item.created.After(call.Answered) || !item.open && item.ended.Add(flush).Before(call.Sent)):
		s.fail(RuleCalls, "call %s answered skipped at %s because of %s, which was open from %s to %s", call.Marker,
			clock(call.Sent), call.Execution, clock(item.created), clock(item.ended))
	case call.Action != "skipped" && (!did || change.Execution != call.Execution ||
		s.inserted[call.Marker] != (call.Action == "inserted")):
		s.fail(RuleCalls, "call %s answered %s %s, and there is no such change", call.Marker, call.Action, call.Execution)
	}
}
