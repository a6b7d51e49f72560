package audit

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Names of the rules about what is left after a run.
const (
	// RuleLost: nothing is lost.
	RuleLost = "every acknowledged row is there"
	// RuleEnd: everything ends as it should.
	RuleEnd = "every row ends as its workflow does"
	// RuleCounted: faults are not held against items.
	RuleCounted = "no failure is counted that only faults caused"
	// RulePhantom: nothing that was rolled back, or that nobody inserted, is there or ran.
	RulePhantom = "nothing runs that nobody committed"
	// RuleOneRun: one workflow for one execution.
	RuleOneRun = "one workflow for one execution"
	// RuleRunning: never over a workspace's limit in Temporal.
	RuleRunning = "never over a workspace's limit in Temporal"
)

// workflowPrefix is what a workflow ID is made of, before the execution ID.
const workflowPrefix = "execution-"

// Expected is a row as its application knows it.
type Expected struct {
	// Execution and Workspace name it.
	Execution, Workspace string
	// Want is the status that it must end with, and Or another that it may; empty: none.
	Want, Or string
	// Runs is how many runs its workflow has when it has all.
	Runs int
	// Counted: a failure of its own is right. Foreign: its workflow ID is taken by a stranger's workflow.
	Counted, Foreign bool
	// Lost: it was acknowledged by a server that took the row with it, and its workflow may have run.
	Lost bool
	// Acknowledged: its commit was answered. RolledBack: it was surely not committed. Neither: nobody knows.
	Acknowledged, RolledBack bool
}

// Found is a row as it stands in the database.
type Found struct {
	// Execution and Workspace name it.
	Execution, Workspace string
	// Status and Error are the item's.
	Status, Error string
	// Failures and Attempts are its counts.
	Failures, Attempts int
	// ExecutionStatus and RunID are the execution's; empty where there is none.
	ExecutionStatus, RunID string
}

// Run is a run as Temporal tells it.
type Run struct {
	// WorkflowID and RunID name it.
	WorkflowID, RunID string
	// Status is how it ended, or RUNNING.
	Status string
	// Start and Close are Temporal's times; Close is zero where it runs.
	Start, Close time.Time
}

// Rows compares what applications know with what the database has. Resolved is how many unknown commits turned out to
// have happened.
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
			violations = append(violations, violation(RulePhantom, "%s is in the table, and nobody inserted it", f.Execution))
			continue
		case e.RolledBack:
			violations = append(violations, violation(RulePhantom, "%s is in the table, and was rolled back", f.Execution))
		case !e.Acknowledged:
			resolved++
		}
		if f.Status != e.Want && (e.Or == "" || f.Status != e.Or) {
			violations = append(violations, violation(RuleEnd, "%s is %s and should be %s: %s", f.Execution, f.Status, e.Want, f.Error))
		}
		if f.Failures > 0 && !e.Counted {
			violations = append(violations, violation(RuleCounted, "%s has %d failures of its own: %s", f.Execution, f.Failures, f.Error))
		}
	}
	for _, e := range expected {
		if e.Acknowledged && !there[e.Execution] {
			violations = append(violations, violation(RuleLost, "%s was committed and is gone", e.Execution))
		}
	}
	return violations, resolved
}

// Missing are the acknowledged rows that the database does not have.
func Missing(expected []Expected, found []Found) []Expected {
	there := map[string]bool{}
	for _, f := range found {
		there[f.Execution] = true
	}
	return slices.DeleteFunc(slices.Clone(expected), func(e Expected) bool { return !e.Acknowledged || there[e.Execution] })
}

// Complete says whether Temporal's list has every run that the rows speak of: it comes a moment late.
func Complete(expected []Expected, found []Found, runs []Run) bool {
	listed := map[string]int{}
	for _, r := range runs {
		if r.Status != "RUNNING" {
			listed[r.WorkflowID]++
		}
	}
	wanted := map[string]int{}
	for _, e := range expected {
		wanted[e.Execution] = e.Runs
	}
	for _, f := range found {
		if f.RunID != "" && listed[workflowPrefix+f.Execution] < max(wanted[f.Execution], 1) {
			return false
		}
	}
	return true
}

