package schedule

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (d *desk) waitsKeyed(name, key string, priority, items int) {
	for range items {
		d.s.Learn(d.addKeyed(name, key, priority, d.now.Add(-time.Second+time.Duration(d.nextID)*time.Microsecond)))
	}
}

func TestKeysWithoutWaitingItemsAreForgotten(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 10)
	d.waitsKeyed("a", "k", 0, 1)
	d.waitsKeyed("a", "l", -5, 2)
	require.Equal(t, "a1 a2", d.claims(2))
	d.s.Forget()
	require.Equal(t, []string{"l"}, slices.Collect(maps.Keys(d.s.keys)))
	require.Equal(t, []string{"l"}, slices.Collect(maps.Keys(d.s.workspaces[workspaceOf("a")].keys)))
}

// A workspace without room may have many keys at a level. They must not all be looked at for each proposal. What a
// proposal allocates grows with what it looks at. The least of several measurements counts, because other goroutines
// allocate, too.
func TestManyKeysCostNothingWhileTheirWorkspaceHasNoRoom(t *testing.T) {
	eachSeed(t, 5, func(_ int, r *rand.Rand) {
		now, room, free := start, 1+r.IntN(20), 1+r.IntN(100)
		cost := func(keys int) (least uint64) {
			s := Schedule{Aging: time.Minute}
			s.Learn(Change{Workspace: workspaceOf("a"), Waits: true, Priority: 1, Due: now, Items: room})
			s.workspaces[workspaceOf("a")].limit = room
			for n := range keys {
				s.Learn(Change{Workspace: workspaceOf("a"), Key: fmt.Sprint(n), Waits: true, Due: now, Items: 1})
			}
			s.Propose(now, Want{Free: free})

			least = math.MaxUint64
			for range 5 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				s.Propose(now, Want{Free: free})
				runtime.ReadMemStats(&after)
				least = min(least, after.TotalAlloc-before.TotalAlloc)
			}
			return least
		}
		require.Less(t, cost(10_000), 2*cost(1000))
	})
}

func TestAWorkspaceOfManyKeysGetsWhatAnotherLeaves(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 20)
	d.tenant("b", 20)
	for n := range 12 {
		d.waitsKeyed("a", fmt.Sprint(n), 0, 1)
	}
	d.waits("b", 0, 1, 0)
	require.Len(t, d.s.Propose(d.now, Want{Free: 12}).Entries, 12, "the second turn passes over the keys of the first")
}

func TestOneOfManyFullKeysIsAskedForAtOnce(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 200_000)
	const keys = 20_000
	for n := range keys {
		d.s.Learn(Change{Workspace: workspaceOf("a"), Key: fmt.Sprint(n), Waits: true, Due: d.now, Items: 2})
	}
	for range keys / 1000 {
		p := d.s.Propose(d.now, Want{Free: 1000})
		a := Answer{Room: 1000, Standings: make([]Standing, len(p.Entries))}
		for n, e := range p.Entries {
			next := Position{Due: d.now}
			a.Standings[n] = Standing{Granted: 1, Taken: 1, Held: 1, Limit: 200_000, Next: &next,
				Own: KeyStanding{Room: 0}, All: KeyStanding{Room: NoLimit}}
			require.LessOrEqual(t, e.Items, 2)
		}
		d.s.Apply(d.now, p, a.at(d.now))
	}
	require.Empty(t, d.propose(5), "all are full")
	d.s.Learn(Change{Workspace: workspaceOf("a"), Keys: []string{"4711"}, Items: 1})
	p := d.s.Propose(d.now, Want{Free: 5})
	require.Len(t, p.Entries, 1)
	require.Equal(t, "4711", p.Entries[0].Key)
}
