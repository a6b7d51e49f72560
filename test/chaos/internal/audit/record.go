package audit

import (
	"maps"
	"slices"
)

// Record is all that is known of a run.
type Record struct {
	// Cap is W at the beginning.
	Cap int
	// Changes are the database's, in commit order, Found its items at the end, and Runs those in Temporal.
	Changes []Change
	Found   []Found
	Runs    []Run
	// Expected, Calls and Pushes are the applications' books. Ran has the markers that workflows have received, and
	// Signals what executions were sent and received.
	Expected []Expected
	Calls    []Call
	Ran      map[string]string
	Pushes   []Push
	Signals  map[string]Received
	// Limits holds each workspace's greatest limit during the run.
	Limits map[string]int
}

// Received is the signals that were sent to an execution, and the payloads that its workflow received.
type Received struct {
	Sent     []Signal
	Received []int
}

// Judgement is the result of an audit.
type Judgement struct {
	// Summary is the result of the replay, with all violations.
	Summary
	// Resolved is the number of unknown commits that turned out to have happened.
	Resolved int
	// Greatest is the most runs at the same time, by workspace.
	Greatest map[string]int
}

// Judge checks every rule.
func (r *Record) Judge() Judgement {
	j := Judgement{Summary: Replay(r.Changes, r.Cap)}
	expected := slices.Clone(r.Expected)
	for n := range expected {
		if e := &expected[n]; j.Orphans[e.Execution] {
			e.Or, e.Counted, e.Orphan = "FAILED", true, true
		}
	}
	add := func(violations []Violation) { j.Violations = append(j.Violations, violations...) }
	rows, resolved := Rows(expected, r.Found)
	running, greatest := Running(expected, r.Found, r.Runs, r.Limits)
	j.Resolved, j.Greatest = resolved, greatest
	add(Rates(r.Changes))
	add(rows)
	add(Runs(expected, r.Found, r.Runs))
	add(Named(expected, r.Found, r.Runs, r.Changes))
	add(running)
	add(Pushes(r.Pushes, r.Found))
	add(Policies(r.Calls, r.Changes, r.Ran))
	for execution, s := range r.Signals {
		add(Signals(execution, s.Sent, s.Received))
	}
	return j
}

// Blind plants a violation of each rule in a copy of the record, and returns the rules that do not see it. seen is how
// many do. A record in which there is no place for a violation shows nothing of that rule.
func (r *Record) Blind() (blind []string, seen int) {
	broken := func(of *Record) map[string]int {
		n := map[string]int{}
		for _, v := range of.Judge().Violations {
			n[v.Rule]++
		}
		return n
	}
	before := broken(r)
	for _, p := range plants {
		changed := *r
		changed.Changes, changed.Found, changed.Runs = slices.Clone(r.Changes), slices.Clone(r.Found), slices.Clone(r.Runs)
		changed.Expected, changed.Calls, changed.Pushes = slices.Clone(r.Expected), slices.Clone(r.Calls),
			slices.Clone(r.Pushes)
		changed.Ran, changed.Signals = maps.Clone(r.Ran), maps.Clone(r.Signals)
		changed.Limits = maps.Clone(r.Limits)
		switch {
		case !p.plant(&changed):
		case broken(&changed)[p.rule] > before[p.rule]:
			seen++
		default:
			blind = append(blind, p.rule+": "+p.name)
		}
	}
	return blind, seen
}
