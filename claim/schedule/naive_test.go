package schedule

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// naive picks the next item from a list of items by the rules of docs/limits.md, without a memory of waiting items.
type naive struct {
	*truth
	aging  time.Duration
	served map[WorkspaceID]int
	turns  int
	owed   int // starts since age last decided
	hidden map[WorkspaceID]behind
}

// behind is what a workspace's locked item hides for a moment: its priority and all lower ones. A report about the
// workspace may end that.
type behind struct {
	priority int
	until    time.Time
	reported bool
}

// may reports whether an item may start now, as far as limits, locks and its time allow.
func (n *naive) may(i item) bool {
	w, hidden := n.tenants[i.workspace], n.hidden[i.workspace]
	return !i.due.After(n.now) && !w.paused && w.held < w.limit && n.startable(i.workspace, i.key) &&
		(i.priority > hidden.priority || !hidden.until.After(n.now)) &&
		!slices.ContainsFunc(n.items, func(o item) bool {
			return n.locked[o.id] && o.workspace == i.workspace && o.priority >= i.priority
		})
}

// next returns the item that one free worker should get.
func (n *naive) next() (next item, found bool) {
	var due []item
	for _, i := range n.items {
		if n.may(i) {
			due = append(due, i)
		}
	}
	if len(due) == 0 || n.w == 0 {
		n.owed = 0
		return item{}, false
	}
	oldest := slices.MinFunc(due, func(a, b item) int { return a.due.Compare(b.due) })
	late := oldest.due.Before(n.now.Add(-n.aging))
	if !late {
		n.owed = 0
	}
	next = slices.MinFunc(due, n.before)
	if late && n.owed >= agedShare {
		next, n.owed = oldest, n.owed-agedShare
	}
	n.owed++
	n.turns++
	n.served[next.workspace] = n.turns
	return next, true
}

// before reports which of two items comes first: by priority, then by the least recently served workspace, then by
// run_at.
func (n *naive) before(a, b item) int {
	switch {
	case a.priority != b.priority:
		return b.priority - a.priority
	case a.workspace != b.workspace && n.served[a.workspace] != n.served[b.workspace]:
		return n.served[a.workspace] - n.served[b.workspace]
	case a.workspace != b.workspace:
		return bytes.Compare(a.workspace[:], b.workspace[:])
	default:
		return a.due.Compare(b.due)
	}
}

// one claims one item with the schedule and requires the item that the naive one picks.
func (b *beside) one() {
	if b.told {
		b.tells()
	}
	want, found := b.naive.next()
	p := b.s.Propose(b.now, Want{Free: 1})
	a, taken := b.answer(p)
	vain := b.s.Apply(b.now, p, a.at(b.now))
	for tries := 0; len(taken) == 0 && !p.Empty(); tries++ { // an answer corrects what is stale
		require.Less(b.t, tries, 20, "no item for %+v", p)
		p = b.s.Propose(b.now, Want{Free: 1})
		a, taken = b.answer(p)
		vain += b.s.Apply(b.now, p, a.at(b.now))
	}
	require.Empty(b.t, b.s.broken())
	require.Equal(b.t, found, len(taken) == 1)
	if b.told {
		b.requireAwaited()
	}
	if vain == 0 {
		b.exactly++
		require.True(b.t, !found || taken[0] == want, "%v instead of %v", taken, want)
		for _, l := range b.s.workspaces {
			if l.limit == NoLimit { // it may be full, and what is late in it keeps the share of age
				b.naive.owed = b.s.owed
			}
		}
		return
	}
	// What was asked for in vain has used up a turn.
	b.naive.turns, b.naive.owed = int(b.s.served), b.s.owed
	for id, l := range b.s.workspaces {
		b.naive.served[id] = int(l.served)
	}
}

// requireAwaited requires that the memory knows for whose slots items wait.
func (b *beside) requireAwaited() {
	b.tells()
	for id, w := range b.tenants {
		for _, key := range []string{"", "k", "l"} {
			awaited := slices.ContainsFunc(b.items, func(i item) bool {
				own := i.workspace == id
				return own && w.held >= w.limit || key != "" && i.key == key &&
					(own && b.stands(id, key).Room == 0 || b.stands(WorkspaceID{}, key).Room == 0)
			})
			require.Equal(b.t, awaited, b.s.Awaited(id, key), "workspace %s, key %q", id.name(), key)
		}
	}
}

// many claims several items at once and checks the rules for batches: none comes from a workspace believed to be full,
// no more are asked for than a key is known to have room for, nothing behind a locked item is asked for, and nothing
// comes before a higher priority of which nothing was asked for, but by age.
func (b *beside) many(free int) {
	if b.told {
		b.tells()
	}
	p := b.s.Propose(b.now, Want{Free: free})
	asked := map[*key]int{}
	for _, e := range p.Entries {
		l, hidden := b.s.workspaces[e.Workspace], b.naive.hidden[e.Workspace]
		require.False(b.t, l.closed)
		require.Positive(b.t, e.Items)
		require.False(b.t, !hidden.reported && hidden.until.After(b.now) && e.Priority <= hidden.priority,
			"%v is behind a locked item", e)
		if e.Key == "" {
			continue
		}
		for _, k := range []*key{l.keys[e.Key], b.s.keys[e.Key]} {
			asked[k] += e.Items
			require.LessOrEqual(b.t, asked[k], k.room, "of key %s", e.Key)
		}
	}
	a, taken := b.answer(p)
	require.LessOrEqual(b.t, len(taken), free)
	if b.told {
		b.requireNothingOvertaken(p, a)
	}
	b.applies(p, a, len(taken))
	for n, e := range p.Entries {
		if a.Standings[n].Held >= a.Standings[n].Limit {
			require.True(b.t, b.s.workspaces[e.Workspace].closed)
		}
	}
	require.False(b.t, slices.ContainsFunc(b.items, b.naive.may) && !b.s.Ready(b.now), "nothing is asked for")
}

