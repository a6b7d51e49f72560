package schedule

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALoadTellsOfAllThatWaits(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 1)
	d.tenant("b", 9)
	d.add("a", 3, d.now)
	d.add("a", 0, d.now)
	d.add("b", 0, d.now.Add(time.Hour))
	all := append(d.levels(), Waiting{Workspace: workspaceOf("c"), Priority: 101, From: Position{Due: d.now}})
	require.Equal(t, 1, d.loads(all, Changed{}), "one workspace has due items that were not announced")
	require.Zero(t, d.loads(all, Changed{}))
	workspaces, levels := d.s.Workspaces()
	require.Equal(t, []int{2, 3}, []int{workspaces, levels})
	require.Equal(t, "a1", d.claim(9))
	require.Equal(t, d.now.Add(time.Hour), d.s.Next(d.now))
	require.True(t, d.s.Named(2, Change{Items: 1}), "the workspace is known by its number")
}

func TestAClaimFillsAllWorkersFromWorkspacesWhoseItemsAreNotCounted(t *testing.T) {
	d := newDesk(t)
	for n := range 100 {
		name := fmt.Sprintf("%c%c", 'a'+n/10, 'a'+n%10)
		d.tenant(name, 5)
		d.add(name, 0, d.now)
	}
	d.loads(d.levels(), Changed{})
	for n := range 10 {
		require.Len(t, strings.Fields(d.claim(10)), 10, "claim %d: workspaces left out of the one before have one item, too",
			n)
	}
}

func TestALoadReopensWhatSeemedFullAndCountsIt(t *testing.T) {
	d := newDesk(t)
	w := d.tenant("a", 1)
	d.waits("a", 0, 3, 0)
	require.Equal(t, "a1", d.claim(9))
	require.Zero(t, d.loads(d.levels(), Changed{}), "the workspace is full")
	require.Empty(t, d.propose(9))
	w.held = 0 // without an announcement
	require.Zero(t, d.loads(d.levels(), Changed{Workspaces: map[WorkspaceID]bool{workspaceOf("a"): true}}),
		"the workspace has changed since")
	require.Equal(t, "a2", d.claim(9))
	w.held = 0
	require.Equal(t, 1, d.loads(d.levels(), Changed{}))
	require.Equal(t, "a3", d.claim(9))
}

func TestALoadEvictsWorkspacesWithNothingWaiting(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.tenant("b", 9)
	d.waits("a", 0, 1, 0)
	d.waits("b", 0, 2, 0)
	require.Equal(t, "a1 b2", d.claims(2))
	require.Zero(t, d.loads(d.levels(), Changed{}))
	workspaces, _ := d.s.Workspaces()
	require.Equal(t, 1, workspaces)
	require.True(t, d.s.Named(1, Change{Waits: true, Due: d.now}), "the workspace's number is still known")
	require.Equal(t, "a@0*5 b@0*4", d.propose(9))
}

func TestNumbersBeyondABoundAreForgottenWithTheirWorkspaces(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.waits("a", 0, 1, 0)
	require.Equal(t, "a1", d.claim(1))
	for n := range int64(mostNumbers) {
		d.s.numbers[-n-1] = WorkspaceID{}
	}
	require.Zero(t, d.loads(d.levels(), Changed{}))
	require.False(t, d.s.Named(1, Change{Items: 1}), "an unknown number requires a look")
}

func TestAResetForgetsAllButTheTurn(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.waits("a", 0, 2, 0)
	require.Equal(t, "a1", d.claim(1))
	d.s.Reset()
	workspaces, levels := d.s.Workspaces()
	require.Zero(t, workspaces+levels)
	p := d.s.Propose(d.now, Want{Free: 1})
	require.True(t, p.Empty())
	require.Zero(t, p.Leased)
	require.Zero(t, p.Epoch)
	require.Equal(t, time.Minute, d.s.Aging)
	require.Equal(t, int64(1), d.s.served)
}

