package dispatch

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// gatherMost bounds how long the claim loop waits for workers.
const gatherMost = 6 * time.Millisecond

// gather delays a claim until it can serve several workers. Most of a claim's cost does not depend on its number of
// items, and claims of all replicas run one at a time. Half of the workers start items while a claim serves the other
// half. If other replicas claim as well, their claims run meanwhile, and this one serves all workers.
//
// It waits at most as long as the last claim took, and only if starts are faster than claims: slower ones would leave
// the free workers without an item.
type gather struct {
	starts  time.Duration // moving average of a start's duration
	workers int           // how many must be free
	until   time.Time     // when to claim regardless
}

// started records the duration of a start.
func (g *gather) started(took time.Duration) {
	if g.starts == 0 {
		g.starts = took
	}
	g.starts += (took - g.starts) / 16
}

// claimed plans the next claim after one that took so long.
func (g *gather) claimed(batch claim.Batch, now time.Time, took time.Duration, workers int) {
	g.workers, g.until = workers/2, time.Time{}
	if batch.Shared {
		g.workers = workers
	}
	if batch.More && !batch.Capped && g.starts < took {
		g.until = now.Add(min(took, gatherMost))
	}
}

// waits reports whether the next claim waits for more workers.
func (g *gather) waits(now time.Time, free int) bool { return free < g.workers && now.Before(g.until) }
