package simulation

import (
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

// fault does something bad.
func (w *world) fault() {
	switch w.IntN(10) {
	case 9:
		w.count("not found")
		w.forgetsForAWhile()
	case 8:
		w.count("cut off")
		r := w.replicas[w.IntN(len(w.replicas))]
		w.say("%s reaches neither Postgres nor Temporal", r.name)
		r.cutTo = time.Now().Add(lease + time.Duration(w.IntN(3))*time.Second)
	case 0:
		w.count("crashes")
		w.say("Postgres crashes")
		w.crash(false)
	case 1:
		at := w.IntN(len(w.replicas))
		w.count("kills")
		w.say("%s is killed", w.replicas[at].name)
		w.kill(w.replicas[at])
		w.join()
	case 2:
		w.temporal.away = !w.temporal.away
		w.say("Temporal is away: %t", w.temporal.away)
	case 3:
		name := []string{"a", "b"}[w.IntN(2)]
		w.temporal.blocked[name] = !w.temporal.blocked[name]
		w.say("namespace %s is blocked: %t", name, w.temporal.blocked[name])
	case 4:
		w.jumps([]time.Duration{-3, -2, -1, 1, 2, 3, 15, -24 * 60 * 60}[w.IntN(8)] * time.Second)
	case 5:
		item := int64(max(w.tables.Rows()-w.IntN(10), 1))
		w.say("a trigger rejects item %d", item)
		if w.IntN(2) == 0 {
			w.tables.Refuses[item] = true
		} else {
			w.tables.RefusesEnd[item] = true
		}
	case 6:
		w.count("failovers")
		w.say("a standby takes over that has not received the last commits")
		w.crash(true)
	default:
		w.count("deaf")
		r := w.replicas[w.IntN(len(w.replicas))]
		w.say("%s loses its listener and its gate", r.name)
		r.notes, r.deaf = nil, true
		r.breaks()
	}
}

// forgetsForAWhile cuts all connections to Temporal, which then knows no workflow for three seconds.
func (w *world) forgetsForAWhile() {
	w.say("Temporal does not find its workflows for three seconds")
	w.temporal.unknownTo = time.Now().Add(unknownFor)
	for _, c := range slices.Clone(w.calls) {
		if c.temporal() {
			w.answers(c, errCut)
		}
	}
}

// jumps sets Postgres' clock forward or back.
func (w *world) jumps(by time.Duration) {
	if by > 0 && !w.temporal.knows() {
		return // answers of these seconds would count as those of a minute
	}
	w.count("clock jumps")
	if w.skew += by; by > lease { // a start that is under way may arrive after its lease
		w.tables.ForgetsLeases()
	}
	w.say("Postgres' clock is %s ahead", w.skew)
}

// alters changes a setting or a limit.
func (w *world) alters() {
	switch w.IntN(7) {
	case 5, 6:
		workspace := w.IntN(w.tables.Workspaces())
		w.say("the graph of workspace %d changes", workspace)
		tx := w.tables.Begin(false)
		w.tables.ChangeGraph(tx, workspace)
		w.commits(tx, true)
	case 0, 1:
		workspace, limit, burst, plan := w.IntN(w.tables.Workspaces()), w.IntN(4), w.IntN(6), w.IntN(2) == 1
		w.say("workspace %d is limited to %d, %d", workspace, limit, burst)
		w.changes(func(tx *simpg.Tx) { w.tables.LimitWorkspace(tx, workspace, limit, burst, plan) })
	case 2:
		w.limitsKey(0)
	case 3:
		workspace, rate := w.IntN(w.tables.Workspaces()), []float64{0, 0.5, 1, 2.5}[w.IntN(4)]
		w.say("workspace %d may start %.1f a second", workspace, rate)
		w.changes(func(tx *simpg.Tx) { w.tables.RateWorkspace(tx, workspace, rate) })
		w.forgetDeclined()
	default:
		w.count("pauses")
		w.changes(func(tx *simpg.Tx) { w.tables.Pause(tx, !w.tables.Paused()) })
		w.say("claims are paused: %t", w.tables.Paused())
	}
}

// forgetDeclined counts what is declined anew.
func (w *world) forgetDeclined() {
	for _, r := range w.replicas {
		clear(r.rated)
	}
}

// limitsKey changes the limit of a key, in a workspace or over all, to at least so many items and starts.
func (w *world) limitsKey(least int) {
	key, workspace := simpg.Keys[w.IntN(3)], w.IntN(2*w.tables.Workspaces())-1
	if workspace >= w.tables.Workspaces() {
		workspace = -1
	}
	most, rates := least+w.IntN(4), []simpg.Rate(nil)
	if w.IntN(3) == 2 {
		most = schedule.NoLimit
	}
	for _, per := range []time.Duration{time.Second, 7 * time.Second} {
		if w.IntN(4) == 3 {
			rates = append(rates, simpg.Rate{Most: least + w.IntN(4), Per: per})
		}
	}
	deleted := w.IntN(4) == 3
	w.say("limit of %s in %d: %d %v, deleted %t", key, workspace, most, rates, deleted)
	w.changes(func(tx *simpg.Tx) { w.tables.LimitKey(tx, key, workspace, most, rates, deleted) })
}

// crash ends all transactions and connections.
func (w *world) crash(failover bool) {
	if w.tables.Crash(failover); w.IntN(2) == 1 {
		w.tables.ChangeLostGraph()
	}
	w.forgetDeclined()
	w.told = map[*simpg.Tx]*wakes{}
	for _, c := range slices.Clone(w.calls) {
		if !c.temporal() {
			w.answers(c, errCut)
		}
	}
	for _, r := range w.replicas {
		r.notes, r.deaf = nil, true
		r.breaks()
	}
}

// kill ends a replica as a power cut does: what it sent may still arrive.
func (w *world) kill(r *replica) {
	r.dead = true
	for _, c := range w.calls {
		if c.of == r {
			c.gone = true
		}
	}
	w.replicas = slices.DeleteFunc(w.replicas, func(o *replica) bool { return o == r })
	r.breaks()
	r.stop()
}
