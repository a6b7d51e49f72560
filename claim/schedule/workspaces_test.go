package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLaterItemsWaitForTheirTime(t *testing.T) {
	d := newDesk(t)
	require.Zero(t, d.s.Next(d.now), "no future item is known")
	d.tenant("a", 9)
	d.tenant("b", 9)
	d.waits("a", 0, 1, -time.Minute)
	d.waits("b", 0, 1, -time.Hour)
	require.Empty(t, d.propose(9))
	require.False(t, d.s.Ready(d.now))
	minute := d.items[0].due
	require.Equal(t, minute, d.s.Next(d.now))
	d.now = minute.Add(-time.Microsecond)
	require.Empty(t, d.claim(9))
	d.now = minute
	require.True(t, d.s.Ready(d.now))
	require.Equal(t, "a1", d.claim(9))
	require.Equal(t, d.items[0].due, d.s.Next(d.now))
	d.now = d.items[0].due
	require.Equal(t, "b2", d.claim(9))
	require.Zero(t, d.s.Next(d.now))
}

func TestAPausedWorkspaceWaitsForItsMark(t *testing.T) {
	d := newDesk(t)
	w := d.tenant("a", 4)
	d.tenant("b", 4)
	w.paused = true
	d.waits("a", 5, 1, 0)
	d.waits("b", 0, 1, 0)
	require.Equal(t, "b2", d.claim(1)+d.claim(1))
	require.Empty(t, d.propose(9))
	require.Empty(t, d.s.Full(d.now), "a paused workspace is not full")
	w.paused = false
	d.s.Learn(Change{Workspace: workspaceOf("a")})
	require.Equal(t, "a1", d.claim(9))
}

func TestAPauseOfAllHoldsEverything(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 4)
	d.waits("a", 0, 1, 0)
	d.waits("a", 0, 1, -time.Hour)
	d.paused = true
	require.Empty(t, d.claim(1), "the answer reports the pause")
	require.Zero(t, d.vain)
	require.True(t, d.s.Paused())
	require.Empty(t, d.propose(1))
	require.False(t, d.s.Ready(d.now))
	require.Zero(t, d.s.Next(d.now))
	d.paused = false
	d.s.Pause(false)
	require.Equal(t, "a1", d.claim(1))
}

func TestAnUnknownWorkspaceIsFirstHeardOfByWhatWaits(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 4)
	d.s.Learn(Change{Workspace: workspaceOf("a"), Items: 3})
	d.s.Learn(Change{Workspace: workspaceOf("a")})
	workspaces, levels := d.s.Workspaces()
	require.Zero(t, workspaces+levels, "no item waits in the workspace")
	d.waits("a", 0, 1, 0)
	d.waits("a", 1, 1, 0)
	workspaces, levels = d.s.Workspaces()
	require.Equal(t, []int{1, 2}, []int{workspaces, levels})
	for _, priority := range []int{-101, 101} {
		d.s.Learn(Change{Workspace: workspaceOf("a"), Waits: true, Priority: priority, Due: d.now})
		d.s.Learn(Change{Workspace: workspaceOf("b"), Waits: true, Priority: priority, Due: d.now})
	}
	workspaces, levels = d.s.Workspaces()
	require.Equal(t, []int{1, 2}, []int{workspaces, levels}, "these priorities do not exist")
}

func TestARateSaysWhenItsWorkspaceIsAskedForAgain(t *testing.T) {
	d := newDesk(t)
	w := d.tenant("a", 9)
	d.tenant("b", 9)
	d.waits("a", 5, 2, 0)
	d.waits("a", 0, 1, 0)
	d.waits("b", 0, 1, 0)
	w.notBefore = d.now.Add(3 * time.Second)
	require.Empty(t, d.claim(1))
	require.Equal(t, "b4", d.claim(1), "no level of the workspace is proposed")
	require.Equal(t, d.now.Add(3*time.Second), d.s.Next(d.now))
	require.Empty(t, d.propose(1))
	d.now = d.now.Add(3 * time.Second)
	require.Equal(t, "a1", d.claim(1))
}

func TestALevelWhoseNamespacesTakeNoneIsPassedOver(t *testing.T) {
	d := newDesk(t)
	w := d.tenant("a", 9)
	d.tenant("b", 9)
	d.waits("a", 5, 1, 0)
	d.waits("b", 0, 2, 0)
	w.closed = true
	require.Equal(t, "b2", d.claim(1)+d.claim(1))
	require.Equal(t, d.now.Add(passedOverFor), d.s.Next(d.now))
	w.closed = false
	require.Equal(t, "b3", d.claim(1))
	d.s.Reopened(false)
	require.Empty(t, d.propose(1), "one namespace that opens does not open the closed ones")
	d.s.Reopened(true)
	require.Equal(t, "a1", d.claim(1))

	d.waits("a", 5, 1, 0)
	w.closed = true
	require.Empty(t, d.claim(1))
	w.closed = false
	d.now = d.now.Add(passedOverFor)
	require.Equal(t, "a4", d.claim(1), "it is proposed again after passedOverFor")
}

