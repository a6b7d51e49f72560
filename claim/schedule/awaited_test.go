package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASlotIsAwaitedWhileItsWorkspaceOrKeyIsFullAndMoreWait(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 2)
	d.tenant("b", 10)
	d.tenant("c", 10)
	d.limits[scope{workspaceOf("b"), "own"}] = 1
	d.limits[scope{key: "all"}] = 1
	awaited := func(name, key string) bool { return d.s.Awaited(workspaceOf(name), key) }
	d.waits("a", 0, 2, 0)
	require.Equal(t, "a1 a2", d.claim(9))
	require.False(t, awaited("a", ""), "nothing is known to wait")
	d.waits("a", 0, 1, 0)
	require.Empty(t, d.claim(9))
	require.True(t, awaited("a", ""))
	d.waitsKeyed("b", "own", 0, 2)
	d.waitsKeyed("b", "all", 0, 1)
	d.waitsKeyed("c", "all", 0, 1)
	d.claims(3)
	require.True(t, awaited("b", "own"))
	require.False(t, awaited("c", "own"))
	require.False(t, awaited("b", ""))
	require.True(t, awaited("b", "all"))
	require.True(t, awaited("c", "all"))
	require.False(t, awaited("unknown", "unknown"))
}
