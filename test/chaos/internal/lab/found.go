package lab

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

// listTimeout bounds the wait until Temporal's list, which lags behind, is complete, and listInterval is between two
// attempts to read it.
const listTimeout, listInterval = 30 * time.Second, 100 * time.Millisecond

// Violate records a broken rule, for the check at the end.
func (l *Lab) Violate(v audit.Violation) {
	l.Logf("VIOLATION %s", v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, v)
}

// Violations returns what Violate has recorded.
func (l *Lab) Violations() []audit.Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.violations
}

// Changes reads the recorded changes, in commit order.
func Changes(ctx context.Context, of Asked) ([]audit.Change, error) {
	return Rows(ctx, of, "changes", scanChange)
}

func scanChange(row pgx.CollectableRow) (c audit.Change, err error) {
	var moved, startBefore *time.Time
	var ahead int64
	err = row.Scan(&c.Kind, &c.ID, &c.Execution, &c.Workspace, &c.Key, &c.PolicyKey, &c.Marker,
		&c.Old, &c.New, &c.OldToken, &c.NewToken, &c.Held, &c.Holds,
		&c.OldOwner, &c.NewOwner, &c.OldLease, &c.NewLease, &moved, &startBefore, &c.Limit, &c.Paused,
		&c.PerSecond, &c.Starts, &c.Periods, &c.Keep, &c.KeepFailed,
		&c.Began, &c.At, &c.Committed, &c.Transaction, &ahead)
	c.Ahead = time.Duration(ahead) * time.Second
	if moved != nil {
		c.Moved = *moved
	}
	if startBefore != nil {
		c.StartBefore = *startBefore
	}
	return c, err
}

// AllFound reads every item. Found reads one, if it exists.
func AllFound(ctx context.Context, of Asked) ([]audit.Found, error) {
	return Rows(ctx, of, "rows", scanFound)
}

// Found reads an item, if it exists.
func Found(ctx context.Context, of Asked, execution string) ([]audit.Found, error) {
	return Rows(ctx, of, "cell_row", scanFound, execution)
}

func scanFound(row pgx.CollectableRow) (f audit.Found, err error) {
	err = row.Scan(&f.Execution, &f.Workspace, &f.Status, &f.Failures, &f.Attempts, &f.Error, &f.Said,
		&f.ExecutionStatus, &f.RunID)
	return f, err
}

// Lister lists the runs in Temporal.
func (l *Lab) Lister() *temporal.Lister {
	return &temporal.Lister{Client: l.Client, Namespace: namespace}
}

// Lister lists the runs in the cells' namespace.
func (c *Cell) Lister() *temporal.Lister {
	return &temporal.Lister{Client: c.Client, Namespace: cellNamespace}
}

// AllRuns lists all runs. It retries after errors, and until the list is complete, for listTimeout.
func AllRuns(ctx context.Context, l *Lab, expected []audit.Expected, found []audit.Found) ([]audit.Run, error) {
	return runs(ctx, l.Lister(), "", expected, found)
}

// RunsOf lists the runs under an item's ID like AllRuns.
func RunsOf(ctx context.Context, c *Cell, expected audit.Expected, found []audit.Found) ([]audit.Run, error) {
	id := cmp.Or(expected.ID, temporal.WorkflowID(expected.Execution))
	return runs(ctx, c.Lister(), id, []audit.Expected{expected}, found)
}

func runs(ctx context.Context, l *temporal.Lister, id string, expected []audit.Expected, found []audit.Found,
) ([]audit.Run, error) {
	deadline := time.Now().Add(listTimeout)
	for {
		listed, err := l.Runs(ctx, id) // a busy Temporal may not answer in time
		late := time.Now().After(deadline)
		if err != nil && late {
			return nil, err
		}
		runs := make([]audit.Run, 0, len(listed))
		for _, r := range listed {
			runs = append(runs, audit.Run(r))
		}
		if err == nil && (late || audit.Complete(expected, found, runs)) {
			return runs, nil
		}
		if err := Sleep(ctx, listInterval); err != nil {
			return nil, err
		}
	}
}
