package schedule

// Indexes of the heaps in level.at.
const (
	inReady = iota
	inOldest
	inLater
	heaps
)

// heap is a priority queue of levels. It tracks each level's index, so that any level can be removed. kind says which
// heap it is.
type heap struct {
	kind   int
	levels []*level
}

func newLevel(l *lane, priority int, from Position, items int) *level {
	return &level{lane: l, priority: priority, from: from, items: items, at: [heaps]int{-1, -1, -1}}
}

func (h *heap) less(a, b *level) bool {
	switch h.kind {
	case inReady:
		return a.lane.compare(b.lane) < 0
	case inOldest:
		if a.from.Before(b.from) || b.from.Before(a.from) {
			return a.from.Before(b.from)
		}
		turns := a.lane.compare(b.lane)
		return turns < 0 || turns == 0 && a.priority > b.priority
	default:
		return a.due().Before(b.due())
	}
}

func (h *heap) len() int      { return len(h.levels) }
func (h *heap) first() *level { return h.levels[0] }

func (h *heap) push(l *level) {
	h.levels = append(h.levels, l)
	l.at[h.kind] = len(h.levels) - 1
	h.up(len(h.levels) - 1)
}

// remove removes a level if the heap contains it.
func (h *heap) remove(l *level) {
	n := l.at[h.kind]
	if n < 0 || n >= len(h.levels) || h.levels[n] != l {
		return
	}
	last := len(h.levels) - 1
	h.swap(n, last)
	h.levels[last] = nil
	h.levels = h.levels[:last]
	l.at[h.kind] = -1
	if n < last {
		h.down(n)
		h.up(n)
	}
}

func (h *heap) swap(a, b int) {
	h.levels[a], h.levels[b] = h.levels[b], h.levels[a]
	h.levels[a].at[h.kind], h.levels[b].at[h.kind] = a, b
}

func (h *heap) up(n int) {
	for n > 0 {
		parent := (n - 1) / 2
		if !h.less(h.levels[n], h.levels[parent]) {
			return
		}
		h.swap(n, parent)
		n = parent
	}
}

func (h *heap) down(n int) {
	for {
		least := n
		for child := 2*n + 1; child <= 2*n+2 && child < len(h.levels); child++ {
			if h.less(h.levels[child], h.levels[least]) {
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

// walk calls visit for the levels in order until visit returns false. The heap must not change meanwhile.
func (h *heap) walk(visit func(*level) bool) {
	if len(h.levels) == 0 {
		return
	}
	next := []int{0} // indexes whose parents were visited
	for len(next) > 0 {
		least := 0
		for k := range next {
			if h.less(h.levels[next[k]], h.levels[next[least]]) {
				least = k
			}
		}
		at := next[least]
		if !visit(h.levels[at]) {
			return
		}
		next[least] = next[len(next)-1]
		next = next[:len(next)-1]
		for child := 2*at + 1; child <= 2*at+2 && child < len(h.levels); child++ {
			next = append(next, child)
		}
	}
}