// everybody returns n workspaces with due items.
func everybody(workspaces int) []Waiting {
	all := make([]Waiting, workspaces)
	for n := range all {
		all[n] = Waiting{Workspace: WorkspaceID{byte(n), byte(n >> 8), byte(n >> 16)}, Number: int64(n + 1), Limit: 10,
			From: Position{Due: start.Add(-time.Duration(n) * time.Microsecond), ID: int64(n)}}
	}
	return all
}

// Not parallel: other tests' memory would be counted.
func TestAHundredThousandWorkspacesTakeFiftyMegabytesAtMost(t *testing.T) {
	s, size, _ := loaded(t, everybody(100_000))
	require.Less(t, size, int64(50_000_000))
	require.Len(t, s.workspaces, 100_000)
}

// manyKeys returns a thousand workspaces whose due items have so many keys each, all different.
func manyKeys(keys int) []Waiting {
	var all []Waiting
	for n, w := range everybody(1000) {
		for k := range keys {
			w.Key = fmt.Sprintf("customer-%d-%d", n, k)
			all = append(all, w)
		}
	}
	return all
}

// Not parallel, as above.
func TestAHundredThousandKeysTakeFiftyMegabytesAtMostAndGiveThemBack(t *testing.T) {
	s, size, before := loaded(t, manyKeys(100))
	require.Less(t, size, int64(50_000_000))
	for _, l := range s.workspaces {
		for x := range l.levels[0].queues() {
			s.removeQueue(x)
		}
	}
	s.Forget()
	require.Less(t, heapInUse()-before, size/4)
	require.Empty(t, s.keys)
	require.Empty(t, s.workspaces)
}

// loaded returns a schedule that has loaded and proposed, its size in bytes, and the heap in use before.
func loaded(t *testing.T, all []Waiting) (s *Schedule, size, before int64) {
	t.Helper()
	s, before = &Schedule{Aging: time.Minute}, heapInUse()
	s.Load(all, Changed{})
	s.Propose(start, Want{Free: 100})
	size = heapInUse() - before
	t.Logf("%d bytes", size)
	return s, size, before
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A million distinct keys.
func BenchmarkLoadKeys(b *testing.B) {
	all := manyKeys(1000)
	for b.Loop() {
		s := Schedule{Aging: time.Minute}
		before := heapInUse()
		s.Load(all, Changed{})
		b.ReportMetric(float64(heapInUse()-before)/float64(len(all)), "B/key")
		require.Len(b, s.workspaces, 1000)
	}
}

func BenchmarkProposeKeys(b *testing.B) {
	s := Schedule{Aging: time.Minute}
	s.Load(manyKeys(1000), Changed{})
	for b.Loop() {
		s.Propose(start, Want{Free: 100})
	}
}

func BenchmarkLoad(b *testing.B) {
	all := everybody(100_000)
	for b.Loop() {
		s := Schedule{Aging: time.Minute}
		s.Load(all, Changed{})
	}
}

func BenchmarkPropose(b *testing.B) {
	s := Schedule{Aging: time.Minute}
	s.Load(everybody(100_000), Changed{})
	for b.Loop() {
		s.Propose(start, Want{Free: 100})
	}
}

// Measures repeated claims of a hundred items, one per workspace.
func BenchmarkProposeAndApply(b *testing.B) {
	s := Schedule{Aging: time.Minute}
	s.Load(everybody(100_000), Changed{})
	for b.Loop() {
		p := s.Propose(start, Want{Free: 100})
		a := Answer{Room: 1000, Standings: make([]Standing, len(p.Entries))}
		for n, e := range p.Entries {
			next := e.From
			a.Standings[n] = Standing{Granted: e.Items, Taken: e.Items, Held: 1, Limit: 10, Next: &next}
		}
		s.Apply(start, p, a.at(start))
	}
}
