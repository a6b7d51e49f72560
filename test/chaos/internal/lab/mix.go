package lab

import (
	"context"
	"math/rand/v2"
	"time"

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
	default:
		return b.enqueue(ctx, autocommit, 0)
	}
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
	default:
		return temporal.Work
	}
}

// wants returns how the items of a definition end.
func wants(definition string) string {
	if definition == temporal.Fail || definition == timesOut {
		return "FAILED"
	}
	return "COMPLETED"
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
