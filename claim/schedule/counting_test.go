package schedule

import (
	"math/bits"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// modelKey is a packed state.
type modelKey [5]uint64

// key packs the state canonically: replicas and items of a key queue are interchangeable.
func (m *model) key() modelKey {
	one, two := m.packed(0, 1), m.packed(1, 0)
	if slices.Compare(two[:], one[:]) < 0 {
		return two
	}
	return one
}

// packed packs the state with the replicas in this order.
func (m *model) packed(order ...byte) (k modelKey) {
	var rows [modelItems]uint64
	for n := range m.rows {
		r := &m.rows[n]
		open := r.open
		if open >= openTake {
			open = openTake + order[open-openTake]
		}
		rows[n] = pack(pack(pack(pack(pack(0, r.queue, 2), r.state, 3), r.token, 4), open, 2), r.next, 4)
	}
	slices.Sort(rows[:])
	for _, r := range rows {
		k[0] = k[0]<<15 | r
	}
	k[4] = pack(pack(pack(m.limits.pack(0), m.last, 4), m.faults, 2), m.edit, 2)
	for at, n := range order {
		r := &m.replicas[n]
		for workspace := range modelWorkspaces {
			k[1+at] = r.told[workspace].pack(r.known[workspace].pack(k[1+at]))
			k[3] = r.counted[workspace].pack(k[3])
		}
		for _, granted := range r.grants {
			k[1+at] = pack(k[1+at], granted, 2)
		}
		k[1+at] = pack(k[1+at], r.phase, 2)
		k[4] = r.limits.pack(k[4])
	}
	return k
}

// pack appends a value of so many bits.
func pack(to uint64, value byte, bits int) uint64 {
	if value>>bits > 0 {
		panic("a value of the model does not fit")
	}
	return to<<bits | uint64(value)
}

func (l modelLimits) pack(to uint64) uint64 {
	return pack(pack(pack(pack(pack(to, l.workspaces[0], 2), l.workspaces[1], 2), l.burst, 2), l.own, 3), l.all, 3)
}

func (r modelReceipt) pack(to uint64) uint64 {
	return pack(pack(pack(to, r.known*(r.floor+1), 4), r.held, 4), r.to, 4)
}

// simplify merges states that no longer differ in anything relevant: tokens count by their order, and receipts by what
// they allow now. It is valid while no token is above the last.
func (m *model) simplify() {
	const useless = 9 // a bound that no limit allows
	used := uint32(1) | 1<<m.last
	for n := range m.rows {
		r := &m.rows[n]
		if !r.holds() && r.state != rowForgettable {
			r.token = 0
		}
		used |= 1<<r.token | 1<<r.next
	}
	rank := func(token byte) byte { return byte(bits.OnesCount32(used & (1<<token - 1))) }
	for n := range m.replicas {
		r := &m.replicas[n]
		for workspace := range modelWorkspaces {
			for _, k := range []*modelReceipt{&r.known[workspace], &r.told[workspace], &r.counted[workspace]} {
				if k.known == 0 {
					continue
				}
				// A floor always refers to an existing or the next token, as its rank does.
				k.floor, k.held, k.to = rank(k.floor), min(k.held+m.last-k.to, useless), rank(m.last)
			}
		}
	}
	for n := range m.rows {
		m.rows[n].token, m.rows[n].next = rank(m.rows[n].token), rank(m.rows[n].next)
	}
	m.last = rank(m.last)
}

// explore visits all states breadth-first. It returns their number and the steps after which a limit was exceeded, or
// -1.
func explore(s setting, without rules, most int) (states, steps int) {
	begin := model{limits: s.limits}
	for n := range begin.rows {
		if begin.rows[n].state = rowEnded; n < len(s.queues) {
			begin.rows[n] = modelRow{queue: s.queues[n]}
		}
	}
	known := map[modelKey]struct{}{begin.key(): {}}
	level, found := []model{begin}, false
	for steps = 1; len(level) > 0; steps++ {
		var next []model
		x := explorer{setting: s, rules: without, asks: s.proposals()}
		x.emit = func(m model, broken bool) {
			found = found || broken
			if !s.moved && !s.lie {
				m.simplify()
			}
			key := m.key()
			if _, is := known[key]; !is && m.last <= 6 {
				known[key] = struct{}{}
				next = append(next, m)
			}
		}
		for _, m := range level {
			if x.next(m); found {
				return len(known), steps
			}
		}
		if len(known) > most {
			return len(known), -2
		}
		level = next
	}
	return len(known), -1
}

// items are those of workspace 0 without a key.
func items(n int) []byte { return make([]byte, n) }

// workspaces are limits of workspaces, with no other.
func workspaces(one, two byte) modelLimits {
	return modelLimits{workspaces: [modelWorkspaces]byte{one, two}, own: unlimited, all: unlimited}
}

// bursts are limits of workspace 0 and of its key there.
func bursts(limit, burst, own byte) modelLimits {
	return modelLimits{workspaces: [modelWorkspaces]byte{limit}, burst: burst, own: own, all: unlimited}
}

func limitOfWorkspace(l *modelLimits) *byte { return &l.workspaces[0] }
func limitOfBurst(l *modelLimits) *byte     { return &l.burst }
func limitOfKey(l *modelLimits) *byte       { return &l.own }

// settings are the configurations in which the rules hold, each with the event that a rule guards against. Large ones
// run only with PGDISPATCH_LONG: 12 million states, in a minute.
var settings, largeSettings = []setting{
	{name: "leases run out", queues: items(3), limits: workspaces(2, 0), faults: 1, requeue: true, rollback: true},
	{name: "claims roll back", queues: items(3), limits: workspaces(2, 0), faults: 1, rollback: true, ownEnd: true},
	{name: "limits change", queues: items(3), limits: workspaces(2, 0), edits: 1, edited: limitOfWorkspace},
	{name: "ends are forgotten", queues: items(3), limits: workspaces(2, 0), faults: 2, crash: true, vain: true},
	{name: "two workspaces", queues: []byte{0, 0, 0, 1}, limits: workspaces(2, 1), solo: true},
	{name: "a workspace twice", queues: items(4), limits: workspaces(3, 0), twice: true},
	{name: "moved", queues: items(3), limits: workspaces(2, 0), moved: true, release: true, faults: 2, solo: true},
	{name: "a wrong receipt", queues: items(3), limits: workspaces(2, 0), lie: true, faults: 1, solo: true},
	{name: "a key", queues: []byte{keyed, keyed, 0}, limits: bursts(2, 0, 1), faults: 1, requeue: true},
	{name: "a key twice", queues: []byte{keyed, keyed, keyed, 0}, limits: bursts(3, 0, 2), twice: true, solo: true},
	{name: "a key of two workspaces", queues: []byte{keyed, keyed + 1, keyed + 1},
		limits: modelLimits{workspaces: [2]byte{2, 2}, own: 2, all: 1}, solo: true},
	{name: "a key's limit changes", queues: []byte{keyed, keyed, 0}, limits: bursts(2, 0, 2), edits: 1, edited: limitOfKey,
		solo: true},
	{name: "bursts", queues: items(3), limits: bursts(1, 2, unlimited), faults: 1, requeue: true},
	{name: "a burst's limit changes", queues: items(3), limits: bursts(1, 2, unlimited), edits: 1, edited: limitOfBurst},
	{name: "the limit of a burst changes", queues: items(3), limits: bursts(1, 2, unlimited), edits: 1,
		edited: limitOfWorkspace},
	{name: "a key in a burst", queues: []byte{keyed, keyed, 0}, limits: bursts(1, 2, 1), faults: 1, crash: true},
}, []setting{
	{name: "limits change twice", queues: items(3), limits: workspaces(2, 0), edits: 2, edited: limitOfWorkspace,
		release: true, faults: 1},
	{name: "two workspaces, two replicas", queues: []byte{0, 0, 1}, limits: workspaces(1, 1)},
	{name: "leases run out in two workspaces", queues: []byte{0, 0, 0, 1}, limits: workspaces(2, 1), faults: 1,
		requeue: true, solo: true},
	{name: "requeues are forgotten", queues: items(3), limits: workspaces(2, 0), faults: 2, crash: true, requeue: true,
		kill: true, vain: true},
	{name: "every rare event", queues: items(3), limits: workspaces(2, 0), faults: 2, crash: true, requeue: true,
		rollback: true, release: true, twice: true},
	{name: "every rare event of a key in a burst", queues: []byte{keyed, keyed, 0}, limits: bursts(1, 2, 1), faults: 2,
		crash: true, requeue: true, rollback: true, release: true, vain: true},
	{name: "a key of two workspaces, one in a burst", queues: []byte{keyed, 0, 0, keyed + 1},
		limits: modelLimits{workspaces: [2]byte{1, 1}, burst: 2, own: 1, all: 1}, faults: 1, requeue: true, solo: true},
}

func TestNoOrderOfEventsPassesALimit(t *testing.T) {
	t.Parallel()
	explored := settings
	if os.Getenv("PGDISPATCH_LONG") != "" {
		explored = append(slices.Clone(settings), largeSettings...)
	}
	for _, s := range explored {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			states, steps := explore(s, rules{}, 20_000_000)
			t.Logf("%d states of %s", states, s.name)
			require.Equal(t, -1, steps, "a limit is exceeded")
			require.Greater(t, states, 500)
		})
	}
}

