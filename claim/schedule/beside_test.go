package schedule

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// beside pairs a schedule with the naive one.
type beside struct {
	*desk
	naive naive
	byte  func(n int) int // returns a number below n
	// exact means that the memory is never wrong. Where it may be, items behind others may be proposed first.
	exact       bool
	unannounced map[WorkspaceID]int // ends that no notification told of
	exactly     int                 // how often the item that the naive one picks was claimed at once
	told        bool                // the memory is told how all stand, as by claims, so that limits of keys may change
}

func newBeside(t *testing.T, next func(n int) int) *beside {
	t.Helper()
	b := &beside{desk: &desk{t: t, truth: newTruth(), s: Schedule{Aging: 10 * time.Second}}, byte: next,
		unannounced: map[WorkspaceID]int{}}
	b.naive = naive{truth: b.truth, aging: 10 * time.Second, served: map[WorkspaceID]int{},
		hidden: map[WorkspaceID]behind{}}
	for n, key := range []string{"k", "l", "k", "l"} {
		if limit := next(5); limit > 0 {
			b.limits[scope{key: key}] = limit
		}
		if limit := next(5); limit > 0 {
			b.limits[scope{workspaceOf(string(rune('a' + n))), key}] = limit
		}
	}
	for n := range 1 + next(5) {
		b.tenant(string(rune('a'+n)), 1+next(4))
	}
	return b
}

// due returns a time so many seconds from now, of which there is only one.
func (b *beside) due(seconds int) time.Time {
	return b.now.Add(time.Duration(seconds)*time.Second + time.Duration(b.nextID)*time.Microsecond)
}

func (b *beside) name() string { return string(rune('a' + b.byte(len(b.tenants)))) }

// happens triggers an event and reports it to the schedule.
func (b *beside) happens() {
	name := b.name()
	w := b.tenants[workspaceOf(name)]
	b.reported(workspaceOf(name))
	switch b.byte(15) {
	case 0, 1, 2, 3:
		for range 1 + b.byte(4) {
			due := b.due(b.byte(40) - 30)
			b.notifies(b.addKeyed(name, []string{"", "", "k", "l"}[b.byte(4)], b.byte(3)*50-100, due))
		}
	case 4, 5, 6, 7:
		b.someEnd(name)
	case 8:
		if w.limit = 1 + b.byte(6); b.exact {
			w.limit += w.held
		}
		b.s.Learn(Change{Workspace: workspaceOf(name)})
	case 9:
		w.paused = !w.paused && !b.exact
		b.s.Learn(Change{Workspace: workspaceOf(name)})
	case 10:
		b.now = b.now.Add(time.Duration(1+b.byte(20)) * time.Second)
	case 11:
		if !b.exact || b.told {
			b.limitKey(name)
		}
	case 12:
		if w.held > 0 {
			b.requeues(name)
		}
	case 13:
		if !b.exact && len(b.items) > 0 { // another transaction locks an item, or ends
			i := b.items[b.byte(len(b.items))]
			b.locked[i.id] = !b.locked[i.id]
		}
	default:
		all, changed := b.levels(), Changed{Workspaces: map[WorkspaceID]bool{}, Keys: map[string]bool{}}
		switch { // a change that the schedule learns before what was read earlier
		case b.exact:
		case b.byte(3) == 0:
			changed.All = true
			w.limit += 3
			b.learnsAll()
		case w.held > 0 && b.byte(2) == 0:
			changed.Workspaces[workspaceOf(name)] = true
			for _, key := range b.ends(name, 1) {
				changed.Keys[key] = true
			}
		}
		clear(b.unannounced)
		missed := b.loads(all, changed)
		b.reported(slices.Collect(maps.Keys(b.tenants))...)
		maps.DeleteFunc(b.naive.served, func(l WorkspaceID, _ int) bool { // workspaces without waiting items are evicted
			return !slices.ContainsFunc(all, func(w Waiting) bool { return w.Workspace == l })
		})
		require.Zero(b.t, missed, "every event was reported")
		for _, w := range all {
			if !changed.All && len(changed.Workspaces) == 0 { // what was read is current: a full key is not asked for
				require.True(b.t, !w.AllFull || b.s.keys[w.Key].closed, "key %s is full", w.Key)
				require.True(b.t, !w.OwnFull || b.s.workspaces[w.Workspace].keys[w.Key].closed, "key %s is full", w.Key)
			}
		}
	}
}

// someEnd ends items of a workspace, and announces that if something may wait for their slots.
func (b *beside) someEnd(name string) {
	w, of := b.tenants[workspaceOf(name)], func(i item) bool { return i.workspace == workspaceOf(name) }
	switch {
	case w.held == 0:
	case slices.ContainsFunc(b.items, of) || slices.ContainsFunc(b.running, of):
		b.ends(name, 1+b.byte(w.held))
	default:
		w.held--
		b.w++
		b.unannounced[workspaceOf(name)]++
	}
}

// notifies tells the schedule what a notification says of new items, and what a look reads if that is needed.
func (b *beside) notifies(c Change) {
	if _, known := b.s.numbers[c.Number]; !b.s.Named(c.Number, c) {
		b.s.Learn(Change{Workspace: c.Workspace, Items: b.unannounced[c.Workspace]})
		delete(b.unannounced, c.Workspace)
		if !known {
			b.s.Learn(c)
		}
	}
}

// requeues puts an item of a workspace that holds a slot back among those that wait.
func (b *beside) requeues(name string) {
	key := ""
	if n := slices.IndexFunc(b.running, func(i item) bool { return i.workspace == workspaceOf(name) }); n >= 0 {
		key = b.running[n].key
		b.running = slices.Delete(b.running, n, n+1)
	}
	b.tenants[workspaceOf(name)].held--
	b.w++
	c := b.addKeyed(name, key, 0, b.due(-b.byte(20)))
	c.Items, c.Again = 0, true
	if key != "" {
		c.Keys = []string{key}
	}
	b.s.Learn(c)
}

func (b *beside) learnsAll() {
	b.s.LearnAll()
	b.reported(slices.Collect(maps.Keys(b.tenants))...)
}

func (b *beside) reported(workspaces ...WorkspaceID) {
	for _, id := range workspaces {
		if hidden, found := b.naive.hidden[id]; found {
			hidden.reported = true
			b.naive.hidden[id] = hidden
		}
	}
}

// limitKey changes the limit of a key: it is lowered below what runs, raised or removed, or its rate is used up.
func (b *beside) limitKey(name string) {
	s := scope{key: []string{"k", "l"}[b.byte(2)]}
	if b.byte(2) == 0 {
		s.workspace = workspaceOf(name)
	}
	switch b.byte(5) {
	case 0:
		delete(b.limits, s)
	case 1:
		b.notBefore[s] = b.now.Add(time.Duration(b.byte(30)) * time.Second)
	default:
		b.limits[s] = b.byte(4)
	}
	if b.told {
		b.tells()
	} else {
		b.learnsAll()
	}
}

// tells tells the memory how every workspace and key stands, as claims would.
func (b *beside) tells() {
	for id, w := range b.tenants {
		if l := b.s.workspaces[id]; l != nil {
			b.s.holds(l, Waiting{Held: w.held, Limit: w.limit, BurstLimit: w.most()}, true)
		}
	}
	for name, k := range b.s.keys {
		b.s.limit(b.now, k, b.stands(WorkspaceID{}, name))
	}
	for id, l := range b.s.workspaces {
		for name, k := range l.keys {
			b.s.limit(b.now, k, b.stands(id, name))
		}
	}
}