func TestWIsAskedAgainAsLongAsItHolds(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.waits("a", 0, 3, 0)
	d.w = 1
	require.Equal(t, "a1", d.claim(2))
	require.True(t, d.s.Capped())
	require.True(t, d.s.Ready(d.now))
	require.Empty(t, d.claim(2))
	require.Zero(t, d.vain, "W does not count against the workspace")
	d.w = 5
	require.Equal(t, "a2 a3", d.claim(2))
	require.False(t, d.s.Capped())
}

func TestAFullWorkspaceIsReportedOnceUntilItIsGivenSomething(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 2)
	d.tenant("b", 2)
	d.waits("a", 0, 4, 0)
	d.waits("b", 0, 2, 0)
	require.Equal(t, "a1 a2 b5 b6", d.claim(9))
	report := []Full{{Workspace: workspaceOf("a"), Active: 2, Limit: 2}}
	require.Equal(t, report, d.s.Full(d.now), "no more items wait in the other workspace")
	require.Empty(t, d.s.Full(d.now))
	d.s.LearnAll()
	require.Empty(t, d.claim(9))
	require.Empty(t, d.s.Full(d.now), "it was full the whole time")
	d.ends("a", 1)
	require.Equal(t, "a3", d.claim(9))
	require.Equal(t, report, d.s.Full(d.now))
	d.waits("b", 0, 1, 0)
	d.tenants[workspaceOf("b")].limit = 1
	d.s.LearnAll()
	require.Empty(t, d.claim(9))
	require.Equal(t, []Full{{Workspace: workspaceOf("b"), Active: 2, Limit: 1}}, d.s.Full(d.now), "the limit was lowered")
}

func TestAWorkspaceWithNothingDueIsNotReportedAsFull(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 1)
	d.waits("a", 0, 1, 0)
	d.waits("a", 0, 1, -time.Hour)
	require.Equal(t, "a1", d.claim(9))
	require.Empty(t, d.s.Full(d.now))
}

func TestANotificationIsAHint(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 1)
	d.waits("a", 0, 2, 0)
	number := d.tenants[workspaceOf("a")].number
	require.False(t, d.s.Named(number+1, Change{Waits: true, Due: d.now}), "an unknown number requires a look")
	require.True(t, d.s.Named(number, Change{Waits: true, Priority: 101, Due: d.now}))
	_, levels := d.s.Workspaces()
	require.Equal(t, 1, levels, "this priority does not exist")

	require.Equal(t, "a1", d.claim(1))
	require.False(t, d.s.Named(number, Change{Waits: true, Due: d.now}), "a look shows whether it is still full")
	require.Empty(t, d.propose(1), "a full workspace stays full")
	require.True(t, d.s.Named(number, Change{Items: 1}))
	require.Empty(t, d.claim(1), "the announcement was wrong")
	require.Empty(t, d.propose(1))
	require.False(t, d.s.Named(number, Change{Waits: true, Priority: 7, Due: d.now}))
	d.ends("a", 1)
	require.Empty(t, d.claim(1), "no item waits at that priority")
	require.Equal(t, "a2", d.claim(1))
}

func TestAHintOfATimeThatThereIsNotIsNoHint(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.waits("a", 0, 1, 0)
	for _, microseconds := range []int64{-1 << 63, 1<<63 - 1, 0} {
		require.False(t, d.s.Named(1, Change{Waits: true, Due: time.UnixMicro(microseconds)}), "an invalid time needs a look")
	}
	p := d.s.Propose(d.now, Want{Free: 1})
	require.Equal(t, d.items[0].due, p.Entries[0].From.Due)
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

func TestNothingOvertakesItemsForWhichThereMayBeRoom(t *testing.T) {
	for key, proposed := range map[string]string{
		"":  "a@2*2",        // if there is only one, a slot is left for the next level of the workspace
		"k": "a@1*1 b@-1*2", // if there is none, the key has room, for which the others leave a worker
	} {
		t.Run(proposed, func(t *testing.T) {
			d := newDesk(t)
			d.tenant("a", 3)
			d.tenant("b", 9)
			d.limits[scope{workspaceOf("a"), "k"}] = 2
			for _, waits := range []struct{ priority, items int }{{2, 1 + 2*(1-len(key))}, {1, 1}, {0, 1}} {
				for range waits.items {
					d.addKeyed("a", key, waits.priority, d.now)
				}
			}
			d.loads(d.levels(), Changed{})
			require.Equal(t, "a1", d.claim(1))
			d.waits("b", -1, 5, 0)
			require.Equal(t, proposed, d.propose(3))
		})
	}
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
