package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// workspaceOf returns the workspace named by one letter or a number.
func workspaceOf(name string) (l WorkspaceID) {
	copy(l[:], name)
	return l
}

func (l WorkspaceID) name() string { return strings.TrimRight(string(l[:]), "\x00") }

// item is a waiting item.
type item struct {
	workspace WorkspaceID
	priority  int
	due       time.Time
	id        int64
	key       string
}

func (i item) String() string { return fmt.Sprintf("%s%d", i.workspace.name(), i.id) }

func (i item) position() Position { return Position{Due: i.due, ID: i.id} }

// tenant is the state of a workspace in Postgres.
type tenant struct {
	limit, held int
	burst       int // how many may be held in a burst; at most limit: none beyond it
	paused      bool
	number      int64
	notBefore   time.Time // until when its rate lets nothing start
	closed      bool      // its items are in a namespace that accepts none
	bound       bool      // a claim says only that it is within its limit, not how many it holds
}

// most is how many may be held while no other workspace needs the workers.
func (w *tenant) most() int {
	if w.limit == 0 || w.paused {
		return 0
	}
	return max(w.limit, w.burst)
}

// slots is how many items the entry may fill the workspace up to.
func (w *tenant) slots(e Entry) int {
	if e.Burst {
		return w.most()
	}
	return w.limit
}

// scope is a limit key in a workspace or, without a workspace, over all workspaces.
type scope struct {
	workspace WorkspaceID
	key       string
}

// truth is a minimal Postgres that scans lists. It answers proposals truthfully.
type truth struct {
	now          time.Time
	items        []item
	running      []item // those with a limit key
	tenants      map[WorkspaceID]*tenant
	limits       map[scope]int       // of limit keys
	notBefore    map[scope]time.Time // until when a limit key's rates let nothing start
	locked       map[int64]bool      // items that another transaction has locked
	w            int                 // room under W
	paused       bool
	epoch        Epoch
	last, nextID int64
}

func newTruth() *truth {
	return &truth{now: start, tenants: map[WorkspaceID]*tenant{}, limits: map[scope]int{},
		notBefore: map[scope]time.Time{}, locked: map[int64]bool{}, w: 1000, epoch: Epoch{1}}
}

// tenant sets the limit of a workspace.
func (p *truth) tenant(name string, limit int) *tenant {
	w := &tenant{limit: limit, number: int64(len(p.tenants) + 1)}
	p.tenants[workspaceOf(name)] = w
	return w
}

// add inserts an item and returns the change that a look reports.
func (p *truth) add(name string, priority int, due time.Time) Change {
	return p.addKeyed(name, "", priority, due)
}

func (p *truth) addKeyed(name, key string, priority int, due time.Time) Change {
	p.nextID++
	i := item{workspaceOf(name), priority, due, p.nextID, key}
	p.items = append(p.items, i)
	return Change{Workspace: i.workspace, Number: p.tenants[i.workspace].number, Key: key, Waits: true, Priority: priority,
		Due: due, Items: 1}
}

// keyRoom is how many more items of a limit key may run, in a workspace or over all workspaces.
func (p *truth) keyRoom(workspace WorkspaceID, key string) int {
	limit, limited := p.limits[scope{workspace, key}]
	if !limited {
		return NoLimit
	}
	for _, i := range p.running {
		if i.key == key && (i.workspace == workspace || workspace == WorkspaceID{}) {
			limit--
		}
	}
	return limit
}

// stands is how a limit key stands, in a workspace or over all workspaces.
func (p *truth) stands(workspace WorkspaceID, key string) KeyStanding {
	return KeyStanding{max(p.keyRoom(workspace, key), 0), max(p.notBefore[scope{workspace, key}].Sub(p.now), 0)}
}

// startable reports whether an item with this key may start as far as its limits allow.
func (p *truth) startable(workspace WorkspaceID, key string) bool {
	own, all := p.stands(workspace, key), p.stands(WorkspaceID{}, key)
	return key == "" || min(own.Room, all.Room) > 0 && max(own.RetryIn, all.RetryIn) == 0
}

