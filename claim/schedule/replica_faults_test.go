package schedule_test

import (
	"slices"
	"time"
)

// fault does something bad.
func (w *world) fault() {
	switch w.IntN(11) {
	case 0:
		w.count("crashes")
		w.say("Postgres crashes, %d commits are not on disk", w.tables.Unsafe())
		w.crash()
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
	case 4, 5:
		workspace, limit, burst := w.IntN(w.tables.Workspaces()), w.IntN(4), w.IntN(6)
		w.say("workspace %d is limited to %d, %d", workspace, limit, burst)
		w.tables.LimitWorkspace(workspace, limit, burst, w.IntN(2) == 1)
	case 6:
		most, starts := w.IntN(5), w.IntN(3)
		w.say("key k is limited to %d, %d starts in 5 s", most, starts)
		w.tables.LimitKey("k", most, starts, 5*time.Second, w.IntN(3) == 0)
	case 7:
		w.count("clock jumps")
		w.skew += time.Duration(w.IntN(7)-3) * time.Second
		w.say("Postgres' clock is %s ahead", w.skew)
	case 8:
		item := int64(max(w.tables.Rows()-w.IntN(10), 1))
		w.say("a trigger rejects item %d", item)
		w.tables.Refuses[item] = true
	case 9:
		w.count("pauses")
		w.tables.Pause(!w.tables.Paused())
		w.say("claims are paused: %t", w.tables.Paused())
	default:
		w.count("deaf")
		r := w.replicas[w.IntN(len(w.replicas))]
		w.say("%s loses its listener and its gate", r.name)
		r.notes, r.deaf = nil, true
		r.breaks()
	}
}

// crash ends all transactions and connections.
func (w *world) crash() {
	w.tables.Crash()
	w.told = map[any]*wakes{}
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