// requireNothingOvertaken requires that lower priorities get only what is left if all exists that was asked for of
// higher ones, while an item of a higher one may start of which nothing was asked for. Where more was left than was
// taken, the items are taken for existing.
func (b *beside) requireNothingOvertaken(p Proposal, a Answer) {
	for _, i := range b.items {
		left, lower, asked := p.AtMost, 0, !b.naive.may(i)
		for n, e := range p.Entries {
			x := b.s.workspaces[e.Workspace].queue(e.Priority, e.Key)
			asked = asked || e.Key == i.key && (x.deep || e.Workspace == i.workspace && e.Priority == i.priority)
			if e.Priority >= i.priority {
				left -= e.Items
			} else {
				lower += a.Standings[n].Taken - min(a.Standings[n].Taken, e.aged)
			}
		}
		require.True(b.t, asked || lower <= max(left, 0), "%v is overtaken", i)
	}
}

// applies applies an answer some time after its claim.
func (b *beside) applies(p Proposal, a Answer, taken int) {
	a.At = b.now
	if b.byte(4) == 0 {
		b.now = b.now.Add(time.Duration(b.byte(200)) * 50 * time.Millisecond)
	}
	owed := b.s.owed
	b.s.Apply(b.now, p, a)
	require.Empty(b.t, b.s.broken())
	for n, e := range p.Entries {
		if st := a.Standings[n]; taken < p.AtMost && st.Taken < st.Granted && st.leaves(a.At) && b.locked[st.Next.ID] {
			hidden := behind{priority: e.Priority, until: b.now.Add(lockedFor)}
			if before := b.naive.hidden[e.Workspace]; before.until.After(b.now) {
				hidden.priority, hidden.reported = max(hidden.priority, before.priority), before.reported
			}
			b.naive.hidden[e.Workspace] = hidden
		}
	}
	require.False(b.t, taken == 0 && b.s.owed < owed, "what yields nothing uses up no share of age")
}

// drains starts all items within a number of rounds, once no key is limited to zero.
func (b *beside) drains() {
	maps.DeleteFunc(b.limits, func(_ scope, limit int) bool { return limit == 0 })
	clear(b.locked)
	b.now = b.now.Add(time.Hour)
	if b.byte(2) == 0 {
		b.learnsAll()
	} else { // unannounced: a compare finds it
		b.loads(b.levels(), Changed{})
	}
	for rounds := 0; len(b.items) > 0; rounds++ {
		require.Less(b.t, rounds, 500, "forgotten: %v", b.items)
		for name, w := range b.tenants {
			if w.paused {
				w.paused = false
				b.s.Learn(Change{Workspace: name})
			}
			if w.held > 0 {
				b.ends(name.name(), w.held)
			}
		}
		b.many(3)
	}
}

func FuzzSchedule(f *testing.F) {
	for seed := range uint64(50) {
		r, script := rand.New(rand.NewPCG(seed, 5)), make([]byte, 100+20*seed)
		for n := range script {
			script[n] = byte(r.Uint32())
		}
		f.Add(script, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, script []byte, singly bool) {
		next := func(n int) int {
			if len(script) == 0 {
				return 0
			}
			one := int(script[0])
			script = script[1:]
			return one % n
		}
		b := newBeside(t, next)
		b.exact, b.told = singly, singly && len(script)%2 == 0
		for len(script) > 0 {
			if b.happens(); singly {
				b.one()
			} else {
				b.many(1 + next(12))
			}
		}
		b.drains()
	})
}

func TestTheScheduleGivesTheOrderOfANaiveList(t *testing.T) {
	t.Parallel()
	exactly, seeds := 0, 0
	eachSeed(t, 300, func(seed int, r *rand.Rand) {
		b := newBeside(t, r.IntN)
		b.exact, b.told = true, seed%2 == 0
		for range 150 {
			for range r.IntN(3) {
				b.happens()
			}
			b.one()
		}
		exactly += b.exactly
		seeds++
		b.drains()
	})
	require.Greater(t, exactly, seeds*150*8/10)
}

func TestNoWorkspaceIsForgottenByClaimsOfSeveral(t *testing.T) {
	t.Parallel()
	eachSeed(t, 300, func(seed int, r *rand.Rand) {
		b := newBeside(t, r.IntN)
		b.exact, b.told = seed%3 == 0, seed%3 == 0
		for range 60 {
			for range r.IntN(3) {
				b.happens()
			}
			b.many(1 + r.IntN(12))
		}
		b.drains()
	})
}

// workspacesOf returns of how many workspaces these are.
func workspacesOf(all []Waiting) int {
	workspaces := map[WorkspaceID]bool{}
	for _, w := range all {
		workspaces[w.Workspace] = true
	}
	return len(workspaces)
}
