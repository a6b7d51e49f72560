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
}

// next returns the item that one free worker should get.
func (n *naive) next() (next item, found bool) {
	var due []item
	for _, i := range n.items {
		if w := n.tenants[i.workspace]; !i.due.After(n.now) && !w.paused && w.held < w.limit &&
			n.startable(i.workspace, i.key) {
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

// beside pairs a schedule with the naive one.
type beside struct {
	*desk
	naive   naive
	byte    func(n int) int // returns a number below n
	exact   bool            // the memory is never wrong; where it may be wrong, items behind others may be proposed first
	exactly int             // how often the item that the naive one picks was claimed at once
	told    bool            // the memory is told how every key stands, as by a claim, so that their limits may change
}

func newBeside(t *testing.T, next func(n int) int) *beside {
	t.Helper()
	b := &beside{desk: &desk{t: t, truth: newTruth(), s: Schedule{Aging: 10 * time.Second}}, byte: next}
	b.naive = naive{truth: b.truth, aging: 10 * time.Second, served: map[WorkspaceID]int{}}
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

func (b *beside) name() string { return string(rune('a' + b.byte(len(b.tenants)))) }

// happens triggers an event and reports it to the schedule.
func (b *beside) happens() {
	name := b.name()
	w := b.tenants[workspaceOf(name)]
	switch b.byte(13) {
	case 0, 1, 2, 3:
		for range 1 + b.byte(4) {
			due := b.now.Add(time.Duration(b.byte(40)-30)*time.Second + time.Duration(b.nextID)*time.Microsecond)
			b.s.Learn(b.addKeyed(name, []string{"", "", "k", "l"}[b.byte(4)], b.byte(3)*50-100, due))
		}
	case 4, 5, 6, 7:
		if w.held > 0 {
			b.ends(name, 1+b.byte(w.held))
		}
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
	default:
		all, changed := b.levels(), Changed{Workspaces: map[WorkspaceID]bool{}, Keys: map[string]bool{}}
		if !b.exact && w.held > 0 && b.byte(2) == 0 { // a change that the schedule learns before what was read earlier
			changed.Workspaces[workspaceOf(name)] = true
			for _, key := range b.ends(name, 1) {
				changed.Keys[key] = true
			}
		}
		missed := b.loads(all, changed)
		maps.DeleteFunc(b.naive.served, func(l WorkspaceID, _ int) bool { // workspaces without waiting items are evicted
			return !slices.ContainsFunc(all, func(w Waiting) bool { return w.Workspace == l })
		})
		require.Zero(b.t, missed, "every event was reported")
		for _, w := range all {
			if len(changed.Workspaces) == 0 { // what was read is current: a full key is not asked for
				require.True(b.t, !w.AllFull || b.s.keys[w.Key].closed, "key %s is full", w.Key)
				require.True(b.t, !w.OwnFull || b.s.workspaces[w.Workspace].keys[w.Key].closed, "key %s is full", w.Key)
			}
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
		b.s.LearnAll()
	}
}

// tells tells the memory how every key stands, as claims of each would.
func (b *beside) tells() {
	for name, k := range b.s.keys {
		b.s.limit(b.now, k, b.stands(WorkspaceID{}, name))
	}
	for id, l := range b.s.workspaces {
		for name, k := range l.keys {
			b.s.limit(b.now, k, b.stands(id, name))
		}
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

// many claims several items at once and checks the rules for batches: a lower priority comes first only by age, no item
// comes from a workspace believed to be full, and no more are asked for than a key is known to have room for.
func (b *beside) many(free int) {
	p := b.s.Propose(b.now, Want{Free: free})
	asked := map[*key]int{}
	for _, e := range p.Entries {
		l := b.s.workspaces[e.Workspace]
		require.False(b.t, l.closed)
		require.Positive(b.t, e.Items)
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
	b.s.Apply(b.now, p, a.at(b.now))
	require.Empty(b.t, b.s.broken())
	for n, e := range p.Entries {
		if a.Standings[n].Held >= a.Standings[n].Limit {
			require.True(b.t, b.s.workspaces[e.Workspace].closed)
		}
	}
}

// drains starts all items within a number of rounds, once no key is limited to zero.
func (b *beside) drains() {
	maps.DeleteFunc(b.limits, func(_ scope, limit int) bool { return limit == 0 })
	b.now = b.now.Add(time.Hour)
	if b.byte(2) == 0 {
		b.s.LearnAll()
	} else { // unannounced: a compare finds it
		b.loads(b.levels(), Changed{})
	}
	for rounds := 0; len(b.items) > 0; rounds++ {
		require.Less(b.t, rounds, 500, "forgotten: %v", b.items)
		for name := range b.tenants {
			w := b.tenants[name]
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
	eachSeed(t, 300, func(_ int, r *rand.Rand) {
		b := newBeside(t, r.IntN)
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
