package audit

import (
	"cmp"
	"slices"
	"time"
)

// Rules about the final state of a run.
const (
	// RuleLost forbids lost rows.
	RuleLost = "every acknowledged row exists"
	// RuleEnd requires that every row ends as expected.
	RuleEnd = "every row ends like its workflow"
	// RuleCounted forbids counting failures that were caused by faults only.
	RuleCounted = "failures caused by faults are not counted"
	// RulePhantom forbids rows and runs that were rolled back or never inserted.
	RulePhantom = "only committed rows run"
	// RuleOneRun requires one workflow, or one activity, per execution.
	RuleOneRun = "one workflow or activity per execution"
	// RuleRunning forbids exceeding a workspace's limit in Temporal.
	RuleRunning = "no workspace exceeds its limit in Temporal"
)

// Expected is a row as its application knows it.
type Expected struct {
	// Execution and Workspace identify the row.
	Execution, Workspace string
	// Kind is what it starts: Workflow or Activity. ID is the ID that it names, and Policy what happens if there is a run
	// of that. Empty means that it names none.
	Kind, ID, Policy string
	// Want is the status that the row must end with. Or is another allowed status, or empty.
	Want, Or string
	// Runs is how many runs its workflow has once it is complete.
	Runs int
	// MostRuns is how many runs it may have, if that varies.
	MostRuns int
	// Counted allows a counted failure of the row itself. Foreign means that an unrelated workflow has taken its
	// workflow ID. Orphan means that it lost three holders in a row.
	Counted, Foreign, Orphan bool
	// Lost means that the row was acknowledged by a server that was lost together with the row. Its workflow may have
	// run.
	Lost bool
	// Acknowledged means that the commit was answered. RolledBack means that the row was certainly not committed. If
	// neither is set, the outcome is unknown.
	Acknowledged, RolledBack bool
}

// Found is a row as found in the database.
type Found struct {
	// Execution and Workspace identify the row.
	Execution, Workspace string
	// Status and Error are the item's.
	Status, Error string
	// Failures and Attempts are the item's counts.
	Failures, Attempts int
	// Said is the reason, the note and the result that the execution ended with.
	Said string
	// ExecutionStatus and RunID are the execution's. They are empty if there is no execution.
	ExecutionStatus, RunID string
}

// Run is a run of a workflow or an activity as listed by Temporal.
type Run struct {
	// Kind is Workflow or Activity. ID and RunID identify the run among its kind.
	Kind, ID, RunID string
	// Execution is the execution that it was started for. Empty means that it is unrelated.
	Execution string
	// Status is how the run ended, or RUNNING.
	Status string
	// Start and Close are Temporal's times. Close is zero while the run is open.
	Start, Close time.Time
}

// Rows compares the applications' books with the database. Resolved is the number of unknown commits that turned out
// to have happened.
func Rows(expected []Expected, found []Found) (violations []Violation, resolved int) {
	known := map[string]*Expected{}
	for i := range expected {
		known[expected[i].Execution] = &expected[i]
	}
	there := map[string]bool{}
	for _, f := range found {
		there[f.Execution] = true
		e := known[f.Execution]
		switch {
		case e == nil:
			violations = append(violations, violation(RulePhantom, "%s is in the table, but was not inserted", f.Execution))
			continue
		case e.RolledBack:
			violations = append(violations, violation(RulePhantom, "%s is in the table, but was rolled back", f.Execution))
		case !e.Acknowledged:
			resolved++
		}
		if f.Status != e.Want && (e.Or == "" || f.Status != e.Or) {
			violations = append(violations,
				violation(RuleEnd, "%s is %s and should be %s: %s", f.Execution, f.Status, e.Want, f.Error))
		}
		if f.Failures > 0 && !e.Counted {
			violations = append(violations,
				violation(RuleCounted, "%s has %d failures of its own: %s", f.Execution, f.Failures, f.Error))
		}
	}
	for _, e := range expected {
		if e.Acknowledged && !there[e.Execution] {
			violations = append(violations, violation(RuleLost, "%s was committed and is missing", e.Execution))
		}
	}
	return violations, resolved
}

// Missing returns the acknowledged rows that the database does not have.
func Missing(expected []Expected, found []Found) []Expected {
	there := map[string]bool{}
	for _, f := range found {
		there[f.Execution] = true
	}
	return slices.DeleteFunc(slices.Clone(expected),
		func(e Expected) bool { return !e.Acknowledged || there[e.Execution] })
}

// Complete reports whether Temporal's list, which lags behind, has every run that the rows mention.
func Complete(expected []Expected, found []Found, runs []Run) bool {
	l := list(runs)
	wanted := map[string]int{}
	for _, e := range expected {
		wanted[e.Execution] = e.Runs
	}
	for _, f := range found {
		if f.RunID == "" {
			continue
		}
		c := l.of[f.Execution]
		if followed := l.chains[f.RunID]; len(c) == 0 && followed != nil {
			c = followed.runs
		} else if len(c) < wanted[f.Execution] {
			return false
		}
		isOpen := func(r Run) bool { return r.Status == "RUNNING" }
		if len(c) == 0 || slices.ContainsFunc(c, isOpen) || c[len(c)-1].Status == "CONTINUED_AS_NEW" {
			return false
		}
	}
	return true
}

