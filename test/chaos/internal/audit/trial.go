package audit

import (
	"fmt"
	"slices"
	"time"
)

// Rules about one operation that was cut, with nothing else in flight.
const (
	// RuleGoesOn requires that a cut operation is completed.
	RuleGoesOn = "what was cut is completed"
	// RuleSignalOnce requires that a workflow receives each signal once, in the order of their ids.
	RuleSignalOnce = "a signal takes effect once and in order"
	// RuleStopped requires that a stop request is carried out.
	RuleStopped = "a stop request is carried out"
	// RuleRetried requires that each failure is counted once and recorded.
	RuleRetried = "a failure is counted once"
	// RuleSlotFree requires that the slot is free after the end.
	RuleSlotFree = "the slot is free after the end"
)

// Trial is one operation that was cut, and what became of it.
type Trial struct {
	// Name names the operation, the cut and the crash.
	Name string
	// Item is the item as expected.
	Item Expected
	// Signals are the payloads of the signals in the order of their ids. Stop means that a stop was requested.
	Signals []int
	Stop    bool
	// FewestFailures and MostFailures bound the counted failures.
	FewestFailures, MostFailures int

	// Took is how long it took after the cut. Over means that it was completed.
	Took time.Duration
	Over bool
	// Found is the item at the end, and Runs are the runs under its ID in Temporal. Changes are those of the items.
	Found   []Found
	Runs    []Run
	Changes []Change
	// Received are the payloads that the workflow has received. Undelivered counts the signals that are not DELIVERED,
	// and OpenStops the stop requests that are open.
	Received               []int
	Undelivered, OpenStops int
	// Recorded is the number of failures in the log of failures.
	Recorded int
	// Freed means that the next item of the workspace was started.
	Freed bool
}

// Judge returns the broken rules.
func (t *Trial) Judge() []Violation {
	var all []Violation
	fail := func(rule, format string, args ...any) { all = append(all, violation(rule, format, args...)) }
	if !t.Over {
		status := "it does not exist"
		if len(t.Found) > 0 {
			status = fmt.Sprintf("the item is %s (%s), the execution %s", t.Found[0].Status, t.Found[0].Error,
				t.Found[0].ExecutionStatus)
		}
		fail(RuleGoesOn, "not within %.0f s: %s; %d signals and %d stop requests are open", t.Took.Seconds(), status,
			t.Undelivered, t.OpenStops)
		return named(t.Name, all)
	}
	rows, _ := Rows([]Expected{t.Item}, t.Found)
	all = append(all, rows...)
	all = append(all, Runs([]Expected{t.Item}, t.Found, t.Runs)...)
	all = append(all, Named([]Expected{t.Item}, t.Found, t.Runs, t.Changes)...)
	if !slices.Equal(t.Received, t.Signals) {
		fail(RuleSignalOnce, "the workflow was sent %v and received %v", t.Signals, t.Received)
	}
	if t.Undelivered > 0 {
		fail(RuleSignalOnce, "the workflow received %v, and %d signals are not DELIVERED", t.Received, t.Undelivered)
	}
	if stopped := len(t.Runs) > 0 && t.Runs[len(t.Runs)-1].Status == "CANCELED"; t.Stop && (!stopped || t.OpenStops > 0) {
		fail(RuleStopped, "workflow cancelled: %t, open requests: %d", stopped, t.OpenStops)
	}
	for _, f := range t.Found {
		if f.Failures < t.FewestFailures || f.Failures > t.MostFailures || t.Recorded != f.Failures {
			fail(RuleRetried, "%d failures are counted and %d recorded; there should be from %d to %d", f.Failures,
				t.Recorded, t.FewestFailures, t.MostFailures)
		}
	}
	if !t.Freed {
		fail(RuleSlotFree, "the next item of the workspace is not started")
	}
	return named(t.Name, all)
}

func named(name string, violations []Violation) []Violation {
	for i := range violations {
		violations[i].Detail = name + ": " + violations[i].Detail
	}
	return violations
}

// trialPlants are violations of every rule about an operation, as changes of what became of it.
var trialPlants = []struct {
	rule, name string
	plant      func(t *Trial) bool
}{
	{RuleGoesOn, "it does not go on", func(t *Trial) bool { t.Over = false; return true }},
	{RuleLost, "the item is lost", func(t *Trial) bool { t.Found = nil; return true }},
	{RuleOneRun, "another run", func(t *Trial) bool {
		n := slices.IndexFunc(t.Runs, func(r Run) bool { return r.Execution == t.Item.Execution })
		if n < 0 {
			return false
		}
		run := t.Runs[n]
		run.RunID = "planted"
		t.Runs = append(slices.Clone(t.Runs), run)
		return true
	}},
	{RuleEnd, "another end", func(t *Trial) bool { t.Item.Want, t.Item.Or = "planted", ""; return true }},
	{RuleSignalOnce, "a signal twice", func(t *Trial) bool {
		t.Received = append(slices.Clone(t.Received), t.Received...)
		return len(t.Received) > 0
	}},
	{RuleSignalOnce, "a signal is lost", func(t *Trial) bool {
		if len(t.Received) == 0 {
			return false
		}
		t.Received = t.Received[1:]
		return true
	}},
	{RuleSignalOnce, "a signal is given up", func(t *Trial) bool { t.Undelivered = 1; return true }},
	{RuleStopped, "a stop request is open", func(t *Trial) bool { t.Stop, t.OpenStops = true, 1; return true }},
	{RuleRetried, "a failure too many", func(t *Trial) bool { return t.fails(t.MostFailures+1, t.MostFailures+1) }},
	{RuleRetried, "a failure too few", func(t *Trial) bool {
		return t.FewestFailures > 0 && t.fails(t.FewestFailures-1, t.FewestFailures-1)
	}},
	{RuleRetried, "a failure that is not recorded", func(t *Trial) bool { return t.fails(t.MostFailures, -1) }},
	{RuleSlotFree, "a slot that is lost", func(t *Trial) bool { t.Freed = false; return true }},
}

// fails counts and records failures of the item.
func (t *Trial) fails(counted, recorded int) bool {
	t.Found, t.Recorded = slices.Clone(t.Found), recorded
	return change(t.Found, func(Found) bool { return true }, func(f *Found) { f.Failures = counted })
}

// Blind plants a violation of each rule in a copy of a trial without one, and returns the rules that do not see it.
func (t *Trial) Blind() (blind []string) {
	for _, p := range trialPlants {
		changed := *t
		sees := func(v Violation) bool { return v.Rule == p.rule }
		if p.plant(&changed) && !slices.ContainsFunc(changed.Judge(), sees) {
			blind = append(blind, p.rule+": "+p.name)
		}
	}
	return blind
}
