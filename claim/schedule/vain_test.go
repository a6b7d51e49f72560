package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// besideVain starts one item of workspace b beside others that are asked for in vain, and requires each claim to take
// it. It returns after how many claims nothing else is asked for.
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

func TestKeysThatAreAskedForInVainDelayNoOtherWorkspace(t *testing.T) {
	t.Parallel()
	for _, free := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			d := newDesk(t)
			d.tenant("a", 5000)
			d.tenant("b", 5000)
			for n := range 500 {
				d.limits[scope{workspaceOf("a"), fmt.Sprint(n)}] = 0
				d.waitsKeyed("a", fmt.Sprint(n), 0, 1)
			}
			require.LessOrEqual(t, d.besideVain(free), 500/free*2, "each key is asked for once")
		})
	}
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

func TestWorkspacesThatAreAskedForInVainDelayNoWorkspaceThatGotItems(t *testing.T) {
	t.Parallel()
	for _, free := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			d := newDesk(t)
			d.tenant("b", 5000)
			for n := range 500 {
				d.tenant(fmt.Sprint(n), 0)
			}
			d.waits("b", 0, 1, time.Second)
			require.Equal(t, "b1", d.claim(free))
			for n := range 500 {
				d.waits(fmt.Sprint(n), 3, 1, 0)
			}
			require.LessOrEqual(t, d.besideVain(free), 500/free*2)
			d.s.LearnAll() // somebody changed a limit: all are asked for again
			require.LessOrEqual(t, d.besideVain(free), 500/free*2)
		})
	}
}

func TestAWorkspaceThatIsFoundFullHasNotJustGotItems(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 1)
	d.waits("a", 0, 2, 0)
	require.Equal(t, "a1", d.claim(1))
	require.True(t, d.s.workspaces[workspaceOf("a")].proven)
	d.s.LearnAll()
	require.Empty(t, d.claim(1))
	require.False(t, d.s.workspaces[workspaceOf("a")].proven)
}

// A notification may arrive after the claim that took its item.
func TestALateNotificationPutsAWorkspaceBehindNoOther(t *testing.T) {
	d := newDesk(t)
	d.tenant("b", 5000)
	for n := range 500 {
		d.tenant(fmt.Sprint(n), 0)
	}
	d.waits("b", 0, 1, time.Second)
	require.Equal(t, "b1", d.claim(10))
	for n := range 500 {
		d.waits(fmt.Sprint(n), 0, 1, 0)
	}
	for range 3 {
		d.s.Learn(Change{Workspace: workspaceOf("b"), Waits: true, Due: d.now, Items: 1})
		require.Empty(t, d.claim(10))
	}
	d.besideVain(10)
}
