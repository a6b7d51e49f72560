package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// besideVain starts items of workspace b, one after another, beside others that are asked for in vain, and requires
// each claim to take it. It returns after how many claims nothing else is asked for.
func (d *desk) besideVain(free int) (claims int) {
	d.waits("b", 0, 1, time.Second)
	for tries := 0; d.claim(free) == ""; tries++ {
		require.Less(d.t, tries, 2, "its turn comes at the second claim at the latest")
	}
	for d.propose(free) != "" {
		claims++
		d.waits("b", 0, 1, time.Second)
		require.Equal(d.t, fmt.Sprint("b", d.nextID), d.claim(free), "claim %d", claims)
		d.ends("b", 1)
	}
	return claims
}

// Many workspaces are full, or many keys of one workspace. They delay no workspace that got an item when it was last
// asked for, and each is asked for once.
func TestWhatIsAskedForInVainDelaysNoWorkspaceThatGotItems(t *testing.T) {
	t.Parallel()
	eachSeed(t, 60, func(_ int, r *rand.Rand) {
		d := &desk{truth: newTruth(), t: t, s: Schedule{Aging: time.Minute}}
		full, free, keyed := 1+r.IntN(500), 1+r.IntN(100), r.IntN(2) == 0
		d.tenant("a", 5000)
		d.tenant("b", 5000)
		if !keyed || r.IntN(2) == 0 {
			d.waits("b", 0, 1, time.Second)
			require.Equal(t, "b1", d.claim(free))
		}
		for n := range full {
			name := fmt.Sprint(n)
			if keyed {
				d.limits[scope{workspaceOf("a"), name}] = 0
				d.waitsKeyed("a", name, 0, 1)
			} else {
				d.tenant(name, 0)
				d.waits(name, r.IntN(2)*3, 1, 0)
			}
		}
		for range r.IntN(3) {
			switch r.IntN(3) {
			case 0:
				d.s.LearnAll() // somebody changed a limit: all are asked for again
			case 1: // a notification that arrives after the claim that took its item
				if !keyed {
					d.s.Learn(Change{Workspace: workspaceOf("b"), Waits: true, Due: d.now, Items: 1})
					require.Empty(t, d.claim(free))
				}
			default:
				require.LessOrEqual(t, d.besideVain(free), 1+2*full/free)
			}
		}
		require.LessOrEqual(t, d.besideVain(free), 1+2*full/free)
	})
}

// A level with many key queues must not delay the levels behind it either.
func TestAnItemWithoutAKeyStartsBesideKeysThatAreAskedForInVain(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 5000)
	for n := range 500 {
		d.limits[scope{workspaceOf("a"), fmt.Sprint(n)}] = 0
		d.waitsKeyed("a", fmt.Sprint(n), 0, 1)
	}
	d.waits("a", -1, 1, 0)
	claims := 1
	for ; d.claim(10) == ""; claims++ {
		require.Less(t, claims, 60)
	}
}