// Runs compares what Temporal ran with what the rows say.
func Runs(expected []Expected, found []Found, runs []Run) []Violation {
	var violations []Violation
	byWorkflow := map[string][]Run{}
	for _, r := range runs {
		byWorkflow[r.WorkflowID] = append(byWorkflow[r.WorkflowID], r)
	}
	wanted, foreign, lost := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, e := range expected {
		wanted[e.Execution], foreign[e.Execution], lost[e.Execution] = e.Runs, e.Foreign, e.Lost
	}
	rows := map[string]Found{}
	for _, f := range found {
		rows[f.Execution] = f
		if foreign[f.Execution] && f.RunID == "" {
			continue
		}
		violations = append(violations, chain(f, byWorkflow[workflowPrefix+f.Execution], max(wanted[f.Execution], 1))...)
	}
	for id, list := range byWorkflow {
		execution := strings.TrimPrefix(id, workflowPrefix)
		if _, ok := rows[execution]; !ok && !lost[execution] {
			violations = append(violations, violation(RulePhantom, "%s ran %d times from %s, and has no row", id, len(list), clock(list[0].Start)))
		}
	}
	return violations
}

// chain checks the runs of one row.
func chain(f Found, runs []Run, wanted int) []Violation {
	if f.RunID == "" {
		if len(runs) == 0 {
			return nil
		}
		return []Violation{violation(RuleOneRun, "%s is %s without a run, and has %d in Temporal", f.Execution, f.Status, len(runs))}
	}
	slices.SortFunc(runs, func(a, b Run) int { return a.Start.Compare(b.Start) })
	if len(runs) != wanted {
		return []Violation{violation(RuleOneRun, "%s has %d runs in Temporal and should have %d", f.Execution, len(runs), wanted)}
	}
	if !slices.ContainsFunc(runs, func(r Run) bool { return r.RunID == f.RunID }) {
		return []Violation{violation(RuleOneRun, "%s has run %s in its row, which Temporal does not know", f.Execution, f.RunID)}
	}
	if last := runs[len(runs)-1]; last.Status != f.ExecutionStatus {
		return []Violation{violation(RuleEnd, "%s is %s in Temporal and %s in its row", f.Execution, last.Status, f.ExecutionStatus)}
	}
	return nil
}

// Running replays Temporal's own times against each workspace's limit. Limits are the greatest that ever held. It returns
// the greatest number that ran at once, by workspace.
func Running(expected []Expected, found []Found, runs []Run, limits map[string]int) (violations []Violation, greatest map[string]int) {
	type event struct {
		at    time.Time
		delta int
		id    string
	}
	workspace := map[string]string{}
	for _, f := range found {
		workspace[workflowPrefix+f.Execution] = f.Workspace
	}
	events := map[string][]event{}
	for _, e := range expected {
		if e.Foreign {
			delete(workspace, workflowPrefix+e.Execution)
		}
	}
	for id, list := range group(runs) {
		owner, ok := workspace[id]
		if !ok {
			continue // a phantom, which is told elsewhere, or a stranger's
		}
		// One slot from the first run's start to the last one's end.
		events[owner] = append(events[owner], event{list[0].Start, 1, id})
		if last := list[len(list)-1]; !last.Close.IsZero() {
			events[owner] = append(events[owner], event{last.Close, -1, id})
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
				v := violation(RuleRunning, "workspace %s ran %d of %d when %s was started at %s", owner, running, limit, e.id, clock(e.at))
				v.At = e.at
				violations = append(violations, v)
			}
		}
	}
	return violations, greatest
}

// group sorts runs by workflow, oldest first.
func group(runs []Run) map[string][]Run {
	grouped := map[string][]Run{}
	for _, r := range runs {
		grouped[r.WorkflowID] = append(grouped[r.WorkflowID], r)
	}
	for _, list := range grouped {
		slices.SortFunc(list, func(a, b Run) int { return a.Start.Compare(b.Start) })
	}
	return grouped
}
