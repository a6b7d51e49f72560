package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// burst adds a lane with a burst limit.
func (d *desk) burst(name string, limit, most int) { d.lane(name, limit).burst = most }

func TestALaneGoesBeyondItsLimitWhileNoOtherNeedsTheWorkers(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 2, 5)
	d.waits("a", 0, 9, 0)
	require.Equal(t, "a1 a2", d.claim(9))
	require.Equal(t, "a3 a4 a5", d.claim(9))
	require.Empty(t, d.claim(9), "it is at its burst limit")
	require.Equal(t, []Full{{laneOf("a"), 5, 5}}, d.s.Full(d.now))
	d.ends("a", 1)
	require.Equal(t, "a6", d.claim(9))
}

func TestABurstComesAfterAllLanesThatAreWithinTheirLimits(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 1, 9)
	d.lane("b", 9)
	d.waits("a", 100, 9, time.Hour) // neither its priority nor its age helps it
	require.Equal(t, "a1", d.claim(1))
	d.waits("b", -100, 2, 0)
	require.Equal(t, "b@-100*2 a@100*1", d.propose(3))
	require.Equal(t, "b10 b11 a2", d.claims(3))
}

// A lane whose items may be fewer than believed keeps lower priorities from being asked for, and bursts with them.
func TestABurstDoesNotOvertakeALowerPriorityThatIsNotAskedForYet(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 1, 9)
	d.lane("b", 1)
	d.lane("c", 9)
	d.waits("a", 0, 3, 0)
	require.Equal(t, "a1", d.claim(1))
	d.add("b", 5, d.now)
	d.s.Learn(Change{Lane: laneOf("b"), Waits: true, Priority: 5, Due: d.now}) // how many is unknown
	d.waits("b", 3, 1, 0)
	d.waits("c", 0, 1, 0)
	d.s.lanes[laneOf("b")].limit = 1
	require.Equal(t, "b@5*1", d.propose(9))
}

// A burst ends by attrition: what runs is not stopped, and the lane gets nothing until others have what they need.
func TestALaneInABurstGetsNothingWhileOthersWait(t *testing.T) {
	d := newDesk(t)
	d.burst("a", 1, 9)
	d.lane("b", 9)
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
	d.workspaces[laneOf("b")].held = 3
	d.s.Reset()
	require.Equal(t, 1, d.loads(d.levels(), Changed{}))
	require.Equal(t, "a@0*2", d.propose(9))
	require.Zero(t, d.loads(d.levels(), Changed{}))
}

// A bound on the holders says nothing about a burst: the lane may be within its limit.
func TestABoundDoesNotMakeALaneBurst(t *testing.T) {
	t.Parallel()
	s := &Schedule{}
	s.Learn(Change{Lane: Lane{1}, Waits: true, Due: noon, Items: 5})
	p := s.Propose(noon, Want{Free: 1})
	s.Apply(noon, p, answer(Standing{Held: 3, Limit: 3, Most: 9, Bound: true}).at(noon))
	p = s.Propose(noon, Want{Free: 1})
	require.Len(t, p.Entries, 1)
	require.False(t, p.Entries[0].Burst)
}

func TestAnItemOfABurstIsStartableWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	s, p := waitsAndIsAsked(t, 3)
	s.Apply(second(3), p, answer(Standing{Held: 1, Limit: 1, Most: 2}).at(second(3)))
	require.Equal(t, second(60), startableAt(t, s, 60), "its workspace's limit held it back until now")
	s.Tell(second(70))
	s.Learn(Change{Lane: Lane{1}, Items: 1})
	require.Equal(t, second(70), startableAt(t, s, 72), "its workspace is within its limit")
}

// Whatever happens: no lane exceeds its burst limit, no burst is granted to a claim that left a lane within its limit
// waiting, and in the end every item has started.
func TestBurstsOfManyLanesAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
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
				d.ends(name, min(d.workspaces[laneOf(name)].held, 1+r.IntN(2)))
			case 3:
				d.workspaces[laneOf(name)].burst = r.IntN(7)
				d.s.Learn(Change{Lane: laneOf(name)})
			default:
				d.requireFair(1 + r.IntN(6))
			}
		}
		for rounds := 0; len(d.items) > 0; rounds++ {
			require.Less(t, rounds, 1000, "items are stuck")
			for _, name := range names {
				d.ends(name, d.workspaces[laneOf(name)].held)
			}
			d.requireFair(3)
		}
	}
}

// requireFair claims, and checks that what went beyond limits left no other lane within its limit waiting.
func (d *desk) requireFair(free int) {
	d.t.Helper()
	before := map[Lane]int{}
	for lane, w := range d.workspaces {
		before[lane] = w.held
	}
	got := d.claim(free)
	bursts := false
	for lane, w := range d.workspaces {
		require.LessOrEqual(d.t, w.held, max(w.most(), before[lane]))
		bursts = bursts || w.held > max(w.limit, before[lane])
	}
	for _, i := range d.items {
		w := d.workspaces[i.lane]
		require.False(d.t, bursts && w.held < w.limit && before[i.lane] < w.limit && w.held == before[i.lane],
			"%s waits within its limit beside a burst: %s", i, got)
	}
}

// at returns the answer of a claim at that time.
func (a Answer) at(now time.Time) Answer {
	a.At = now
	return a
}
