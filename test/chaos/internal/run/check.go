package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

const (
	// quiescence bounds the wait until everything has ended after the last fault. Temporal itself retries the work
	// that was under way when it died only after 10 s, and a long poll that was sent into a hole is given up after a
	// minute.
	quiescence = 100 * time.Second
	// tellInterval is the interval between progress messages while waiting.
	tellInterval = 5 * time.Second
	// elasticMost is the greatest limit that the faults ever give to a workspace.
	elasticMost = 6
)

// Rules of the check in addition to those of package audit.
const (
	ruleQuiet = "everything ends after the last fault"
	ruleBooks = "no execution is open once every item has ended"
	ruleSlots = "every slot can be used again"
	ruleKept  = "what ended long ago is deleted, with all that belongs to it"
	ruleSees  = "the audit sees a violation of each rule in this run's record"
)

// overdue is the age at which a deletion is late: a pass begins each minute, and a fault may take one or two.
const overdue = lab.KeepFailed + 4*time.Minute

// Check is the result of the check after a run.
type Check struct {
	// Lost counts rows that were acknowledged by a server whose standby did not have them. Excused counts the starts
	// over a workspace's limit, and the withdrawn items that run, because of claims lost with that server.
	Lost, Excused int
	// Acknowledged, Unknown, Resolved and RolledBack count the applications' rows. Resolved is the number of unknown
	// rows that exist.
	Acknowledged, Unknown, Resolved, RolledBack int
	// Repeated is the number of claims beyond each item's first, excluding claims that were handed back unused.
	Repeated int
	// Runs is the number of runs in Temporal. Signals, Calls and Pushes count what else applications did and was
	// checked: signals, calls of enqueue with a key, and reports of ends.
	Runs, Signals, Calls, Pushes int
	// Kinds counts what was started besides workflows with an ID of their execution.
	Kinds Kinds
	// Replay is the result of replaying the database's changes.
	Replay audit.Summary
	// Planted is the number of planted violations that the audit has seen in this run's record.
	Planted int
	// Running holds the most workflows of a workspace that ran at the same time, and its limit.
	Running map[string][2]int
	// Quiet is how long everything took to end after the last fault.
	Quiet time.Duration
	// Resources are the replicas' resources at the end, beside those at the beginning.
	Resources []Resource
	// Violations are the broken rules.
	Violations []audit.Violation
}

// Kinds counts items by what becomes of them.
type Kinds struct {
	// Activities are those in Temporal. Stopped counts the items whose workflow or activity was cancelled, and Late those
	// that were too late for their start_before.
	Activities, Stopped, Late int
	// Named counts the items that name their ID: some were Refused because of another run, some Followed one.
	Named, Refused, Followed int
}

func (k *Kinds) add(other Kinds) {
	k.Activities += other.Activities
	k.Stopped += other.Stopped
	k.Late += other.Late
	k.Named += other.Named
	k.Refused += other.Refused
	k.Followed += other.Followed
}

// Examine stops the load, waits for the end of everything, and compares all books. All faults must have been lifted.
func Examine(ctx context.Context, l *lab.Lab, baseline Resource) (Check, error) {
	var c Check
	l.Load.End()
	if err := c.quiet(ctx, l); err != nil {
		return c, err
	}
	if err := c.slots(ctx, l); err != nil {
		return c, err
	}
	if err := c.books(ctx, l); err != nil {
		return c, err
	}
	if err := c.histories(ctx, l); err != nil {
		return c, err
	}
	err := c.resources(ctx, l, baseline)
	return c, err
}

func (c *Check) fail(rule, format string, args ...any) {
	c.Violations = append(c.Violations, audit.Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)})
}

