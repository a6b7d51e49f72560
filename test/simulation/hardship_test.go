package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

// left counts the items that have not ended and can.
func (w *world) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tables.Left(w.kept)
}

// hardship lets something that lasts begin in an idle system, in some runs, and ends it once all items have ended that
// can in spite of it.
func (w *world) hardship() string {
	switch w.lies {
	case "":
	case "open transactions are not told":
		w.kind, w.keeps = 0, true
	case "items are parked twice":
		w.kind = 4
	case "retention is not read":
		w.kind = 10
	default: // it is seen without
		return ""
	}
	defer w.endsHardship()
	for _, r := range w.replicas {
		r.parked = nil
	}
	if w.quiet && !slices.Contains([]int{2, 3, 6, 7}, w.kind) { // the others need polls or compares
		return ""
	}
	switch w.kind {
	case 0, 1:
		w.mu.Lock()
		if w.keeps {
			w.opensOne()
		}
		w.say("no trigger sees that item %d is enqueued", w.tables.InsertUnseen(0))
		w.mu.Unlock()
	case 2, 3:
		w.mu.Lock()
		w.changes(func(tx *simpg.Tx) { w.tables.Insert(tx, 0, "", 0, w.now()) })
		w.opensOne()
		w.say("an application keeps item %d locked", w.tables.LockWaiting(w.kept))
		w.mu.Unlock()
		w.fill(3)
	case 4, 5:
		if w.tables.Workspaces() == 1 {
			return ""
		}
		w.commit(w.tables.InsertRefused)
		for steps := 0; w.keeps && steps < 1000 && !w.rests(); steps++ {
			w.step()
		}
	case 6, 7:
		if w.quiet { // otherwise polls find it, too
			w.crowds()
		}
	case 8, 9:
		w.failsOver()
	case 10:
		w.forgets()
	case 11:
		if w.keeps && w.deletes { // it takes long
			w.reloads()
		}
	}
	return w.drains()
}

// rests reports whether a replica leaves a workspace of rejected items alone.
func (w *world) rests() bool {
	return slices.ContainsFunc(w.replicas, func(r *replica) bool { return len(r.parked) >= parkedAtRest })
}

// failsOver lets a standby take over while starts wait for Temporal. It may not have received their claims.
func (w *world) failsOver() {
	w.temporal.hangsTo = time.Now().Add(lease)
	waits := 0
	for w.fill(perHost); waits == 0 && time.Now().Before(w.temporal.hangsTo); {
		w.step()
		w.mu.Lock()
		waits = w.handedOver(nil)
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.temporal.hangsTo = time.Now().Add(8 * time.Second)
	w.say("Temporal answers no start, and a standby takes over")
	w.crash(true)
	w.count("failovers")
}

// forgets lets Temporal lose the answers to starts, and then be away until it has forgotten the workflows.
func (w *world) forgets() {
	w.temporal.mute = true
	w.fill(perHost)
	for range 100 {
		w.step()
	}
	w.temporal.mute, w.temporal.away = false, true
	for began := time.Now(); time.Since(began) < retention+lease && w.broken == ""; w.step() {
		time.Sleep(time.Second)
	}
	w.temporal.away = false
}

// crowds lets a transaction enqueue more than looks read, in some runs behind a compare that waits for an older one.
func (w *world) crowds() {
	if w.keeps {
		w.commit(func(*simpg.Tx) { w.opensOne() })
		for range 6 {
			w.fill(1)
			for began := time.Now(); time.Since(began) < time.Minute && w.broken == ""; {
				w.step()
			}
		}
	}
	w.commit(func(tx *simpg.Tx) { w.tables.InsertCrowd(tx, 1000) })
}

// reloads lets one replica take over from all while more waits than it loads at once. The second page gets no answer.
func (w *world) reloads() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes(func(tx *simpg.Tx) { w.tables.InsertCrowd(tx, loadQueues) })
	for _, r := range slices.Clone(w.replicas) {
		w.kill(r)
	}
	w.cutsLoad = true
	w.say("another replica takes over from all")
	w.join()
}

// opensOne begins a transaction of an application that stays open.
func (w *world) opensOne() { w.kept, w.keptAt = w.tables.Begin(false), time.Now() }

func (w *world) endsHardship() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rests() {
		w.jumps(-24 * time.Hour)
	}
	clear(w.tables.Refuses)
	if w.kept != nil {
		w.tables.Close(w.kept, false)
		w.kept = nil
	}
}

// sees returns what notes, once a look is answered, when a replica's looks began to see the transaction kept as the
// oldest, and whether the last one saw starts to repeat.
func (r *replica) sees(head simpg.Seen) (answered func()) {
	w, at, due := r.world, time.Now(), head.UnansweredAt
	unanswered := due != nil && !head.Suspect && due.Before(w.now().Add(-time.Second))
	sawKept := w.kept != nil && w.tables.Open()[0] == w.kept
	return func() {
		if r.unansweredDue = (time.Time{}); unanswered {
			r.unansweredDue = *due
		}
		r.lookedBefore, r.lookedAt = r.lookedAt, at
		if !sawKept {
			r.sawKept = time.Time{}
		} else if r.sawKept.IsZero() {
			r.sawKept = at
		}
	}
}

// compares checks that a page of a compare waits for a transaction that a replica's looks have seen for a second, but
// not for more than ten minutes.
func (r *replica) compares(xid int64, queues int) {
	w, waits := r.world, !r.sawKept.IsZero() && r.lookedBefore.Sub(r.sawKept) > time.Second
	if xid == 0 && queues < loadQueues && w.kept != nil && waits && time.Since(w.keptAt) < 10*time.Minute {
		w.broken = fmt.Sprintf("%s compares while a transaction is open", r.name)
	}
	if xid == 0 {
		r.parked = nil
	}
}

// A replica parks parkedAtRest items of a workspace within a minute, and some whose answers come late: mostParked.
const parkedAtRest, mostParked = 16, 20

// parks checks that a replica parks few items of a workspace within a minute, unless it compares.
func (r *replica) parks() {
	r.parked = slices.DeleteFunc(r.parked, func(at time.Time) bool { return time.Since(at) > 55*time.Second })
	if r.parked = append(r.parked, time.Now()); len(r.parked) > mostParked {
		r.world.broken = fmt.Sprintf("%s parks %d items within a minute", r.name, len(r.parked))
	}
}
