package run

import (
	"context"
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

const (
	// slotsTimeout bounds the wait until every slot of every workspace is used.
	slotsTimeout = 15 * time.Second
	// overTime is how long the check waits for one start too many.
	overTime = 500 * time.Millisecond
)

// slots gives every workspace as many workflows that do not end by themselves as it has slots, and one more. Exactly
// as many as the limit allows must start. Otherwise a slot has been lost or invented. Then the workflows are told to
// end.
func (c *Check) slots(ctx context.Context, l *lab.Lab) error {
	if c.Quiet > quiescence {
		return nil // open items hold slots, and have been reported already
	}
	conn, err := l.Session(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	all := 0
	executions := map[string][]string{}
	for _, w := range l.Load.Workspaces {
		if executions[w.ID], err = l.Load.InsertProbes(ctx, conn, w, w.Limit+1); err != nil {
			return err
		}
		all += w.Limit
	}
	running := func(w *lab.Workspace) (n int, err error) {
		err = l.Row(ctx, "probe_items", []any{executions[w.ID]}, &n)
		return n, err
	}
	err = lab.Await(ctx, slotsTimeout, "every slot is used", func() (bool, error) {
		total := 0
		for _, w := range l.Load.Workspaces {
			n, err := running(w)
			if err != nil {
				return false, err
			}
			total += n
		}
		return total >= all, nil
	})
	if err = errors.Join(err, lab.Sleep(ctx, overTime)); err != nil {
		l.Logf("%v", err)
	}
	for _, w := range l.Load.Workspaces {
		n, err := running(w)
		if err != nil {
			return err
		}
		if n != w.Limit {
			c.fail(ruleSlots, "%s runs %d workflows, and its limit is %d", w.Name, n, w.Limit)
		}
	}
	l.Logf("every workspace runs as many workflows as it may")
	return l.Load.EndProbes(ctx, executions)
}
