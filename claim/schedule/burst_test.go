package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// burst adds a workspace with a burst limit.
func (d *desk) burst(name string, limit, most int) { d.tenant(name, limit).burst = most }

func TestAWorkspaceGoesBeyondItsLimitWhileNoOtherNeedsTheWorkers(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 2, 5)
	d.waits("a", 0, 9, 0)
	require.Equal(t, "a1 a2", d.claim(9))
	require.Equal(t, "a3 a4 a5", d.claim(9))
	require.Empty(t, d.claim(9), "it is at its burst limit")
	require.Equal(t, []Full{{workspaceOf("a"), 5, 5}}, d.s.Full(d.now))
	d.ends("a", 1)
	require.Equal(t, "a6", d.claim(9))
}

func TestBurstsTakeTurnsByPriorityAndThenByTheLeastRecentlyServed(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"a", "b", "c"} {
		d.burst(name, 1, 9)
	}
	d.waits("a", 0, 4, 0)
	d.waits("b", 0, 4, 0)
	d.waits("c", 5, 2, 0)
	require.Equal(t, "c9 a1 b5", d.claims(3))
	require.Equal(t, "c10 a2 b6 a3 b7", d.claims(5))
}

func TestAnItemOfABurstIsStartableWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	s, p := waitsAndIsAsked(t, 3)
	s.Apply(second(3), p, answer(Standing{Held: 1, Limit: 1, BurstLimit: 2}).at(second(3)))
	require.Equal(t, second(60), startableAt(t, s, 60), "its workspace's limit held it back until now")
	s.Tell(second(70))
	s.Learn(Change{Workspace: WorkspaceID{1}, Items: 1})
	require.Equal(t, second(70), startableAt(t, s, 72), "its workspace is within its limit")
}

// Whatever happens: no workspace exceeds its burst limit, no burst is granted to a claim that left a workspace within
// its limit waiting, everything starts for which there is room, and in the end every item has started.
func TestBurstsOfManyWorkspacesAtRandom(t *testing.T) {
	t.Parallel()
	eachSeed(t, 300, func(_ int, r *rand.Rand) {
		d := &desk{truth: newTruth(), t: t, s: Schedule{Aging: time.Minute}}
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			d.burst(name, r.IntN(4), r.IntN(7))
		}
		for range 60 {
			name := names[r.IntN(len(names))]
			w := d.tenants[workspaceOf(name)]
			w.bound = r.IntN(2) == 0
			switch r.IntN(8) {
			case 0, 1:
				d.waits(name, r.IntN(3), 1+r.IntN(4), 0)
			case 2:
				c := d.add(name, r.IntN(3), d.now)
				c.Items = 0 // how many is unknown
				d.s.Learn(c)
			case 3:
				d.ends(name, min(w.held, 1+r.IntN(2)))
			case 4:
				w.burst = r.IntN(7)
				d.s.Learn(Change{Workspace: workspaceOf(name)})
			case 5:
				w.held = r.IntN(1 + w.most()) // unannounced
				read := d.levels()
				if r.IntN(2) == 0 {
					d.s.Reset() // a replica starts
				} else if r.IntN(2) == 0 {
					read = slices.CompactFunc(read, func(a, b Waiting) bool { return a.Workspace == b.Workspace }) // a page
				}
				d.loads(read, Changed{})
			default:
				d.requireFair(1 + r.IntN(6))
			}
		}
		for rounds := 0; len(d.items) > 0; rounds++ {
			require.Less(t, rounds, 1000, "items are stuck")
			for tries := 0; d.propose(3) != ""; tries++ {
				require.Less(t, tries, 1000, "it is asked for in vain again and again")
				d.requireFair(3)
			}
			for _, i := range d.items {
				w := d.tenants[i.workspace]
				require.GreaterOrEqual(t, w.held, w.most(), "%s waits beside free workers", i)
			}
			for _, name := range names {
				w := d.tenants[workspaceOf(name)]
				d.ends(name, w.held)
				if w.limit == 0 {
					w.limit = 1
					d.s.Learn(Change{Workspace: workspaceOf(name)})
				}
			}
		}
	})
}

// requireFair claims, and checks that what went beyond limits left no other workspace within its limit waiting.
func (d *desk) requireFair(free int) {
	d.t.Helper()
	before := map[WorkspaceID]int{}
	for workspace, w := range d.tenants {
		before[workspace] = w.held
	}
	got := d.claim(free)
	bursts := false
	for workspace, w := range d.tenants {
		require.LessOrEqual(d.t, w.held, max(w.most(), before[workspace]))
		bursts = bursts || w.held > max(w.limit, before[workspace])
	}
	for _, i := range d.items {
		w := d.tenants[i.workspace]
		require.False(d.t, bursts && w.held < w.limit && before[i.workspace] < w.limit && w.held == before[i.workspace],
			"%s waits within its limit beside a burst: %s", i, got)
	}
}

// at returns the answer of a claim at that time.
func (a Answer) at(now time.Time) Answer {
	a.At = now
	return a
}