func TestEachRuleThatIsLeftOutPassesALimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setting string
		without rules
	}{
		"a requeue's token does not rise":          {"leases run out", rules{tokenFalls: true}},
		"the epoch is ignored":                     {"ends are forgotten", rules{epochIgnored: true}},
		"a claim that rolled back gives a receipt": {"claims roll back", rules{rolledBackTold: true}},
		"grants are not cumulative":                {"a workspace twice", rules{notCumulative: true}},
		"a receipt above the last token is used":   {"a wrong receipt", rules{aboveLastUsed: true}},
		"a floor is above the next token":          {"moved", rules{floorNotCapped: true}},
		"the count does not wait for the lock":     {"leases run out", rules{countedEarly: true}},
		"all items of a claim have one token":      {"a workspace twice", rules{oneToken: true}},
		"a load without the lock gives a receipt":  {"leases run out", rules{loadTold: true}},
		"the limit is not read again":              {"limits change", rules{limitOld: true}},
		"entries do not share their key's room":    {"a key twice", rules{keyPerEntry: true}},
		"a key is counted in each workspace":       {"a key of two workspaces", rules{keyPerWorkspace: true}},
		"a key does not count unanswered starts":   {"a key", rules{keyNoDoubts: true}},
		"a key's count does not wait for the lock": {"a key", rules{countedEarly: true}},
		"the limit of a key is not read again":     {"a key's limit changes", rules{limitOld: true}},
		"an entry bursts unasked":                  {"bursts", rules{burstUnasked: true}},
		"a burst has no limit":                     {"bursts", rules{burstEndless: true}},
		"a burst shares no grants":                 {"bursts", rules{burstApart: true}},
		"the limit of a burst is not read again":   {"a burst's limit changes", rules{limitOld: true}},
		"a workspace with limit 0 bursts":          {"the limit of a burst changes", rules{burstOfZero: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := slices.IndexFunc(settings, func(s setting) bool { return s.name == c.setting })
			states, steps := explore(settings[n], c.without, 2_000_000)
			t.Logf("%d states, %d steps: %s", states, steps, name)
			require.Positive(t, steps, "no setting needs this rule")
		})
	}
}

