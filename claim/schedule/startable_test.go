package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func second(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

// waitsAndIsAsked adds a workspace whose items have been due since noon, proposes them at the given second, and returns
// the schedule and the proposal.
func waitsAndIsAsked(t *testing.T, at int) (*Schedule, Proposal) {
	t.Helper()
	s := &Schedule{}
	s.Learn(Change{Workspace: WorkspaceID{1}, Waits: true, Due: noon, Items: 5})
	p := s.Propose(second(at), Want{Free: 1})
	require.Len(t, p.Entries, 1)
	return s, p
}

func startableAt(t *testing.T, s *Schedule, at int) time.Time {
	t.Helper()
	p := s.Propose(second(at), Want{Free: 1})
	require.Len(t, p.Entries, 1)
	return p.Entries[0].Startable
}

// answer is a claim that took one item of its only entry.
func answer(st Standing) Answer {
	st.Granted, st.Taken, st.Next = 1, 1, &Position{Due: noon, ID: 2}
	return Answer{Room: 100, Standings: []Standing{st}}
}

func TestWhatNothingHeldBackIsStartableSinceItWasDue(t *testing.T) {
	t.Parallel()
	s, p := waitsAndIsAsked(t, 3)
	require.Zero(t, p.Entries[0].Startable)
	s.Tell(second(3))
	s.Pause(false) // as before
	s.Apply(second(3), p, answer(Standing{Held: 1, Limit: 5}).at(second(3)))
	require.Zero(t, startableAt(t, s, 4))
}

func TestAnItemOfAFullWorkspaceIsStartableFromWhenItsSlotWasFree(t *testing.T) {
	t.Parallel()
	s, p := waitsAndIsAsked(t, 3)
	s.Apply(second(3), p, answer(Standing{Held: 1, Limit: 1}).at(second(3)))
	require.Empty(t, s.Propose(second(4), Want{Free: 1}).Entries, "the workspace is full")
	s.Tell(second(60))
	s.Learn(Change{Workspace: WorkspaceID{1}, Items: 1})
	require.Equal(t, second(60), startableAt(t, s, 62))
	s.Tell(second(63))
	s.Learn(Change{Workspace: WorkspaceID{1}, Items: 1})
	require.Equal(t, second(60), startableAt(t, s, 64), "it had room before")

	s, p = waitsAndIsAsked(t, 3)
	s.Apply(second(3), p, answer(Standing{Held: 1, Limit: 1}).at(second(3)))
	s.Tell(second(70))
	s.Load([]Waiting{{Workspace: WorkspaceID{1}, From: Position{Due: noon}, Limit: 1}}, Changed{})
	require.Equal(t, second(70), startableAt(t, s, 71), "a load found it")
}

func TestAnItemIsStartableFromWhenARateLimitOrAPauseOrWLetIt(t *testing.T) {
	t.Parallel()
	s, p := waitsAndIsAsked(t, 3)
	s.Apply(second(3), p, answer(Standing{Held: 1, Limit: 5, RetryIn: 2 * time.Second}).at(second(3)))
	require.Equal(t, second(5), startableAt(t, s, 9))

	s.Tell(second(10))
	s.Pause(true)
	s.Tell(second(20))
	s.Pause(false)
	require.Equal(t, second(20), startableAt(t, s, 21))

	p = s.Propose(second(22), Want{Free: 3})
	short := answer(Standing{Held: 1, Limit: 5})
	short.Room = 1
	s.Apply(second(22), p, short.at(second(22)))
	require.True(t, s.Capped())
	require.Equal(t, second(30), startableAt(t, s, 30), "a lease ended at an unknown time")
}

func TestAnItemIsStartableFromWhenItsNamespaceAcceptsWorkflowsAgain(t *testing.T) {
	t.Parallel()
	s, p := waitsAndIsAsked(t, 3)
	s.Apply(second(3), p, Answer{Room: 100, Limited: true,
		Standings: []Standing{{Granted: 1, Limit: 5, PassedOver: true, Next: &Position{Due: noon, ID: 1}}}}.at(second(3)))
	s.Tell(second(40))
	s.Reopened(true)
	require.Equal(t, second(40), startableAt(t, s, 41))
}

func TestAnItemWhoseNamespaceIsLimitedIsStartableFromWhenItIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for passedOver, pause := range map[bool]time.Duration{true: passedOverFor, false: lockedFor} {
		s, p := waitsAndIsAsked(t, 3)
		left := Standing{Granted: 1, Limit: 5, PassedOver: passedOver, Next: &Position{Due: noon, ID: 1}}
		s.Apply(second(3), p, Answer{Room: 100, Limited: true, Standings: []Standing{left}}.at(second(3)))
		require.Equal(t, second(3).Add(pause), startableAt(t, s, 600))
	}
}
