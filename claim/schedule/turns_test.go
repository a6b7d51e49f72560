package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheHighestPriorityThatIsDueAnywhereGoesFirst(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.tenant("b", 9)
	d.waits("a", 0, 2, time.Second)
	d.waits("b", 7, 2, 0)
	d.waits("b", -100, 1, time.Second)
	d.waits("a", 100, 1, 0)
	require.Equal(t, "a6", d.claim(1))
	require.Equal(t, "b3 b4 a1 a2 b5", d.claims(5))
	require.Empty(t, d.claim(1))
}

func TestAPriorityWithoutRoomGivesWayToALower(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 1)
	d.tenant("b", 9)
	d.waits("a", 5, 2, 0)
	d.waits("b", 1, 2, 0)
	require.Equal(t, "a1 b3", d.claims(2))
	d.ends("a", 1)
	require.Equal(t, "a2 b4", d.claims(2))
}

func TestTheLeastRecentlyServedIsNextAmongEquals(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"a", "b", "c"} {
		d.tenant(name, 9)
	}
	d.waits("a", 0, 3, 0)
	d.waits("b", 0, 3, 0)
	require.Equal(t, "a1 b4 a2", d.claims(3))
	d.waits("c", 0, 2, 0)
	require.Equal(t, "c7 b5 a3 c8 b6", d.claims(5))
}

func TestAWorkspaceThatWasGivenSomethingAtOnePriorityHasHadItsTurnAtAll(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.tenant("b", 9)
	d.waits("a", 5, 1, 0)
	d.waits("a", 0, 1, 0)
	d.waits("b", 0, 1, 0)
	require.Equal(t, "a1 b3 a2", d.claims(3))
}

func TestAWorkspaceWithAMillionItemsAndOneWithASingleItemTakeTurns(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 100)
	d.tenant("b", 100)
	d.s.Learn(Change{Workspace: workspaceOf("a"), Waits: true, Due: d.now, Items: 1_000_000})
	d.s.Learn(Change{Workspace: workspaceOf("b"), Waits: true, Due: d.now, Items: 1})
	require.Equal(t, "a@0*9 b@0*1", d.propose(10))
	require.Equal(t, "a@0*4", d.propose(4))
	d.s.Learn(Change{Workspace: workspaceOf("c"), Waits: true, Due: d.now, Items: 7})
	require.Equal(t, "a@0*5 b@0*1 c@0*4", d.propose(10), "the share that one workspace leaves goes to the others")
}

func TestATurnIsOfOneToFourItemsWhereMoreWaitThanThereAreWorkers(t *testing.T) {
	for _, c := range []struct {
		free, workspaces int
		proposed         string
	}{
		{1, 3, "a@0*1"},
		{2, 3, "a@0*2"},
		{4, 3, "a@0*4"},
		{5, 3, "a@0*4 b@0*1"},
		{10, 3, "a@0*4 b@0*4 c@0*2"},
		{12, 3, "a@0*4 b@0*4 c@0*4"},
		{13, 3, "a@0*5 b@0*5 c@0*3"}, // every workspace gets an item: larger shares are fair, and need fewer entries
		{30, 3, "a@0*10 b@0*10 c@0*10"},
		{30, 1, "a@0*20"}, // no more items are known
		{0, 3, ""},
	} {
		t.Run(c.proposed, func(t *testing.T) {
			d := newDesk(t)
			for n := range c.workspaces {
				name := string(rune('a' + n))
				d.tenant(name, 100)
				d.waits(name, 0, 20, 0)
			}
			require.Equal(t, c.proposed, d.propose(c.free))
		})
	}
}

func TestNoMoreIsAskedForThanAWorkspaceHasRoomForOnAllItsLevels(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 3)
	d.waits("a", 1, 2, 0)
	d.waits("a", 0, 2, 0)
	require.Equal(t, "a@1*2 a@0*2", d.propose(9), "the limit is unknown")
	require.Equal(t, "a1", d.claim(1))
	require.Equal(t, "a@1*1 a@0*1", d.propose(9), "two slots are left")
	require.Equal(t, "a2 a3", d.claim(9))
	require.Empty(t, d.propose(9))
}

func TestTheEarliestRunAtOfALevelIsFirst(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.waits("a", 0, 1, time.Second)
	d.waits("a", 0, 1, 3*time.Second)
	d.waits("a", 0, 1, 2*time.Second)
	require.Equal(t, "a2 a3 a1", d.claims(3))
}

func TestOneOfTenStartsGoesToWhatHasBeenDueForLongest(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 100)
	d.tenant("b", 100)
	d.tenant("c", 100)
	d.waits("a", 9, 40, 0)
	d.waits("b", 0, 2, 2*time.Minute)
	d.waits("c", 0, 1, 3*time.Minute)
	require.Equal(t, "a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 c43 a11", d.claims(12))
	require.Equal(t, "a12 a13 a14 a15 a16 a17 a18 a19 b41", d.claims(9), "c gets its aged start after ten others")
	require.Equal(t, "a20 a21 a22 a23 a24 a25 a26 a27 a28 b42 a29", d.claim(9)+" "+d.claims(2))
}

func TestAgeDecidesAShareOfALargeClaim(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 200)
	d.tenant("b", 100)
	d.waits("a", 9, 100, 0)
	d.waits("b", 0, 9, 2*time.Minute)
	d.claim(30)
	require.Equal(t, "b@0*3 a@9*27", d.propose(30))
}

func TestWhatIsOwedToNobodyIsForgotten(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 100)
	d.tenant("b", 100)
	d.waits("a", 9, 40, 0)
	d.waits("b", 0, 2, 50*time.Second)
	d.claims(20)
	d.now = d.now.Add(11 * time.Second)
	require.Equal(t, "a21", d.claim(1), "aged starts do not accumulate while no item is old enough")
	d.claims(8)
	require.Equal(t, "b41", d.claim(1))
}

func TestAgeGivesNoSlotToAFullWorkspace(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 100)
	d.tenant("b", 1)
	d.waits("a", 9, 40, 0)
	d.waits("b", 9, 2, 2*time.Minute)
	d.claims(30)
	require.Equal(t, 1, d.tenants[workspaceOf("b")].held)
	require.NotContains(t, d.propose(10), "b")
}

func TestAClaimWithoutAnAnswerChangesNothing(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.tenant("b", 9)
	d.waits("a", 0, 5, 0)
	d.waits("b", 0, 5, 0)
	first := d.propose(6)
	require.Equal(t, "a@0*4 b@0*2", first)
	for range 3 {
		require.Equal(t, first, d.propose(6))
	}
}
