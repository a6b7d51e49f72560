package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// repeats answers a proposal of unanswered starts.
func (d *desk) repeats(p Proposal, repeated int) {
	d.t.Helper()
	a := Answer{Epoch: d.epoch, Room: d.w, Unanswered: repeated, Standings: make([]Standing, len(p.Entries))}
	for n, e := range p.Entries {
		at := e.From
		a.Standings[n] = Standing{Limit: 9, Next: &at}
	}
	d.s.Apply(d.now, p, a.at(d.now))
	d.requireWhole()
}

func newDoubts(t *testing.T, suspect bool) *desk {
	t.Helper()
	d := newDesk(t)
	d.tenant("a", 9)
	d.waits("a", 5, 9, 0)
	d.s.Unanswered(d.now, suspect)
	return d
}

func TestAnUnansweredStartWaitsForItsTime(t *testing.T) {
	d := newDesk(t)
	d.s.Unanswered(d.now.Add(time.Second), false)
	require.True(t, d.s.Propose(d.now, Want{Free: 3}).Empty())
	require.False(t, d.s.Ready(d.now))
	require.Equal(t, d.now.Add(time.Second), d.s.Next(d.now))
	d.now = d.now.Add(time.Second)
	require.True(t, d.s.Ready(d.now))
	require.Equal(t, 3, d.s.Propose(d.now, Want{Free: 3}).Unanswered)
	d.s.Unanswered(time.Time{}, false)
	require.False(t, d.s.Ready(d.now))
	require.Zero(t, d.s.Next(d.now))
}

func TestASuspectIsTakenAlone(t *testing.T) {
	d := newDoubts(t, true)
	require.True(t, d.s.Propose(d.now, Want{Free: 3, Holding: 1}).Empty(), "a crash would lose the other leases too")
	require.True(t, d.s.Capped())
	p := d.s.Propose(d.now, Want{Free: 3})
	require.Equal(t, Proposal{Want: p.Want, AtMost: 1, Unanswered: 1, Alone: true, Epoch: p.Epoch}, p)
	d.repeats(p, 1)
	require.True(t, d.s.Propose(d.now, Want{Free: 3, Holding: 1}).Empty(), "the replica holds the item")
	require.True(t, d.s.Capped())
	d.s.Unanswered(time.Time{}, false)
	require.True(t, d.s.Propose(d.now, Want{Free: 3, Holding: 1}).Empty())
	require.Equal(t, "a1", d.claim(1), "the replica no longer holds the item")
}

func TestASuspectThatIsNotToBeHadIsPassedOver(t *testing.T) {
	d := newDoubts(t, true)
	d.repeats(d.s.Propose(d.now, Want{Free: 3}), 0)
	p := d.s.Propose(d.now, Want{Free: 1, Holding: 3})
	require.False(t, p.Alone)
	require.Len(t, p.Entries, 1)
}

func TestUnansweredStartsThatAreLockedAreLeftAloneForAMoment(t *testing.T) {
	d := newDoubts(t, false)
	d.repeats(d.s.Propose(d.now, Want{Free: 3}), 0)
	require.Zero(t, d.s.Propose(d.now, Want{Free: 3}).Unanswered)
	d.now = d.now.Add(lockedFor)
	p := d.s.Propose(d.now, Want{Free: 3})
	require.Equal(t, 3, p.Unanswered)
	d.repeats(p, 2)
	require.Zero(t, d.s.Propose(d.now, Want{Free: 3}).Unanswered, "no more unanswered starts until the next look")
}

func TestRepeatedStartsCountForAgeing(t *testing.T) {
	d := newDoubts(t, false)
	d.tenant("b", 9)
	d.waits("b", 0, 1, 2*time.Minute)
	p := d.s.Propose(d.now, Want{Free: 10})
	d.repeats(p, 10)
	d.s.Unanswered(time.Time{}, false)
	require.Equal(t, "b10", d.claim(1))
}

func TestPropose_AsksForFreshItemsBeforeUnansweredStarts(t *testing.T) {
	d := newDoubts(t, false)
	p := d.s.Propose(d.now, Want{Free: 1, Fresh: true})
	require.Zero(t, p.Unanswered)
	require.Len(t, p.Entries, 1)
	require.Equal(t, 1, d.s.Propose(d.now, Want{Free: 1}).Unanswered)

	var alone Schedule
	alone.Unanswered(d.now, false)
	require.Equal(t, 1, alone.Propose(d.now, Want{Free: 1, Fresh: true}).Unanswered, "nothing else waits")
}

func TestPropose_LeavesReservedWorkersToOthers(t *testing.T) {
	d := newDoubts(t, false)
	require.Equal(t, 1, d.s.Propose(d.now, Want{Free: 3, Reserved: 2}).Unanswered)
	require.True(t, d.s.Ready(d.now))

	p := d.s.Propose(d.now, Want{Free: 3, Reserved: 3})
	require.Zero(t, p.Unanswered)
	require.NotEmpty(t, p.Entries)
	require.Zero(t, d.s.Propose(d.now, Want{Free: 3, Reserved: 3, Fresh: true}).Unanswered)

}

func TestReady_IsFalseWhileAllWorkersAreReserved(t *testing.T) {
	alone := newDesk(t)
	alone.s.Unanswered(alone.now, false)
	require.True(t, alone.s.Ready(alone.now))
	require.True(t, alone.s.Propose(alone.now, Want{Free: 3, Reserved: 3}).Empty())
	require.False(t, alone.s.Ready(alone.now), "the replica would ask again at once, and get nothing")
	require.Equal(t, 2, alone.s.Propose(alone.now, Want{Free: 3, Reserved: 1}).Unanswered)
}
