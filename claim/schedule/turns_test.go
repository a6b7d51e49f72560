package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
