package schedule

import (
	"fmt"
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

func TestABurstComesAfterAllWorkspacesThatAreWithinTheirLimits(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 1, 9)
	d.tenant("b", 9)
	d.waits("a", 100, 9, time.Hour) // neither its priority nor its age helps it
	require.Equal(t, "a1", d.claim(1))
	d.waits("b", -100, 2, 0)
	require.Equal(t, "b@-100*2 a@100*1", d.propose(3))
	require.Equal(t, "b10 b11 a2", d.claims(3))
}

// A workspace whose items may be fewer than believed keeps lower priorities from being asked for, and bursts with them.
func TestABurstDoesNotOvertakeALowerPriorityThatIsNotAskedForYet(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 1, 9)
	d.tenant("b", 1)
	d.tenant("c", 9)
	d.waits("a", 0, 3, 0)
	require.Equal(t, "a1", d.claim(1))
	d.add("b", 5, d.now)
	d.s.Learn(Change{Workspace: workspaceOf("b"), Waits: true, Priority: 5, Due: d.now}) // how many is unknown
	d.waits("b", 3, 1, 0)
	d.waits("c", 0, 1, 0)
	d.s.workspaces[workspaceOf("b")].limit = 1
	require.Equal(t, "b@5*1", d.propose(9))
}

// A burst ends by attrition: what runs is not stopped, and the workspace gets nothing until others have what they need.
func TestAWorkspaceInABurstGetsNothingWhileOthersWait(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 1, 9)
	d.tenant("b", 9)
	d.waits("a", 0, 20, 0)
	require.Equal(t, "a1 a2 a3", d.claims(3))
	d.waits("b", 0, 4, 0)
	for n := range 4 {
		d.ends("a", n%2) // two of three end
		require.Equal(t, fmt.Sprintf("b%d", 21+n), d.claim(1))
	}
	d.waits("b", 0, 1, 0)
	d.ends("a", 1)
	require.Equal(t, "a4 b25", d.claims(2), "it is within its limit, and it is its turn")
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

func TestABurstLimitThatIsNotAboveTheLimitChangesNothing(t *testing.T) {
	for _, burst := range []int{0, 1, 2} {
		d := &desk{truth: newTruth(), t: t, s: Schedule{Aging: time.Minute}}
		d.burst("a", 2, burst)
		d.waits("a", 0, 5, 0)
		require.Equal(t, "a1 a2 ", d.claims(3))
	}
}

func TestALimitOfZeroStartsNothingWhateverTheBurstLimit(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 0, 5)
	d.waits("a", 0, 5, 0)
	require.Empty(t, d.claims(1))
	require.Empty(t, d.propose(9))
}

// The memory of a replica that has just started knows bursts, and misses nothing in them.
func TestALoadReadsBursts(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 1, 3)
	d.burst("b", 1, 3)
	d.waits("a", 0, 5, 0)
	d.waits("b", 0, 5, 0)
	require.Equal(t, "a1 b6", d.claims(2))
	d.tenants[workspaceOf("b")].held = 3
	d.s.Reset()
	require.Equal(t, 1, d.loads(d.levels(), Changed{}))
	require.Equal(t, "a@0*2", d.propose(9))
	require.Zero(t, d.loads(d.levels(), Changed{}))
}

func TestALoadPutsWhatBurstsBehindOthers(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 1, 3)
	d.burst("b", 1, 3)
	d.waits("a", 0, 5, 0)
	d.waits("b", 0, 5, 0)
	d.waits("a", 1, 5, 0)
	d.loads(d.levels(), Changed{})
	require.Equal(t, "a@1*1 b@0*1", d.propose(2))
	d.tenants[workspaceOf("a")].held = 1
	some := slices.DeleteFunc(d.levels(), func(w Waiting) bool { return w.Priority == 1 })
	d.loads(some, Changed{})
	require.Equal(t, "b@0*1 a@1*2", d.propose(3), "whichever of its levels were read")
}

// A bound on the holders says nothing about a burst: the workspace may be within its limit.
func TestABoundDoesNotMakeAWorkspaceBurst(t *testing.T) {
	t.Parallel()
	s := &Schedule{}
	s.Learn(Change{Workspace: WorkspaceID{1}, Waits: true, Due: noon, Items: 5})
	p := s.Propose(noon, Want{Free: 1})
	s.Apply(noon, p, answer(Standing{Held: 3, Limit: 3, BurstLimit: 9, Bound: true}).at(noon))
	p = s.Propose(noon, Want{Free: 1})
	require.Len(t, p.Entries, 1)
	require.False(t, p.Entries[0].Burst)
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
// its limit waiting, and in the end every item has started.
func TestBurstsOfManyWorkspacesAtRandom(t *testing.T) {
	t.Parallel()
	eachSeed(t, 200, func(_ int, r *rand.Rand) {
		d := &desk{truth: newTruth(), t: t, s: Schedule{Aging: time.Minute}}
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			d.burst(name, 1+r.IntN(3), r.IntN(7))
		}
		for range 60 {
			switch name := names[r.IntN(len(names))]; r.IntN(5) {
			case 0, 1:
				d.waits(name, r.IntN(3), 1+r.IntN(4), 0)
			case 2:
				d.ends(name, min(d.tenants[workspaceOf(name)].held, 1+r.IntN(2)))
			case 3:
				d.tenants[workspaceOf(name)].burst = r.IntN(7)
				d.s.Learn(Change{Workspace: workspaceOf(name)})
			default:
				d.requireFair(1 + r.IntN(6))
			}
		}
		for rounds := 0; len(d.items) > 0; rounds++ {
			require.Less(t, rounds, 1000, "items are stuck")
			for _, name := range names {
				d.ends(name, d.tenants[workspaceOf(name)].held)
			}
			d.requireFair(3)
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
