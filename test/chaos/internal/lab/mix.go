package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

// transaction runs one transaction of an application: some rows of one workspace, committed or rolled back.
func (o *Load) transaction(ctx context.Context, rng *rand.Rand) error {
	w := o.pick(rng)
	items, roll := 1, rng.IntN(100)
	if roll < 3 && w.Limit >= 5 {
		items = 15
	}
	definition := o.pickDefinition(rng, w)
	delay := time.Duration(0)
	if rng.IntN(10) == 0 {
		delay = time.Duration(rng.IntN(1500)) * time.Millisecond
	}
	b := batch{load: o, workspace: w, definition: definition, items: items, priority: rng.IntN(5) / 4 * 10,
		delay: delay, millis: rng.IntN(250)}
	switch kind := rng.IntN(100); {
	case kind < 3:
		return b.enqueue(ctx, rollBack, 0)
	case kind < 5:
		return b.enqueue(ctx, commit, time.Duration(300+rng.IntN(1500))*time.Millisecond)
	case kind < 40:
		return b.enqueue(ctx, commit, 0)
	case kind < 44:
		b.delay = 300 * time.Millisecond
		if err := b.enqueue(ctx, autocommit, 0); err != nil {
			return err
		}
		return o.withdraw(ctx, b.executions[0])
	case kind < 51:
		return o.signalled(ctx, rng, w)
	case kind < 61:
		return o.call(ctx, rng, w)
	case kind < 67:
		b.items, b.delay = 1, 0
		return o.pushed(ctx, rng, &b)
	case kind < 77:
		return o.named(ctx, rng, &b)
	case kind < 80:
		return o.stopped(ctx, rng, w)
	case kind < 85:
		b.before = b.delay + time.Duration(50+rng.IntN(1500))*time.Millisecond
		return b.enqueue(ctx, autocommit, 0)
	default:
		return b.enqueue(ctx, autocommit, 0)
	}
}

// shared is how many IDs are named again and again.
const shared = 6

// named inserts items that name one ID: of their own, or one of a few that other workspaces name, too.
func (o *Load) named(ctx context.Context, rng *rand.Rand, b *batch) error {
	policy := idPolicies[rng.IntN(len(idPolicies))]
	starts := []string{temporal.Work, temporal.Work, temporal.Again, temporal.Do}[rng.IntN(4)]
	b.definition, b.items, b.id = Named(starts, policy), 1+rng.IntN(3), fmt.Sprintf(`it's "%d"`, rng.IntN(shared))
	if own := rng.IntN(4) == 0; own || policy == audit.Reject && rng.IntN(4) > 0 {
		b.id = "own-" + uuid.NewString()
	}
	return b.enqueue(ctx, commit, 0)
}

// stopped inserts an item whose workflow or activity does not end by itself, and requests that it is cancelled.
func (o *Load) stopped(ctx context.Context, rng *rand.Rand, w *Workspace) error {
	b := batch{load: o, workspace: w, definition: []string{temporal.Hold, temporal.DoHold}[rng.IntN(2)], items: 1}
	err := b.enqueue(ctx, autocommit, 0)
	execution := b.executions[0]
	o.mu.Lock()
	o.rows[execution].Want, o.rows[execution].Or = "FAILED", "CANCELLED"
	o.mu.Unlock()
	if outcome(err) == RolledBack {
		return err
	}
	pause := time.Duration(rng.IntN(1000)) * time.Millisecond
	o.follows(ctx, followTimeout, func(ctx context.Context) {
		_ = Sleep(ctx, pause)
		o.until(ctx, execution, func() { o.exec(ctx, "request_cancel", execution) })
	})
	return err
}

func (o *Load) pick(rng *rand.Rand) *Workspace {
	total := 0
	for _, w := range o.Workspaces {
		total += w.weight
	}
	n := rng.IntN(total)
	for _, w := range o.Workspaces {
		if n -= w.weight; n < 0 {
			return w
		}
	}
	return o.Workspaces[0]
}

func (o *Load) pickDefinition(rng *rand.Rand, w *Workspace) string {
	switch n := rng.IntN(100); {
	case n < 5:
		return temporal.Fail
	case n < 10:
		return temporal.Again
	case n < 12 && w.Limit >= 5:
		return timesOut
	case n < 25:
		return temporal.Do
	case n < 28:
		return temporal.DoFail
	case n < 32:
		return temporal.DoTwice
	case n < 34 && w.Limit >= 5:
		return doTimesOut
	default:
		return temporal.Work
	}
}

// lose marks the rows that were acknowledged within the window and are missing, and returns their number.
func (o *Load) lose(there []string, window Window) (lost int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := make(map[string]bool, len(there))
	for _, execution := range there {
		found[execution] = true
	}
	for _, row := range o.rows {
		if !found[row.Execution] && row.Known != RolledBack && window.Contains(row.Answered) {
			if row.Known == Acknowledged {
				lost++
			}
			row.Known = Lost
		}
	}
	return lost
}
