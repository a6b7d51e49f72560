package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

// lastingFault is a fault that does not pass by itself. It belongs to some items, and all others must go on.
type lastingFault struct {
	// oneIn is how many items there are for each that the fault afflicts. Zero means that it afflicts the first one only.
	oneIn int64
	// outcome is what each start of an afflicted item comes to.
	outcome engine.Outcome
	// hangs means that each start of an afflicted item gets no answer before its timeout.
	hangs bool
	// notFound means that Temporal cuts all connections once, and then knows no workflow for three seconds. The first
	// start of an afflicted item is carried out without an answer, and later ones are refused, so that its workflow is
	// looked up.
	notFound bool
	// none means that nothing fails, to see that healthy items are on time then.
	none bool
}

// lastingFaults are the faults by name.
var lastingFaults = map[string]*lastingFault{
	"nothing fails":                         {none: true},
	"a start is never answered":             {outcome: engine.Unanswered},
	"a start hangs":                         {hangs: true},
	"a start is always throttled":           {outcome: engine.Throttled},
	"a start is always refused":             {outcome: engine.Blocked},
	"an item cannot be encoded":             {outcome: engine.Unreached},
	"a quarter of all starts is unanswered": {outcome: engine.Unanswered, oneIn: 4},
	"runs are not found for three seconds":  {notFound: true, oneIn: 2},
}

const (
	// mostDelay is how long a healthy item may be due before it is started.
	mostDelay = 10 * time.Second
	// lastingTime is how long a fault lasts.
	lastingTime = 2 * time.Minute
	// unknownFor is how long Temporal finds no workflow.
	unknownFor = 3 * time.Second
)

// afflicts reports whether an item has the fault.
func (f *lastingFault) afflicts(item int64) bool {
	switch {
	case f == nil, f.none:
		return false
	case f.oneIn == 0:
		return item == 1
	default:
		return item%f.oneIn == 0
	}
}

// lasts lets an otherwise healthy system work beside a lasting fault, with an item a second, and then ends the fault:
// everything must end.
func (w *world) lasts() string {
	w.calm = true
	w.commit(func(tx *simpg.Tx) {
		for n := range w.tables.Workspaces() {
			w.tables.LimitWorkspace(tx, n, 50, 50, false)
			w.tables.RateWorkspace(tx, n, 0)
		}
		w.tables.ClearKeys(tx)
	})
	fault := w.lasting
	w.stays = fault.notFound

	began := time.Now()
	for items := 0; time.Since(began) < lastingTime; {
		if time.Since(began) >= time.Duration(items)*time.Second {
			w.commit(func(tx *simpg.Tx) {
				w.say("item %d is enqueued", w.tables.Insert(tx, items%w.tables.Workspaces(), "", 0, w.now()))
			})
			items++
		}
		if fault.notFound && w.temporal.unknownTo.IsZero() && time.Since(began) > 20*time.Second {
			w.mu.Lock()
			w.forgetsForAWhile()
			w.mu.Unlock()
		}
		if w.step(); w.broken != "" {
			return w.broken
		}
		if id, by := w.tables.Delayed(fault.afflicts); by > mostDelay && !fault.notFound {
			return fmt.Sprintf("item %d is due, has room, and has waited for %s", id, by.Round(time.Second))
		}
	}

	w.say("the fault ends")
	w.lasting, w.stays = nil, false
	return w.drains()
}

func TestReplicas_HoldUpNobodyForALastingFault(t *testing.T) {
	const number = 24
	t.Parallel()
	for name := range lastingFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range number {
				s := scenario{Seed: uint64(seed), Lasting: name}
				if r := runs.make(t, s); r.Said != "" {
					reportShortest(t, s, r)
					return
				}
			}
		})
	}
}
