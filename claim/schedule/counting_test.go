package schedule

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// key encodes the state canonically: replicas and items of a lane are interchangeable.
func (m *model) key() string {
	var rows [modelItems][]byte
	for n, r := range m.rows {
		rows[n] = []byte{r.lane, r.state, r.token, r.open, r.next}
	}
	one := m.bytes(rows, 0, 1)
	if two := m.bytes(rows, 1, 0); bytes.Compare(two, one) < 0 {
		return string(two)
	}
	return string(one)
}

// bytes encodes the state with the replicas in this order.
func (m *model) bytes(rows [modelItems][]byte, order ...int) []byte {
	for n := range rows {
		rows[n] = slices.Clone(rows[n])
		if open := rows[n][3]; open >= openTake {
			rows[n][3] = openTake + byte(slices.Index(order, int(open-openTake)))
		}
	}
	slices.SortFunc(rows[:], bytes.Compare)
	key := append(make([]byte, 0, 96), m.limits[0], m.limits[1], m.last, m.faults, m.edit)
	for _, r := range rows {
		key = append(key, r...)
	}
	for _, n := range order {
		r := &m.replicas[n]
		key = append(key, r.phase, r.grants[0], r.grants[1], r.limits[0], r.limits[1])
		for _, known := range [][modelLanes]modelReceipt{r.known, r.told, r.counted} {
			for _, k := range known {
				key = append(key, k.known, k.floor, k.held, k.to)
			}
		}
	}
	return key
}

// simplify merges states that no longer differ in anything relevant: tokens count by their order, and receipts by what
// they allow now. It is valid while no token is above the last.
func (m *model) simplify() {
	const useless = 9 // a bound that no limit allows
	var used [256]bool
	used[0], used[m.last] = true, true
	var receipts []*modelReceipt
	for n := range m.rows {
		r := &m.rows[n]
		if !r.holds() && r.state != rowForgettable {
			r.token = 0
		}
		used[r.token], used[r.next] = true, true
	}
	for n := range m.replicas {
		r := &m.replicas[n]
		for lane := range modelLanes {
			receipts = append(receipts, &r.known[lane], &r.told[lane], &r.counted[lane])
		}
	}
	for _, r := range receipts {
		if r.known == 0 {
			*r = modelReceipt{}
			continue
		}
		r.held, r.to = min(r.held+m.last-r.to, useless), m.last
		// A floor always refers to an existing or the next token.
		for r.floor <= m.last && !used[r.floor] {
			r.floor++
		}
	}
	var rank [256]byte
	var n byte
	for v := range int(m.last) + 2 {
		if rank[v] = n; used[v] {
			n++
		}
	}
	for _, r := range receipts {
		if r.known != 0 {
			r.floor, r.to = rank[r.floor], rank[r.to]
		}
	}
	for n := range m.rows {
		m.rows[n].token, m.rows[n].next = rank[m.rows[n].token], rank[m.rows[n].next]
	}
	m.last = rank[m.last]
}

// explore visits all states breadth-first. It returns their number and the steps after which a limit was exceeded, or
// -1.
func explore(s setting, without rules, most int) (states, steps int) {
	begin := model{limits: s.limits}
	for n, lane := range s.lanes {
		begin.rows[n].lane = lane
	}
	known := map[string]struct{}{begin.key(): {}}
	level, found := []model{begin}, false
	for steps = 1; len(level) > 0; steps++ {
		var next []model
		x := explorer{setting: s, rules: without}
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

// settings are the configurations in which the rules hold, each with the event that a rule guards against. Large ones
// run only with PGDISPATCH_LONG.
var settings, largeSettings = []setting{
	{name: "leases run out", limits: [2]byte{1, 0}, faults: 1, requeue: true, rollback: true},
	{name: "claims roll back", limits: [2]byte{1, 0}, faults: 1, rollback: true, ownEnd: true},
	{name: "limits change", limits: [2]byte{2, 0}, edits: 1},
	{name: "ends are forgotten", limits: [2]byte{1, 0}, faults: 2, crash: true},
	{name: "two lanes", lanes: [3]byte{0, 0, 1}, limits: [2]byte{1, 1}, solo: true},
	{name: "a lane twice", limits: [2]byte{2, 0}, twice: true},
	{name: "moved", limits: [2]byte{1, 0}, moved: true, release: true, faults: 2, solo: true},
	{name: "a wrong receipt", limits: [2]byte{1, 0}, lie: true, faults: 1},
}, []setting{
	{name: "limits change twice", limits: [2]byte{2, 0}, edits: 2, release: true, faults: 1},
	{name: "two lanes, two replicas", lanes: [3]byte{0, 0, 1}, limits: [2]byte{1, 1}},
	{name: "leases run out in two lanes", lanes: [3]byte{0, 0, 1}, limits: [2]byte{1, 1}, faults: 1, requeue: true,
		kill: true},
	{name: "requeues are forgotten", limits: [2]byte{1, 0}, faults: 2, crash: true, requeue: true, kill: true},
	{name: "every rare event", limits: [2]byte{2, 0}, faults: 2, crash: true, requeue: true, rollback: true, release: true,
		twice: true},
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
			t.Logf("%d states", states)
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
		"grants are not cumulative":                {"a lane twice", rules{notCumulative: true}},
		"a receipt above the last token is used":   {"a wrong receipt", rules{aboveLastUsed: true}},
		"a floor is above the next token":          {"moved", rules{floorNotCapped: true}},
		"the count does not wait for the lock":     {"leases run out", rules{countedEarly: true}},
		"all items of a claim have one token":      {"a lane twice", rules{oneToken: true}},
		"a load without the lock gives a receipt":  {"leases run out", rules{loadTold: true}},
		"the limit is not read again":              {"limits change", rules{limitOld: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := slices.IndexFunc(settings, func(s setting) bool { return s.name == c.setting })
			states, steps := explore(settings[n], c.without, 2_000_000)
			t.Logf("%d states, %d steps", states, steps)
			require.Positive(t, steps, "no setting needs this rule")
		})
	}
}
