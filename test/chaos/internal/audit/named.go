package audit

import (
	"cmp"
	"slices"
	"time"
)

// Kinds of what an item starts.
const (
	Workflow = "workflow"
	Activity = "activity"
)

// Policies of definitions for items that name their ID.
const (
	Reject      = "reject"
	Reuse       = "reuse"
	UseExisting = "use_existing"
)

// Rules about items that name their ID.
const (
	// RuleBeside forbids runs of an ID beside one another, and a run after another one under reject.
	RuleBeside = "no run begins while another of its ID is open, or under reject after another"
	// RuleRefused requires a reason for each refusal.
	RuleRefused = "an item fails only because of a run that has its ID, and once"
	// RuleFollows requires that an item has a run that was started for it, or follows one under use_existing.
	RuleFollows = "an item ends when and as the run does that it started, or follows under use_existing"
	// RuleInOrder requires that the items of an ID wait for one another.
	RuleInOrder = "the items of an ID are started in the order of their claims"
)

// course is what happened to an item.
type course struct {
	claims         int
	token          int64     // of the last claim
	first, last    time.Time // when the transactions of these claims began
	settled, ended time.Time // settled: for the last time
}

func courses(changes []Change) map[string]*course {
	all := map[string]*course{}
	for _, c := range changes {
		if c.Kind != Item {
			continue
		}
		of := all[c.Execution]
		if of == nil {
			of = &course{}
			all[c.Execution] = of
		}
		switch {
		case c.Old == "PENDING" && c.New == "CLAIMED":
			if of.claims++; of.claims == 1 {
				of.first = c.Began
			}
			of.token, of.last = c.NewToken, c.Began
		case c.Old == "CLAIMED" && c.New != "CLAIMED":
			of.settled = c.At
		case c.Old == "DISPATCHED" && c.New != "DISPATCHED":
			of.ended = c.At
		}
	}
	return all
}

// id is an ID among those of its kind.
type id struct{ kind, name string }

// namings is the state of the check.
type namings struct {
	listed
	known      map[string]Expected
	courses    map[string]*course
	under      map[id][]*chain // oldest first
	violations []Violation
}

// fail adds a violation. What happened at that moment may have been forgotten since by a failover.
func (n *namings) fail(at time.Time, rule, format string, args ...any) {
	v := violation(rule, format, args...)
	v.At = at
	n.violations = append(n.violations, v)
}

// Named checks the items that name their ID, and the runs of these IDs.
func Named(expected []Expected, found []Found, runs []Run, changes []Change) []Violation {
	n := &namings{listed: list(runs), known: map[string]Expected{}, courses: courses(changes), under: map[id][]*chain{}}
	for _, e := range expected {
		n.known[e.Execution] = e
		if e.ID != "" {
			n.under[id{e.Kind, e.ID}] = nil
		}
	}
	for runID, c := range n.chains {
		of := id{c.runs[0].Kind, c.runs[0].ID}
		if _, ok := n.under[of]; ok && c.runs[0].RunID == runID {
			n.under[of] = append(n.under[of], c)
		}
	}
	for _, chains := range n.under {
		slices.SortFunc(chains, func(a, b *chain) int { return a.start.Compare(b.start) })
		n.beside(chains)
	}
	items := map[string][]string{}
	for _, f := range found {
		if e := n.known[f.Execution]; e.ID != "" && !e.Orphan && n.courses[f.Execution] != nil {
			items[e.ID] = append(items[e.ID], f.Execution)
			n.judge(e, f, n.courses[f.Execution])
		}
	}
	for _, executions := range items {
		n.inOrder(executions)
	}
	return n.violations
}

// accepted is how long before the end of another run one may begin by Temporal's times: Temporal takes the time of a
// start before it finds that the other is open, waits for its end, and goes on.
const accepted = time.Second

