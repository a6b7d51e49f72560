package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

const (
	// readers is how many results of workflows are read from Temporal at the same time.
	readers = 8
	// before is how long before a standby stopped following something may have begun that a failover to it has changed.
	before = 10 * time.Second
)

// applications adds to the record what applications do besides inserting: signals, calls of enqueue, and reports of
// ends. What a failover to a standby without the last commits has changed is left out.
func (c *Check) applications(ctx context.Context, l *lab.Lab, r *audit.Record) error {
	lossy := l.Lossy()
	overlaps := func(from, to time.Time) bool {
		return slices.ContainsFunc(lossy,
			func(w lab.Window) bool { return !to.Before(w.From.Add(-before)) && !from.After(w.To) })
	}
	for _, p := range l.Load.Pushes() {
		if !overlaps(p.At, p.At) {
			r.Pushes = append(r.Pushes, p.Push)
		}
	}
	c.Pushes = len(r.Pushes)

	ended := map[string]bool{}
	for _, f := range r.Found {
		ended[f.Execution] = f.Status == "COMPLETED"
	}
	var signalled []string
	signals := l.Load.Signals()
	for execution, s := range signals {
		if ended[execution] && !overlaps(s.Window.From, s.Window.To) {
			signalled = append(signalled, execution)
		}
	}
	received, err := results[[]int](ctx, l, signalled, func(execution string) string { return signals[execution].ID })
	if err != nil {
		return err
	}
	r.Signals = map[string]audit.Received{}
	for _, execution := range signalled {
		c.Signals += len(signals[execution].Signals)
		r.Signals[execution] = audit.Received{Sent: signals[execution].Signals, Received: received[execution]}
	}
	return c.policies(ctx, l, r, ended, overlaps)
}

func (c *Check) policies(ctx context.Context, l *lab.Lab, r *audit.Record, ended map[string]bool,
	overlaps func(from, to time.Time) bool) (err error) {
	calls := slices.Clone(l.Load.Calls())
	r.Calls, c.Calls = calls, len(calls)
	skipped := map[string]bool{}
	for n := range calls {
		if call := &calls[n]; overlaps(call.Sent, call.Answered) {
			call.Acknowledged, call.Unknown = false, true
			skipped[call.Execution] = true
		}
	}
	var keyed []string
	for _, change := range r.Changes {
		if change.PolicyKey != "" && change.Old == "" && ended[change.Execution] && !skipped[change.Execution] {
			keyed = append(keyed, change.Execution)
		}
	}
	r.Ran, err = results[string](ctx, l, keyed, temporal.WorkflowID)
	return err
}

// results reads what workflows have returned from Temporal. id returns the workflow ID of an execution.
func results[T any](
	ctx context.Context, l *lab.Lab, executions []string, id func(execution string) string,
) (map[string]T, error) {
	all := map[string]T{}
	var first error
	var mu sync.Mutex
	var group sync.WaitGroup
	next := make(chan string)
	for range readers {
		group.Go(func() {
			for execution := range next {
				var result T
				err := l.Client.GetWorkflow(ctx, id(execution), "").Get(ctx, &result)
				mu.Lock()
				all[execution] = result
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	for _, execution := range executions {
		next <- execution
	}
	close(next)
	group.Wait()
	return all, first
}

// resolve adds the rows that calls of enqueue have inserted without an answer to the applications' books.
func resolve(rows []lab.Row, calls []audit.Call, changes []audit.Change) []lab.Row {
	unknown, known := map[string]audit.Call{}, map[string]bool{}
	for _, call := range calls {
		if call.Unknown {
			unknown[call.Marker] = call
		}
	}
	for _, row := range rows {
		known[row.Execution] = true
	}
	for _, change := range changes {
		if call, ok := unknown[change.Marker]; ok && change.Old == "" && change.New != "" && !known[change.Execution] {
			rows = append(rows, lab.Row{Execution: change.Execution, Workspace: call.Workspace, Want: "COMPLETED",
				Type: temporal.Work, Known: lab.Unknown})
		}
	}
	return rows
}