// answer takes as much of a proposal as the limits allow, in its order.
func (p *truth) answer(proposal Proposal) (a Answer, taken []item) {
	a = Answer{Epoch: p.epoch, Paused: p.paused, Last: p.last, Room: p.w,
		Standings: make([]Standing, len(proposal.Entries))}
	if p.paused {
		a.Room = 0
	}
	used, keyed, room := map[WorkspaceID]int{}, map[scope]int{}, min(proposal.AtMost, a.Room)
	for n, e := range proposal.Entries {
		w, st := p.tenants[e.Workspace], &a.Standings[n]
		*st = Standing{Limit: w.limit, BurstLimit: w.most(), Paused: w.paused, Number: w.number,
			Counted: w.held, RetryIn: max(w.notBefore.Sub(p.now), 0)}
		if st.Granted = max(min(e.Items, w.slots(e)-w.held-used[e.Workspace]), 0); w.paused || st.RetryIn > 0 {
			st.Granted = 0
		}
		if e.Key != "" {
			own, all := scope{e.Workspace, e.Key}, scope{key: e.Key}
			most := min(p.keyRoom(e.Workspace, e.Key)-keyed[own], p.keyRoom(WorkspaceID{}, e.Key)-keyed[all])
			st.Granted = max(min(st.Granted, most), 0)
			if !p.startable(e.Workspace, e.Key) {
				st.Granted = 0
			}
			keyed[own] += st.Granted
			keyed[all] += st.Granted
		}
		used[e.Workspace] += st.Granted
		if w.paused {
			st.Limit = 0
		}
		for _, i := range p.level(e) {
			if st.Taken == st.Granted || len(taken) == room || i.due.After(p.now) || p.locked[i.id] || w.closed {
				at := i.position()
				st.Next = &at
				break
			}
			st.Taken++
			taken = append(taken, i)
		}
		a.Limited = a.Limited || w.closed
	}
	for _, i := range taken {
		if p.tenants[i.workspace].held++; i.key != "" {
			p.running = append(p.running, i)
		}
		p.items = slices.DeleteFunc(p.items, func(o item) bool { return o == i })
	}
	p.last += int64(len(taken))
	p.w -= len(taken)
	for n, e := range proposal.Entries {
		w, st := p.tenants[e.Workspace], &a.Standings[n]
		if st.Held = w.held; w.bound && st.Taken > 0 && w.held < w.limit {
			st.Held, st.Bound = w.limit, true
		}
		st.Own, st.All = p.stands(e.Workspace, e.Key), p.stands(WorkspaceID{}, e.Key)
		st.PassedOver = w.closed && st.Granted > 0 && len(taken) < room && st.Next != nil && !st.Next.Due.After(p.now)
	}
	return a, taken
}

// level returns the waiting items at an entry's level from its position on, in order.
func (p *truth) level(e Entry) (found []item) {
	for _, i := range p.items {
		if i.workspace == e.Workspace && i.priority == e.Priority && i.key == e.Key && !i.position().Before(e.From) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b item) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id)) })
	return found
}

// levels returns the rows of a load.
func (p *truth) levels() (all []Waiting) {
	type group struct {
		workspace WorkspaceID
		priority  int
		key       string
	}
	first := map[group]int{}
	for _, i := range p.items {
		key, w := group{i.workspace, i.priority, i.key}, p.tenants[i.workspace]
		n, found := first[key]
		if !found {
			first[key] = len(all)
			limit := w.limit
			if w.paused {
				limit = 0
			}
			all = append(all,
				Waiting{Workspace: i.workspace, Number: w.number, Priority: i.priority, Key: i.key, From: i.position(),
					Held: w.held, Limit: limit, BurstLimit: w.most(), OwnFull: p.stands(i.workspace, i.key).Room == 0,
					AllFull: p.stands(WorkspaceID{}, i.key).Room == 0})
		} else if i.position().Before(all[n].From) {
			all[n].From = i.position()
		}
	}
	return all
}

// desk is a schedule with Postgres behind it.
type desk struct {
	*truth
	t       *testing.T
	s       Schedule
	holding int
	vain    int // of the last claim
}

// loads applies what waits and returns how many workspaces were missed.
func (d *desk) loads(all []Waiting, changed Changed) int {
	missed := workspacesOf(d.s.Missed(d.now, all, changed))
	d.s.Load(all, changed)
	d.s.Forget()
	return missed
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	t.Parallel()
	return &desk{truth: newTruth(), t: t, s: Schedule{Aging: time.Minute}}
}

// waits inserts items into a workspace, due for the given time and each slightly longer than the next, and tells the
// schedule.
func (d *desk) waits(name string, priority, items int, since time.Duration) {
	for range items {
		d.s.Learn(d.add(name, priority, d.now.Add(-since-time.Millisecond+time.Duration(d.nextID)*time.Microsecond)))
	}
}

// propose returns the proposal as "workspace@priority*items".
func (d *desk) propose(free int) string {
	d.t.Helper()
	p := d.s.Propose(d.now, Want{Free: free, Holding: d.holding})
	var said []string
	for _, e := range p.Entries {
		said = append(said, fmt.Sprintf("%s@%d*%d", e.Workspace.name(), e.Priority, e.Items))
	}
	d.requireWhole()
	return strings.Join(said, " ")
}

