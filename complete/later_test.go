package complete

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/stretchr/testify/require"
)

func TestWhatTemporalCallsAboutIsWatchedOnlyIfItLasts(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.Grace = 5 * time.Second
		p.onOpen = func(executions []string) ([]temporal.Execution, error) {
			require.Equal(t, []string{"a", "b"}, executions)
			return []temporal.Execution{{ID: "b", RunID: "run-b"}}, nil // a callback has recorded the end of a
		}
		p.run()
		p.WatchLater("a")
		p.WatchLater("b")
		require.Equal(t, 2, p.Watching(), "both are stored as watched here")
		pass(4 * time.Second)
		require.Zero(t, p.seen().waits)
		pass(4 * time.Second)
		require.Equal(t, []string{"b=COMPLETED"}, p.seen().finished)
		require.Equal(t, 1, p.seen().waits)
		require.Zero(t, p.Watching())
	})
}

// A failed lookup is retried, and executions beyond the bound are left to other replicas as usual.
func TestWhatLastsAndDoesNotFitIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.Grace, p.MaxWatches = 5*time.Second, 0
		failures := 2
		p.onOpen = func([]string) ([]temporal.Execution, error) {
			if failures--; failures >= 0 {
				return nil, errors.New("connection refused")
			}
			return []temporal.Execution{{ID: "a", RunID: "run-a"}}, nil
		}
		p.run()
		p.WatchLater("a")
		pass(10 * time.Second)
		require.Equal(t, []string{"a"}, p.seen().givenUp[0].executions)
	})
}

func TestAReplicaThatLosesTemporalGivesUpWhatItWouldHaveWatchedLater(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.Grace = 5 * time.Second
		var reached atomic.Bool
		reached.Store(true)
		p.Reached = reached.Load
		p.run()
		p.WatchLater("a")
		reached.Store(false)
		pass(2 * time.Second)
		require.Len(t, p.seen().givenUp, 1)
		require.Nil(t, p.seen().givenUp[0].executions, "all of them are given up")
		require.Zero(t, p.Watching())
	})
}

// Adoption takes over executions that this replica has lost track of, but not these.
func TestWhatIsWatchedLaterIsNotAdopted(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.Grace = time.Minute
		p.onWait = forever
		p.run()
		p.WatchLater("a")
		p.Watch("b", "run-b")
		pass(time.Second)
		p.Unwatched(true)
		pass(time.Second)
		adopts := p.seen().adopts
		require.Equal(t, []string{"a", "b"}, adopts[len(adopts)-1].watching)
		require.Equal(t, 9, adopts[len(adopts)-1].atMost, "one of ten places is taken")
	})
}