func (n *namings) beside(chains []*chain) {
	for i := 1; i < len(chains); i++ {
		before, c := chains[i-1], chains[i]
		run := c.runs[0]
		switch {
		case c.start.Before(before.ends.Add(-accepted)):
			n.fail(c.start, RuleBeside, "%s: run %s of %q began at %s, and %s of %q closed at %s", run.ID, run.RunID,
				run.Execution, clock(c.start), before.runs[0].RunID, before.runs[0].Execution, clock(before.ends))
		case n.known[run.Execution].Policy == Reject:
			n.fail(c.start, RuleBeside, "%s: run %s of %s began at %s under reject, after %s of %q", run.ID, run.RunID,
				run.Execution, clock(c.start), before.runs[0].RunID, before.runs[0].Execution)
		}
	}
}

// judge checks what became of an item.
func (n *namings) judge(e Expected, f Found, c *course) {
	run := n.chains[f.RunID]
	switch {
	case f.Status == "FAILED" && f.RunID == "":
		n.refused(e, f, c)
		return
	case f.RunID == "" || f.Status != "COMPLETED" && f.Status != "FAILED":
		return // it has not ended, which is found elsewhere
	case run == nil:
		n.fail(c.settled, RuleFollows, "%s has run %s, which Temporal does not list", f.Execution, f.RunID)
		return
	}
	first, last := run.runs[0], run.runs[len(run.runs)-1]
	switch {
	case first.Execution != f.Execution && e.Policy != UseExisting:
		n.fail(c.settled, RuleFollows, "%s has run %s of %q under %s", f.Execution, f.RunID, first.Execution, e.Policy)
	case id{first.Kind, first.ID} != id{e.Kind, e.ID}:
		n.fail(c.settled, RuleFollows, "%s names %s, and has run %s of %s", f.Execution, e.ID, f.RunID, first.ID)
	case first.Execution != f.Execution && (run.start.After(c.settled) || run.ends.Before(c.first)):
		n.fail(run.ends, RuleFollows, "%s follows %s, which ran from %s to %s, and was claimed from %s to %s", f.Execution,
			f.RunID, clock(run.start), clock(run.ends), clock(c.first), clock(c.settled))
	case last.Status != f.ExecutionStatus || (f.Status == "COMPLETED") != (last.Status == "COMPLETED"):
		n.fail(c.ended, RuleFollows, "%s is %s and its execution %s, and run %s %s", f.Execution, f.Status, f.ExecutionStatus,
			last.RunID, last.Status)
	case c.ended.Before(run.ends):
		n.fail(c.ended, RuleFollows, "%s ended at %s, before its run %s at %s", f.Execution, clock(c.ended), last.RunID,
			clock(run.ends))
	case f.Failures > 0:
		n.fail(c.settled, RuleCounted, "%s has %d failures of its own: %s", f.Execution, f.Failures, f.Error)
	}
}

// refused looks for the run because of which an item failed: before it did and, if a closed one does not matter, open
// since it was claimed.
func (n *namings) refused(e Expected, f Found, c *course) {
	because := slices.ContainsFunc(n.under[id{e.Kind, e.ID}], func(run *chain) bool {
		return run.start.Before(c.settled) && (e.Policy == Reject || !run.ends.Before(c.last))
	})
	if !because || e.Policy == UseExisting || f.Failures != 1 {
		n.fail(c.settled, RuleRefused, "%s failed under %s at %s, claimed at %s, with %d failures: %s", f.Execution, e.Policy,
			clock(c.settled), clock(c.last), f.Failures, f.Error)
	}
}

// inOrder compares the items of an ID that were claimed once: none is started before an earlier one is settled.
func (n *namings) inOrder(executions []string) {
	once := slices.DeleteFunc(executions, func(e string) bool { return n.courses[e].claims != 1 })
	slices.SortFunc(once, func(a, b string) int { return cmp.Compare(n.courses[a].token, n.courses[b].token) })
	var settled time.Time
	var by string
	for _, execution := range once {
		c, own := n.courses[execution], n.of[execution]
		// A claim that was forgotten may have started it earlier.
		if len(own) > 0 && !own[0].Start.Before(c.first) && own[0].Start.Before(settled) {
			n.fail(own[0].Start, RuleInOrder, "%s began at %s, and %s, which was claimed before, was settled at %s", execution,
				clock(own[0].Start), by, clock(settled))
		}
		if c.settled.After(settled) {
			settled, by = c.settled, execution
		}
	}
}
