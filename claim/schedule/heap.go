package schedule

import "slices"

// Indexes of the heaps in level.at.
const (
	inReady = iota
	inOldest
	inLater
	inBursting
	levelHeaps
)

// inProven is the kind of a heap that stores its positions where inBursting does. A level is in at most one of the two.
const inProven = levelHeaps

// Indexes of the heaps that a key queue may be in, in keyQueue.at. The heaps inOwn and inAll, of its keys, have no
// order.
const (
	inRipe = iota
	inUnripe
	inOwn
	inAll
	queueHeaps
)

// An element may be in several heaps. before orders it in heaps of that kind. index returns where it stores its
// position in the heap of that kind.
type element[T any] interface {
	comparable
	before(other T, kind int) bool
	index(kind int) *int32
}

// heap is a priority queue from which any element can be removed. kind says which of an element's heaps it is.
type heap[T element[T]] struct {
	kind int
	all  []T
}

func (l *level) index(kind int) *int32 {
	if kind == inProven {
		kind = inBursting
	}
	return &l.at[kind]
}

func (l *level) before(o *level, kind int) bool {
	switch kind {
	case inReady:
		return l.workspace.compare(o.workspace) < 0
	case inBursting, inProven:
		return l.priority > o.priority || l.priority == o.priority && l.workspace.compare(o.workspace) < 0
	case inOldest:
		a, b := l.ripe.first().from, o.ripe.first().from
		if a.Before(b) || b.Before(a) {
			return a.Before(b)
		}
		turns := l.workspace.compare(o.workspace)
		return turns < 0 || turns == 0 && l.priority > o.priority
	default:
		return l.due().Before(o.due())
	}
}

func (x *keyQueue) index(kind int) *int32 { return &x.at[kind] }

func (x *keyQueue) before(o *keyQueue, kind int) bool {
	switch kind {
	case inOwn, inAll:
		return false
	case inUnripe:
		return x.due().Before(o.due())
	}
	return x.from.Before(o.from) || !o.from.Before(x.from) && x.name < o.name
}

func (h *heap[T]) len() int { return len(h.all) }
func (h *heap[T]) first() T { return h.all[0] }

func (h *heap[T]) push(x T) {
	h.all = append(h.all, x)
	*x.index(h.kind) = int32(len(h.all) - 1)
	h.up(len(h.all) - 1)
}

// remove removes an element if the heap contains it.
func (h *heap[T]) remove(x T) {
	n := int(*x.index(h.kind))
	if n < 0 || n >= len(h.all) || h.all[n] != x {
		return
	}
	last := len(h.all) - 1
	h.swap(n, last)
	h.all = slices.Delete(h.all, last, last+1)
	*x.index(h.kind) = -1
	if n < last {
		h.down(n)
		h.up(n)
	}
}

func (h *heap[T]) swap(a, b int) {
	h.all[a], h.all[b] = h.all[b], h.all[a]
	*h.all[a].index(h.kind), *h.all[b].index(h.kind) = int32(a), int32(b)
}

func (h *heap[T]) up(n int) {
	for n > 0 {
		parent := (n - 1) / 2
		if !h.all[n].before(h.all[parent], h.kind) {
			return
		}
		h.swap(n, parent)
		n = parent
	}
}

func (h *heap[T]) down(n int) {
	for {
		least := n
		for child := 2*n + 1; child <= 2*n+2 && child < len(h.all); child++ {
			if h.all[child].before(h.all[least], h.kind) {
				least = child
			}
		}
		if least == n {
			return
		}
		h.swap(n, least)
		n = least
	}
}

// walk calls visit for the elements in order until visit returns false. The heap must not change meanwhile.
func (h *heap[T]) walk(visit func(T) bool) {
	if len(h.all) == 0 {
		return
	}
	next := []int{0} // indexes whose parents were visited
	for len(next) > 0 {
		least := 0
		for k := range next {
			if h.all[next[k]].before(h.all[next[least]], h.kind) {
				least = k
			}
		}
		at := next[least]
		if !visit(h.all[at]) {
			return
		}
		next[least] = next[len(next)-1]
		next = next[:len(next)-1]
		for child := 2*at + 1; child <= 2*at+2 && child < len(h.all); child++ {
			next = append(next, child)
		}
	}
}