// claim claims what the schedule proposes and returns the items it got, as workspaces and numbers.
func (d *desk) claim(free int) string {
	d.t.Helper()
	p := d.s.Propose(d.now, Want{Free: free, Holding: d.holding})
	a, taken := d.answer(p)
	d.vain = d.s.Apply(d.now, p, a.at(d.now))
	d.requireWhole()
	return strings.Trim(fmt.Sprint(taken), "[]")
}

// claims makes n claims of one item each.
func (d *desk) claims(n int) string {
	d.t.Helper()
	var said []string
	for range n {
		said = append(said, d.claim(1))
	}
	return strings.Join(said, " ")
}

// ends frees slots of a workspace, those with a limit key first, and tells the schedule by marks. It returns the keys.
func (d *desk) ends(name string, items int) (keys []string) {
	d.tenants[workspaceOf(name)].held -= items
	d.w += items
	for ; items > 0; items-- {
		n := slices.IndexFunc(d.running, func(i item) bool { return i.workspace == workspaceOf(name) })
		if n < 0 {
			d.s.Learn(Change{Workspace: workspaceOf(name), Items: items})
			break
		}
		keys = append(keys, d.running[n].key)
		d.s.Learn(Change{Workspace: workspaceOf(name), Keys: keys[len(keys)-1:], Items: 1})
		d.running = slices.Delete(d.running, n, n+1)
	}
	return keys
}

// requireWhole checks that the heaps are in order and complete.
func (d *desk) requireWhole() {
	d.t.Helper()
	require.Empty(d.t, d.s.broken())
}

// broken returns what is wrong with the heaps, or "".
func (s *Schedule) broken() string {
	for n := range s.ready {
		if at := s.ready[n].broken(); at != "" {
			return fmt.Sprintf("ready at %d: %s", n+lowest, at)
		}
		for _, v := range s.ready[n].all {
			if v.priority != n+lowest {
				return fmt.Sprintf("a level of priority %d is among those of %d", v.priority, n+lowest)
			}
		}
	}
	for _, h := range []*levels{&s.oldest, &s.bursting, &s.later, &s.proven} {
		if at := h.broken(); at != "" {
			return fmt.Sprintf("heap %d: %s", h.kind, at)
		}
	}
	for _, l := range s.workspaces {
		for n, v := range l.levels {
			ready, oldest, later := v.offered(), v.at[inOldest] >= 0 || v.at[inBursting] >= 0, v.at[inLater] >= 0
			if at := v.broken(); at != "" {
				return fmt.Sprintf("workspace %s at %d: %s", l.id.name(), v.priority, at)
			}
			if v.at[inReady] >= 0 && (v.at[inBursting] >= 0) != l.proven {
				return fmt.Sprintf("workspace %s at %d: ready, and among the proven %t", l.id.name(), v.priority,
					v.at[inBursting] >= 0)
			}
			waits := v.ripe.len()+v.unripe.len() > 0
			if ready != oldest || ready && later != (v.unripe.len() > 0) || (ready || later) != (waits && !l.closed) {
				return fmt.Sprintf("workspace %s at %d: closed %t, ready %t, oldest %t, later %t", l.id.name(), v.priority,
					l.closed, ready, oldest, later)
			}
			if n > 0 && l.levels[n-1].priority <= v.priority {
				return "levels are out of order"
			}
		}
	}
	return ""
}

// broken describes what is wrong with the key queues of a level, or returns "".
func (l *level) broken() string {
	if at := l.ripe.broken() + l.unripe.broken(); at != "" {
		return at
	}
	n, open := 0, 0
	for x := range l.queues() {
		n++
		ripe, unripe := x.at[inRipe] >= 0, x.at[inUnripe] >= 0
		if ripe && unripe || (ripe || unripe) == x.blocked() {
			return fmt.Sprintf("key %q: ripe %t, unripe %t, blocked %t", x.name, ripe, unripe, x.blocked())
		}
		if !x.blocked() {
			open++
		}
		if x.name == "" {
			continue
		}
		if at := x.own.queues.broken() + x.all.queues.broken(); at != "" || x.at[inOwn] < 0 || x.at[inAll] < 0 {
			return fmt.Sprintf("key %q does not know its line: %s", x.name, at)
		}
		if !x.blocked() && x.room() <= 0 {
			return fmt.Sprintf("key %q is not full and has no room", x.name)
		}
	}
	if n == 0 || open != l.ripe.len()+l.unripe.len() {
		return fmt.Sprintf("%d of %d lines are open, %d are ripe and %d are not", open, n, l.ripe.len(), l.unripe.len())
	}
	return ""
}

func (h *heap[T]) broken() string {
	for n, v := range h.all {
		if at := int(*v.index(h.kind)); at != n {
			return fmt.Sprintf("the element at %d has the index %d", n, at)
		}
		if n > 0 && v.before(h.all[(n-1)/2], h.kind) {
			return fmt.Sprintf("the element at %d comes before its parent", n)
		}
	}
	return ""
}
