package simulation

import (
	"cmp"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

func (w *world) run() string {
	w.start()
	if w.lasting != nil {
		w.broken = w.lasts()
	} else {
		w.broken = w.storms()
	}

	said := w.stops()
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.broken, w.wrong, said)
}

// storms lets everything fail for some hundred steps, and then ends all faults: everything must end.
func (w *world) storms() string {
	for range 380 {
		if !w.choices.Next(0) {
			break
		}
		if w.step(); w.broken != "" {
			return w.broken
		}
	}

	w.calms()
	for _, phase := range []func() string{w.fills, w.drains, w.opens, w.drains, w.hardship, w.drains, w.works} {
		w.part++
		if said := phase(); said != "" {
			return said
		}
	}
	return ""
}

// calms ends all faults. It leaves a limit key full.
func (w *world) calms() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes(func(tx *simpg.Tx) {
		for n := range w.tables.Workspaces() {
			w.tables.RoomInWorkspace(tx, n)
		}
		w.tables.CalmKeys(tx, simpg.Keys[w.full])
		w.tables.Pause(tx, false)
	})
	w.say("all faults end")
	w.calm = true
	w.temporal.away, w.temporal.blocked, w.temporal.unknownTo = false, map[string]bool{}, time.Time{}
	clear(w.tables.Refuses)
	clear(w.tables.RefusesEnd)
}

// fills runs until everything has started that can, though nothing ends.
func (w *world) fills() string {
	w.stays = true
	defer func() { w.stays = false }()
	for range 20_000 {
		if w.tables.Startable() == 0 {
			return ""
		}
		if w.step(); w.broken != "" {
			return w.broken
		}
	}
	return fmt.Sprintf("%d items have not started:\n%s", w.tables.Startable(), w.tables.Describe())
}

// drains runs until all items have ended that can.
func (w *world) drains() string {
	most := 20_000
	if w.lies != "" {
		most = 6000
	}
	for steps := 0; w.left() > 0 || w.tables.Full == "" && w.tables.OpenSignals() > 0; steps++ {
		if w.step(); w.broken != "" {
			return w.broken
		}
		if steps > most {
			if w.left() == 0 {
				return fmt.Sprintf("%d signals are open", w.tables.OpenSignals())
			}
			return fmt.Sprintf("%d items have not ended:\n%s", w.left(), w.tables.Describe())
		}
	}
	return w.tables.Signals(w.temporal.received)
}

// opens gives the full limit key room.
func (w *world) opens() string {
	w.commit(func(tx *simpg.Tx) { w.tables.OpenKey(tx, w.deletes) })
	return ""
}

// works lets all replicas but one stop, and says whether each worker of that one can hold an item, and whether all its
// watches have ended.
func (w *world) works() string {
	if w.quiet && len(w.replicas) > 1 {
		return "" // what a replica leaves that stops is found by polls
	}
	w.mu.Lock()
	one := w.replicas[0]
	for _, r := range w.replicas[1:] {
		r.stop()
	}
	w.replicas = w.replicas[:1]
	w.changes(func(tx *simpg.Tx) {
		w.tables.LimitWorkspace(tx, 0, perHost, perHost, false)
		w.tables.RateWorkspace(tx, 0, 0)
	})
	w.mu.Unlock()
	busy := 0
	for tries := 0; busy < perHost; tries++ { // its namespace may be paused or throttled at first
		if tries == 40 {
			return fmt.Sprintf("%d of %d workers hold an item", busy, perHost)
		}
		w.fill(perHost)
		w.temporal.holds = true
		for steps := 0; steps < 1000 && busy < perHost; steps++ {
			w.step()
			w.mu.Lock()
			busy = w.handedOver(one)
			w.mu.Unlock()
		}
		w.temporal.holds = false
		if said := w.drains(); said != "" {
			return said
		}
	}
	for range 1000 {
		if w.step(); one.watcher.Watching() == 0 {
			return w.broken
		}
	}
	return fmt.Sprintf("%d executions are watched that have ended", one.watcher.Watching())
}

// commit makes a change between two steps.
func (w *world) commit(change func(tx *simpg.Tx)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes(change)
}

// fill enqueues items in the first workspace.
func (w *world) fill(items int) {
	w.commit(func(tx *simpg.Tx) {
		for range items {
			w.tables.Insert(tx, 0, "", 0, w.now())
		}
	})
}

// stops ends all replicas. It says which do not end.
func (w *world) stops() string {
	w.slow = nil
	for _, r := range w.replicas {
		r.stop()
	}
	ended := make(chan struct{})
	go func() {
		for _, r := range w.all {
			_ = r.parts.Wait()
		}
		close(ended)
	}()
	for range 5000 {
		synctest.Wait()
		select {
		case <-ended:
			return ""
		default:
		}
		w.mu.Lock()
		calls := w.pending()
		if len(calls) > 0 {
			w.goes(calls[0])
		}
		w.mu.Unlock()
		if len(calls) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return "replicas do not stop"
}