// Runs compares Temporal's runs with the rows.
func Runs(expected []Expected, found []Found, runs []Run) []Violation {
	var violations []Violation
	known := map[string]Expected{}
	for _, e := range expected {
		known[e.Execution] = e
	}
	l := list(runs)
	rows := map[string]bool{}
	for _, f := range found {
		rows[f.Execution] = true
		e, own := known[f.Execution], l.of[f.Execution]
		switch {
		case e.Foreign && f.RunID == "":
		case e.ID != "" && f.RunID != "" && len(own) == 0: // it follows another's: see Named
		default:
			violations = append(violations, chained(e, f, own)...)
		}
	}
	for execution, own := range l.of {
		if !rows[execution] && !known[execution].Lost {
			violations = append(violations,
				violation(RulePhantom, "%s ran %d times from %s, and has no row", execution, len(own), clock(own[0].Start)))
		}
	}
	return violations
}

// chained checks the runs that were started for a row.
func chained(e Expected, f Found, runs []Run) []Violation {
	if f.RunID == "" || f.Status == "CANCELLED" {
		if len(runs) == 0 {
			return nil
		}
		v := violation(RuleOneRun, "%s is %s without a run, and has %d in Temporal", f.Execution, f.Status, len(runs))
		v.At = runs[0].Start // a failover may have forgotten it, and then the item was withdrawn
		return []Violation{v}
	}
	fewest := max(e.Runs, 1)
	if most := max(e.MostRuns, fewest); len(runs) < fewest || len(runs) > most {
		return []Violation{violation(RuleOneRun, "%s has %d runs in Temporal and should have from %d to %d",
			f.Execution, len(runs), fewest, most)}
	}
	if !slices.ContainsFunc(runs, func(r Run) bool { return r.RunID == f.RunID }) {
		return []Violation{violation(RuleOneRun,
			"%s has run %s in its row, which Temporal does not list", f.Execution, f.RunID)}
	}
	for _, r := range runs {
		if e.Kind != "" && r.Kind != e.Kind {
			return []Violation{violation(RuleOneRun, "%s should be one %s, and is run %s, one %s", f.Execution, e.Kind, r.RunID,
				r.Kind)}
		}
	}
	if last := runs[len(runs)-1]; last.Status != f.ExecutionStatus {
		return []Violation{violation(RuleEnd, "%s is %s in Temporal and %s in its row", f.Execution,
			last.Status, f.ExecutionStatus)}
	}
	return nil
}

// Running replays Temporal's own times against each workspace's limit. Limits holds each workspace's greatest limit
// during the run. Running returns the most workflows that ran at the same time, by workspace.
func Running(
	expected []Expected, found []Found, runs []Run, limits map[string]int,
) (violations []Violation, greatest map[string]int) {
	type event struct {
		at    time.Time
		delta int
		id    string
	}
	workspace := map[string]string{}
	for _, f := range found {
		workspace[f.Execution] = f.Workspace
	}
	events := map[string][]event{}
	for _, e := range expected {
		if e.Foreign {
			delete(workspace, e.Execution)
		}
	}
	for execution, own := range list(runs).of {
		owner, ok := workspace[execution]
		if !ok {
			continue // a phantom, which is reported elsewhere, or an unrelated workflow
		}
		// A chain of runs uses one slot, from the first run's start to the last run's end.
		events[owner] = append(events[owner], event{own[0].Start, 1, execution})
		if last := own[len(own)-1]; !last.Close.IsZero() {
			events[owner] = append(events[owner], event{last.Close, -1, execution})
		}
	}
	greatest = map[string]int{}
	for owner, list := range events {
		slices.SortFunc(list, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.delta, b.delta)) })
		running := 0
		for _, e := range list {
			running += e.delta
			greatest[owner] = max(greatest[owner], running)
			if limit, ok := limits[owner]; ok && e.delta > 0 && running > limit {
				v := violation(RuleRunning, "workspace %s ran %d of %d when %s was started at %s", owner, running,
					limit, e.id, clock(e.at))
				v.At = e.at
				violations = append(violations, v)
			}
		}
	}
	return violations, greatest
}

// chain is a run, and those that continue it as new, oldest first.
type chain struct {
	runs        []Run
	start, ends time.Time // ends is far in the future while it is open
}

// listed are runs as they belong together.
type listed struct {
	of     map[string][]Run  // by execution, oldest first
	chains map[string]*chain // by each of their runs
}

func list(runs []Run) listed {
	l := listed{of: map[string][]Run{}, chains: map[string]*chain{}}
	byStart := func(a, b Run) int { return a.Start.Compare(b.Start) }
	for _, r := range slices.SortedStableFunc(slices.Values(runs), byStart) {
		c := &chain{start: r.Start}
		if r.Execution != "" {
			before := l.of[r.Execution]
			if len(before) > 0 && before[len(before)-1].Status == "CONTINUED_AS_NEW" {
				c = l.chains[before[len(before)-1].RunID]
			}
			l.of[r.Execution] = append(before, r)
		}
		if c.runs, c.ends = append(c.runs, r), r.Close; r.Close.IsZero() {
			c.ends = never
		}
		l.chains[r.RunID] = c
	}
	return l
}

// never is later than everything.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