// A planted row takes each limit beyond what it allows, in each state in which it holds a slot.
func TestEachLimitThatIsPassedIsSeen(t *testing.T) {
	holding := []modelRow{{state: rowClaimed}, {state: rowDispatched}, {state: rowDoubt},
		{state: rowWaits, open: openTake}, {state: rowDoubt, open: openTake}, {state: rowClaimed, open: openRequeue}}
	free := []modelRow{{state: rowWaits}, {state: rowEnded}, {state: rowForgettable},
		{state: rowDispatched, open: openTake}}
	type given struct {
		limits modelLimits
		queue  byte // of the planted row
	}
	must.Each(t, map[string]given{
		"a workspace's":          {modelLimits{workspaces: [2]byte{1, unlimited}, own: unlimited, all: unlimited}, 0},
		"a workspace's, by keys": {modelLimits{workspaces: [2]byte{1, unlimited}, own: unlimited, all: unlimited}, keyed},
		"another workspace's":    {modelLimits{workspaces: [2]byte{1, 0}, own: unlimited, all: unlimited}, 1},
		"a key's in a workspace": {modelLimits{workspaces: [2]byte{unlimited, 1}, own: 1, all: unlimited}, keyed},
		"a key's over all":       {modelLimits{workspaces: [2]byte{1, 1}, own: 1, all: 1}, keyed + 1},
	}, func(t *testing.T, c given) {
		took := [modelQueues]bool{}
		took[c.queue] = true
		seen := func(planted modelRow) bool {
			m := model{}
			for n := range m.rows {
				m.rows[n].state = rowEnded
			}
			m.rows[0] = modelRow{queue: keyed, state: rowDispatched}
			m.rows[1] = planted
			m.rows[1].queue = c.queue
			return m.broken(took, c.limits)
		}
		for _, planted := range holding {
			require.True(t, seen(planted), "%+v", planted)
		}
		for _, planted := range free {
			require.False(t, seen(planted), "%+v", planted)
		}
	})
}

// States that differ in anything are not taken for one another, so none is left unexplored.
func TestNoPartOfAStateIsLostInItsKey(t *testing.T) {
	t.Parallel()
	begin := model{}
	for n := range begin.replicas {
		r := &begin.replicas[n]
		for workspace := range modelWorkspaces {
			r.known[workspace].known, r.told[workspace].known, r.counted[workspace].known = 1, 1, 1
		}
	}
	for n := range unsafe.Sizeof(begin) { // all of it is bytes
		changed := begin
		(*[unsafe.Sizeof(begin)]byte)(unsafe.Pointer(&changed))[n] ^= 1
		require.NotEqual(t, begin.key(), changed.key(), "byte %d", n)
	}
}
