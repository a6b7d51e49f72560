package schedule

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHeapGivesLevelsInOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for kind := range levelHeaps {
		h, in := heap[*level]{kind: kind}, []*level{}
		for n := range 300 {
			v := newLevel(&workspace{served: r.Int64N(50), id: WorkspaceID{byte(n), byte(n >> 8)}}, r.IntN(3))
			x := (&Schedule{}).addQueue(v, "", Position{Due: start.Add(time.Duration(r.IntN(50))), ID: int64(n)}, 0)
			if x.place(); kind == inOldest {
				v.unripe.remove(x)
				v.ripe.push(x)
			}
			h.push(v)
			if in = append(in, v); r.IntN(3) == 0 {
				at := r.IntN(len(in))
				h.remove(in[at])
				h.remove(in[at]) // it is no longer in the heap
				in = slices.Delete(in, at, at+1)
			}
			require.Empty(t, h.broken())
		}
		var walked []*level
		h.walk(func(v *level) bool { walked = append(walked, v); return true })
		require.ElementsMatch(t, in, walked)
		require.True(t, slices.IsSortedFunc(walked, func(a, b *level) int {
			switch kind {
			case inReady:
				return cmp.Compare(a.workspace.served, b.workspace.served)
			case inOldest:
				return a.ripe.first().from.Due.Compare(b.ripe.first().from.Due)
			case inBursting:
				return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.workspace.served, b.workspace.served))
			default:
				return a.due().Compare(b.due())
			}
		}))
		visited := 0
		h.walk(func(*level) bool { visited++; return visited < 7 })
		require.Equal(t, 7, visited)
	}
}

// One answer moves all levels of its workspace. The heap stays in order however levels move.
func TestHeapsStayInOrderWhenWorkspacesWithSeveralLevelsMove(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		s, now := Schedule{Aging: time.Second}, start
		for range 60 {
			now = now.Add(time.Duration(r.IntN(300)) * time.Millisecond)
			for range r.IntN(4) {
				s.Learn(
					Change{Workspace: WorkspaceID{byte(r.IntN(6))}, Waits: true, Priority: r.IntN(4),
						Due: now.Add(time.Duration(r.IntN(9)-6) * time.Second), Items: r.IntN(3)})
			}
			p := s.Propose(now, Want{Free: 1 + r.IntN(9)})
			a := Answer{Room: r.IntN(12), Epoch: Epoch{byte(r.IntN(2))}}
			for _, e := range p.Entries {
				st := Standing{Granted: r.IntN(e.Items + 1), Limit: 3 + r.IntN(9), Held: r.IntN(9), Paused: r.IntN(9) == 0,
					PassedOver: r.IntN(9) == 0}
				if st.Taken = r.IntN(st.Granted + 1); r.IntN(3) > 0 {
					st.Next = &Position{Due: now.Add(time.Duration(r.IntN(9)-6) * time.Second)}
				}
				if r.IntN(5) == 0 {
					st.RetryIn = time.Second
				}
				a.Standings = append(a.Standings, st)
			}
			s.Apply(now, p, a.at(now))
			require.Empty(t, s.broken(), "seed %d", seed)
			if r.IntN(9) == 0 {
				s.LearnAll()
				s.Reopened(r.IntN(2) == 0)
				require.Empty(t, s.broken(), "seed %d", seed)
			}
		}
	}
}
