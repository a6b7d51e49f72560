package schedule

import (
	"iter"
	"time"
)

// keyQueue is the items of one limit key that wait at a level. Items without a key are a key queue of their own.
type keyQueue struct {
	level    *level
	name     string // of the key; empty without one
	own, all *key   // the key within the workspace and over all workspaces; nil without a key
	from     Position
	items    int       // at most how many wait; zero if unknown
	not      time.Time // not asked for until then
	passed   bool      // skipped because of its namespaces
	short    bool      // got less than asked for because of its namespaces
	deep     bool      // the last claim took items and left due ones
	heldBack time.Time // the last time at which its key or its namespaces held it back
	at       [queueHeaps]int32
}

// key is what is known of a limit key, in one workspace or over all workspaces.
type key struct {
	queues heap[*keyQueue]
	room   int       // how many more of its items may hold a slot, if not closed; unknown before a claim has reported it
	not    time.Time // not asked for until then, because of its rates
	closed bool      // full: not asked for until a change is reported
	tried  bool      // a claim has reported how it stands, under the present limits
}

// keyOf returns the key with that name, which it adds if needed. kind is inOwn or inAll.
func keyOf(keys *map[string]*key, name string, kind int) *key {
	if *keys == nil {
		*keys = map[string]*key{}
	}
	k := (*keys)[name]
	if k == nil {
		k = &key{queues: heap[*keyQueue]{kind: kind}, room: unknownLimit}
		(*keys)[name] = k
	}
	return k
}

// due returns when the key queue may be asked for.
func (x *keyQueue) due() time.Time {
	due := latest(x.not, x.from.Due)
	if x.own == nil {
		return due
	}
	return latest(due, latest(x.own.not, x.all.not))
}

// blocked reports whether the key queue's key is full.
func (x *keyQueue) blocked() bool { return x.own != nil && (x.own.closed || x.all.closed) }

// tried reports whether claims have shown how the limits of the key queue's workspace and key stand.
func (x *keyQueue) tried() bool {
	return x.level.workspace.limit != unknownLimit && (x.own == nil || x.own.tried)
}

// room returns how many more items of the key queue's key may hold a slot, as far as known.
func (x *keyQueue) room() int {
	if x.own == nil {
		return unknownLimit
	}
	return min(x.own.room, x.all.room)
}

// queue returns the key queue of a key, or nil if no item of it waits at the level.
func (v *level) queue(name string) *keyQueue {
	if name == "" {
		return v.plain
	}
	return v.keyed[name]
}

// queues yields the key queues of the level.
func (v *level) queues() iter.Seq[*keyQueue] {
	return func(yield func(*keyQueue) bool) {
		if v.plain != nil && !yield(v.plain) {
			return
		}
		for _, x := range v.keyed {
			if !yield(x) {
				return
			}
		}
	}
}

// addQueue adds a key queue to a level.
func (s *Schedule) addQueue(v *level, name string, from Position, items int) *keyQueue {
	x := &keyQueue{level: v, name: name, from: from, items: items, at: [queueHeaps]int32{-1, -1, -1, -1}}
	if name == "" {
		v.plain = x
		return x
	}
	if v.keyed == nil {
		v.keyed = map[string]*keyQueue{}
	}
	v.keyed[name] = x
	x.own, x.all = keyOf(&v.workspace.keys, name, inOwn), keyOf(&s.keys, name, inAll)
	x.own.queues.push(x)
	x.all.queues.push(x)
	return x
}

// place puts a key queue into the heap where it belongs. A key queue whose key is full is in none. Its level must be in
// no heap.
func (x *keyQueue) place() {
	x.takeOut()
	if !x.blocked() {
		x.level.unripe.push(x)
	}
}

func (x *keyQueue) takeOut() {
	x.level.ripe.remove(x)
	x.level.unripe.remove(x)
}

// removeQueue forgets a key queue at which nothing waits, and its level with the last one. The level must be in no
// heap.
func (s *Schedule) removeQueue(x *keyQueue) {
	x.takeOut()
	if x.own == nil {
		x.level.plain = nil
	} else {
		delete(x.level.keyed, x.name)
		x.own.queues.remove(x)
		x.all.queues.remove(x)
	}
	if x.level.plain == nil && len(x.level.keyed) == 0 {
		s.remove(x.level)
	}
}

// limits records what a claim at that time has found of a limit key in a workspace and over all workspaces.
func (s *Schedule) limits(at time.Time, l *workspace, name string, st Standing) {
	s.limit(at, l.keys[name], st.Own)
	s.limit(at, s.keys[name], st.All)
}

// limit records what a claim has found of a key, which is nil if nothing is known of it.
func (s *Schedule) limit(at time.Time, k *key, found KeyStanding) {
	if k == nil {
		return
	}
	not := time.Time{}
	if found.RetryIn > 0 {
		not = at.Add(found.RetryIn)
	}
	k.room, k.tried = found.Room, true
	s.turn(k, found.Room <= 0, not)
}

// reopenKey makes a key available again as far as its rates allow. k may be nil.
func (s *Schedule) reopenKey(k *key) {
	if k != nil {
		k.room = unknownLimit
		s.turn(k, false, k.not)
	}
}

// turn sets whether a key is full and until when its rates keep it, and places its key queues anew if that has changed.
func (s *Schedule) turn(k *key, closed bool, not time.Time) {
	if k.closed == closed && k.not.Equal(not) {
		return
	}
	opens := k.closed && !closed
	k.closed = closed
	for _, x := range k.queues.all {
		s.takeOut(x.level)
		x.takeOut()
	}
	k.not = not
	for _, x := range k.queues.all {
		if x.heldBack = latest(x.heldBack, not); opens {
			x.heldBack = latest(x.heldBack, s.clock)
		}
		x.place()
		s.place(x.level)
	}
}
