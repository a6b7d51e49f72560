package lab

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

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
	var moved *time.Time
	var ahead int64
	err = row.Scan(&c.Kind, &c.ID, &c.Execution, &c.Workspace, &c.Key, &c.PolicyKey, &c.Marker,
		&c.Old, &c.New, &c.OldToken, &c.NewToken, &c.Held, &c.Holds,
		&c.OldOwner, &c.NewOwner, &c.OldLease, &c.NewLease, &moved, &c.Limit, &c.Paused,
		&c.Began, &c.At, &c.Committed, &c.Transaction, &ahead)
	c.Ahead = time.Duration(ahead) * time.Second
	if moved != nil {
		c.Moved = *moved
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

// AllRuns lists all runs. It retries after errors, and until the list is complete, for listTimeout.
func AllRuns(
	ctx context.Context, c client.Client, expected []audit.Expected, found []audit.Found,
) ([]audit.Run, error) {
	return runs(ctx, expected, found, func() ([]temporal.Run, error) { return temporal.Runs(ctx, c) })
}

// RunsOf lists the runs of an item like AllRuns.
func RunsOf(ctx context.Context, c *Cell, expected audit.Expected, found []audit.Found) ([]audit.Run, error) {
	return runs(ctx, []audit.Expected{expected}, found,
		func() ([]temporal.Run, error) { return temporal.RunsOf(ctx, c.Client, expected.Execution) })
}

func runs(ctx context.Context, expected []audit.Expected, found []audit.Found, list func() ([]temporal.Run, error),
) ([]audit.Run, error) {
	deadline := time.Now().Add(listTimeout)
	for {
		listed, err := list() // a busy Temporal may not answer in time
		late := time.Now().After(deadline)
		if err != nil && late {
			return nil, err
		}
		runs := make([]audit.Run, 0, len(listed))
		for _, r := range listed {
			runs = append(runs,
				audit.Run{WorkflowID: r.WorkflowID, RunID: r.RunID, Status: r.Status, Start: r.Start, Close: r.Close})
		}
		if err == nil && (late || audit.Complete(expected, found, runs)) {
			return runs, nil
		}
		if err := Sleep(ctx, listInterval); err != nil {
			return nil, err
		}
	}
}
