package audit

import (
	"cmp"
	"slices"
	"strings"
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
	// RuleOneRun requires one workflow per execution.
	RuleOneRun = "one workflow per execution"
	// RuleRunning forbids exceeding a workspace's limit in Temporal.
	RuleRunning = "no workspace exceeds its limit in Temporal"
)

// workflowPrefix precedes the execution ID in a workflow ID.
const workflowPrefix = "execution-"

// Expected is a row as its application knows it.
type Expected struct {
	// Execution and Workspace identify the row.
	Execution, Workspace string
	// Want is the status that the row must end with. Or is another allowed status, or empty.
	Want, Or string
	// Runs is how many runs its workflow has once it is complete.
	Runs int
	// MostRuns is how many runs it may have, if that varies.
	MostRuns int
	// Counted allows a counted failure of the row itself. Foreign means that an unrelated workflow has taken its
	// workflow ID.
	Counted, Foreign bool
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

// Run is a run as listed by Temporal.
type Run struct {
	// WorkflowID and RunID identify the run.
	WorkflowID, RunID string
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
	listed, ended := map[string]int{}, map[string]bool{}
	for _, r := range runs {
		if r.Status != "RUNNING" {
			listed[r.WorkflowID]++
		}
		ended[r.WorkflowID] = ended[r.WorkflowID] || r.Status != "RUNNING" && r.Status != "CONTINUED_AS_NEW"
	}
	wanted := map[string]int{}
	for _, e := range expected {
		wanted[e.Execution] = e.Runs
	}
	for _, f := range found {
		id := workflowPrefix + f.Execution
		if f.RunID != "" && (listed[id] < max(wanted[f.Execution], 1) || !ended[id]) {
			return false
		}
	}
	return true
}

// Runs compares Temporal's runs with the rows.
func Runs(expected []Expected, found []Found, runs []Run) []Violation {
	var violations []Violation
	byWorkflow := map[string][]Run{}
	for _, r := range runs {
		byWorkflow[r.WorkflowID] = append(byWorkflow[r.WorkflowID], r)
	}
	wanted, most, foreign, lost := map[string]int{}, map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, e := range expected {
		wanted[e.Execution], foreign[e.Execution], lost[e.Execution] = e.Runs, e.Foreign, e.Lost
		most[e.Execution] = e.MostRuns
	}
	rows := map[string]Found{}
	for _, f := range found {
		rows[f.Execution] = f
		if foreign[f.Execution] && f.RunID == "" {
			continue
		}
		fewest := max(wanted[f.Execution], 1)
		violations = append(violations,
			chain(f, byWorkflow[workflowPrefix+f.Execution], fewest, max(most[f.Execution], fewest))...)
	}
	for id, list := range byWorkflow {
		execution := strings.TrimPrefix(id, workflowPrefix)
		if _, ok := rows[execution]; !ok && !lost[execution] {
			violations = append(violations,
				violation(RulePhantom, "%s ran %d times from %s, and has no row", id, len(list), clock(list[0].Start)))
		}
	}
	return violations
}

// chain checks the runs of one row.
func chain(f Found, runs []Run, fewest, most int) []Violation {
	if f.RunID == "" {
		if len(runs) == 0 {
			return nil
		}
		return []Violation{violation(RuleOneRun, "%s is %s without a run, and has %d in Temporal",
			f.Execution, f.Status, len(runs))}
	}
	slices.SortFunc(runs, func(a, b Run) int { return a.Start.Compare(b.Start) })
	if len(runs) < fewest || len(runs) > most {
		return []Violation{violation(RuleOneRun, "%s has %d runs in Temporal and should have from %d to %d",
			f.Execution, len(runs), fewest, most)}
	}
	if !slices.ContainsFunc(runs, func(r Run) bool { return r.RunID == f.RunID }) {
		return []Violation{violation(RuleOneRun,
			"%s has run %s in its row, which Temporal does not list", f.Execution, f.RunID)}
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
			continue // a phantom, which is reported elsewhere, or an unrelated workflow
		}
		// A chain of runs uses one slot, from the first run's start to the last run's end.
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
				v := violation(RuleRunning, "workspace %s ran %d of %d when %s was started at %s", owner, running,
					limit, e.id, clock(e.at))
				v.At = e.at
				violations = append(violations, v)
			}
		}
	}
	return violations, greatest
}

// group groups runs by workflow, oldest first.
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