// quiet waits until nothing is open.
func (c *Check) quiet(ctx context.Context, l *lab.Lab) error {
	began := time.Now()
	var open int
	var oldest []string
	told := began
	for {
		if err := l.Row(ctx, "open_items", nil, &open, &oldest); err != nil {
			return err
		}
		c.Quiet = time.Since(began)
		if time.Since(told) > tellInterval {
			told = time.Now()
			l.Logf("%d items are open, among them %q", open, oldest)
		}
		if open == 0 {
			l.Logf("everything has ended, %.1f s after the last fault", c.Quiet.Seconds())
			return nil
		}
		if c.Quiet > quiescence {
			c.fail(ruleQuiet, "%d items are open %s after the last fault, among them %q", open, quiescence, oldest)
			return nil
		}
		if err := lab.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// books checks that no execution is open once every item has ended, and that what ended long ago is deleted.
func (c *Check) books(ctx context.Context, l *lab.Lab) error {
	var open, old int
	left, err := lab.Rows(ctx, l, "left_behind", pgx.RowTo[string])
	err = errors.Join(err, l.Row(ctx, "executions_open", nil, &open), l.Row(ctx, "overdue", []any{overdue}, &old))
	if err != nil {
		return err
	}
	if open > 0 && c.Quiet <= quiescence {
		c.fail(ruleBooks, "%d executions are open though every item has ended", open)
	}
	if old > 0 {
		c.fail(ruleKept, "%d items ended longer than %s ago, and are there", old, overdue)
	}
	for _, place := range left {
		c.fail(ruleKept, "a row of a deleted item is left in %s", place)
	}
	return nil
}

// histories compares the applications' books, the database's history and Temporal's list.
func (c *Check) histories(ctx context.Context, l *lab.Lab) error {
	changes, err := lab.Changes(ctx, l)
	if err != nil {
		return err
	}
	found, err := lab.AllFound(ctx, l)
	if err != nil {
		return err
	}
	r := &audit.Record{Cap: lab.Cap, Changes: changes, Found: found, Limits: map[string]int{},
		Expected: c.expected(resolve(l.Load.Rows(), l.Load.Calls(), changes))}
	if r.Runs, err = lab.AllRuns(ctx, l, r.Expected, found); err != nil {
		return err
	}
	if err := c.applications(ctx, l, r); err != nil {
		return err
	}
	for _, w := range l.Load.Workspaces {
		r.Limits[w.ID] = w.Limit
		if w.Elastic {
			r.Limits[w.ID] = elasticMost
		}
	}
	j := r.Judge()
	c.Replay, c.Resolved, c.Runs = j.Summary, j.Resolved, len(r.Runs)
	c.Violations = append(c.Violations, l.Violations()...)
	c.excuse(l, j.Violations)
	for _, f := range found {
		c.Repeated += max(f.Attempts-1, 0)
	}
	c.Running = map[string][2]int{}
	for _, w := range l.Load.Workspaces {
		c.Running[w.Name] = [2]int{j.Greatest[w.ID], r.Limits[w.ID]}
	}
	c.kinds(r.Expected, found, r.Runs)
	blind, seen := r.Blind()
	c.Planted = seen
	for _, plant := range blind {
		c.fail(ruleSees, "%s: not seen", plant)
	}
	return nil
}

// excuse adds violations, and only counts those of moments in which a failover has forgotten claims: their workflows
// run while their slots are given to other items. This is the cost of an asynchronous standby.
func (c *Check) excuse(l *lab.Lab, violations []audit.Violation) {
	for _, v := range violations {
		if slices.ContainsFunc(l.Lossy(), func(w lab.Window) bool { return w.Contains(v.At) }) {
			c.Excused++
		} else {
			c.Violations = append(c.Violations, v)
		}
	}
}

// kinds counts what was started.
func (c *Check) kinds(expected []audit.Expected, found []audit.Found, runs []audit.Run) {
	known, own := map[string]audit.Expected{}, map[string]bool{}
	for _, e := range expected {
		known[e.Execution] = e
	}
	for _, r := range runs {
		own[r.Execution] = true
		c.Kinds.Activities += count(r.Kind == audit.Activity)
	}
	for _, f := range found {
		e := known[f.Execution]
		named := e.ID != ""
		c.Kinds.Named += count(named)
		c.Kinds.Refused += count(named && f.RunID == "" && f.Status == "FAILED")
		c.Kinds.Followed += count(named && f.RunID != "" && !own[f.Execution])
		c.Kinds.Late += count(f.Status == "CANCELLED" && strings.Contains(f.Error, "start_before"))
		c.Kinds.Stopped += count(f.ExecutionStatus == "CANCELED" && f.RunID != "")
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (c *Check) expected(rows []lab.Row) []audit.Expected {
	expected := make([]audit.Expected, 0, len(rows))
	for _, row := range rows {
		e := audit.Expected{Execution: row.Execution, Workspace: row.Workspace, Kind: row.Kind, ID: row.ID,
			Policy: row.Policy, Want: row.Want, Or: row.Or, Runs: row.Runs, MostRuns: row.MostRuns, Counted: row.Counted,
			Foreign:      row.Foreign,
			Acknowledged: row.Known == lab.Acknowledged, RolledBack: row.Known == lab.RolledBack}
		switch row.Known {
		case lab.Acknowledged:
			c.Acknowledged++
		case lab.Lost:
			c.Lost++
			e.Lost = true
		case lab.Unknown:
			c.Unknown++
		case lab.RolledBack:
			c.RolledBack++
		}
		expected = append(expected, e)
	}
	return expected
}
