package complete

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func TestWatchRecordsTheEndAndTellsOfTheSlotIfItWasFirst(t *testing.T) {
	type given struct {
		prepare func(p *post)
		freed   int
	}
	must.Each(t, map[string]given{
		"first":             {func(*post) {}, 1},
		"another was first": {func(p *post) { p.onFinish = func(string) (bool, error) { return false, nil } }, 0},
		"nobody is told":    {func(p *post) { p.Freed = nil }, 0},
	}, func(t *testing.T, c given) {
		bubble(t, func(t *testing.T, p *post) {
			c.prepare(p)
			p.run()
			p.Watch("e1", "run-1")
			looptest.Pass(time.Second)
			require.Equal(t, []string{"e1=COMPLETED"}, p.seen().finished)
			require.Equal(t, c.freed, p.seen().freed)
			require.Empty(t, p.watching)
			require.Equal(t, c.freed == 1 || p.Freed == nil, p.log.Value("Execution ended", "execution_id") == "e1")
		})
	})
}

func TestSameExecutionIsWatchedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.run()
		for range 5 {
			p.Watch("e1", "run-1")
		}
		looptest.Pass(2 * time.Second)
		require.Equal(t, 1, p.seen().waits)
		p.Watch("e1", "run-1") // adopted from a row that was read just before its end
		looptest.Pass(2 * time.Second)
		require.Equal(t, 2, p.seen().waits)
	})
}

func TestWatchBeforeRunIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.Watch("e1", "run-1")
		stop := p.run()
		looptest.Pass(2 * time.Second)
		require.Zero(t, p.seen().waits)
		require.Equal(t, []giveUpCall{{0, []string{"e1"}}}, p.seen().givenUp)
		stop()
		p.Watch("e2", "run-2") // after Run has returned
	})
}

func TestNeverMoreWatchesThanMaxWatches(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.run()
		for n := range 100 {
			p.Watch("e"+strconv.Itoa(n), "run")
			if n%7 == 0 {
				looptest.Pass(100 * time.Millisecond)
			}
		}
		looptest.Pass(time.Second)
		require.Equal(t, 10, p.seen().most)
		require.Less(t, p.seen().waits, 100, "executions beyond the bound are left to adoption")
	})
}

func TestAdoptsAtStartAndAtOnceEachTimeItIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.onAdopt = func(atMost int, _ []string) ([]temporal.Execution, error) {
			if len(p.seen().adopts) == 1 {
				return []temporal.Execution{{ID: "e1", RunID: "run-1"}, {ID: "e2", RunID: "run-2"}}, nil
			}
			return nil, nil
		}
		p.onWait = forever
		p.run()
		p.Watch("e3", "run-3")
		looptest.Pass(time.Hour)
		p.Unwatched(false)
		looptest.Pass(time.Hour + 300*time.Millisecond) // between two lookups
		p.Unwatched(true)
		looptest.Pass(time.Hour)
		require.Equal(t, []adoptCall{{0, 10, nil},
			{2*time.Hour + 300*time.Millisecond, 7, []string{"e1", "e2", "e3"}}}, p.seen().adopts)
		require.Equal(t, 3, p.seen().waits)
	})
}

func TestAdoptsNothingWhenThereIsNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.MaxWatches = 2
		p.onWait = func(ctx context.Context, e temporal.Execution) (temporal.End, error) {
			if e.ID == "e1" && p.now() > 15*time.Second {
				return temporal.End{Outcome: "COMPLETED"}, nil
			}
			select {
			case <-ctx.Done():
				return temporal.End{}, ctx.Err()
			case <-time.After(15 * time.Second):
				return temporal.End{}, errors.New("connection reset")
			}
		}
		p.run()
		p.Watch("e1", "run-1")
		p.Watch("e2", "run-2")
		looptest.Pass(10500 * time.Millisecond)
		p.Unwatched(true)
		looptest.Pass(10 * time.Second)
		require.Equal(t, []adoptCall{{0, 2, nil}, {16 * time.Second, 1, []string{"e2"}}}, p.seen().adopts,
			"there is room from 15 s on")
	})
}

func TestWhatIsGivenUpDuringAnAdoptionIsAdoptedNext(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.MaxWatches = 1
		p.onAdopt = func(int, []string) ([]temporal.Execution, error) {
			p.Watch("e1", "run-1") // takes the only place, for a moment
			p.Watch("e2", "run-2")
			return nil, nil
		}
		p.run()
		looptest.Pass(5 * tendInterval / 2)
		require.Greater(t, len(p.seen().adopts), 1)
	})
}

func TestWaitIsRepeatedAndItsErrorLoggedWhenItChanges(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.onWait = func(_ context.Context, e temporal.Execution) (temporal.End, error) {
			switch at := p.now(); {
			case e.ID == "e2":
				return temporal.End{Outcome: "COMPLETED"}, nil
			case at < time.Minute:
				return temporal.End{}, errors.New("connection refused")
			case at < 2*time.Minute:
				return temporal.End{}, errors.New("namespace is not active")
			case at < 3*time.Minute:
				panic("boom " + e.ID)
			}
			return temporal.End{Outcome: "TERMINATED", Reason: "workflow was terminated: enough"}, nil
		}
		p.run()
		p.Watch("e1", "run-1")
		p.Watch("e2", "run-2")
		looptest.Pass(3*time.Minute + 2*retryCap)
		const message = "Cannot watch an execution"
		require.Equal(t, []string{message, message, message}, p.log.At(slog.LevelWarn))
		require.Equal(t, []string{"connection refused", "namespace is not active", "panic: boom e1"},
			p.log.Errors(slog.LevelWarn))
		require.Less(t, p.seen().waits, 150, "retries back off")
		require.Equal(t, []string{"e2=COMPLETED", "e1=TERMINATED"}, p.seen().finished)
	})
}

// An end that is known is recorded even by a replica that loses Temporal.
func TestEndThatCannotBeRecordedIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.Reached = func() bool { return p.now() < 2*time.Second }
		p.onFinish = func(string) (bool, error) {
			if p.now() < time.Hour {
				return false, errors.New("connection refused")
			}
			return true, nil
		}
		p.run()
		p.Watch("e1", "run-1")
		looptest.Pass(time.Hour + 2*retryCap)
		require.Equal(t, 1, p.seen().waits, "the end is already known")
		require.Equal(t, 1, p.seen().freed)
		require.Equal(t, []string{"Cannot record an execution's end"}, p.log.At(slog.LevelWarn))
	})
}

func TestStopIsPromptAndRecordsNothing(t *testing.T) {
	must.Each(t, map[string]func(context.Context, temporal.Execution) (temporal.End, error){
		"while waiting": forever,
		"while backing off": func(context.Context, temporal.Execution) (temporal.End, error) {
			return temporal.End{}, errors.New("connection refused")
		},
	}, func(t *testing.T, wait func(context.Context, temporal.Execution) (temporal.End, error)) {
		bubble(t, func(t *testing.T, p *post) {
			p.onWait = wait
			stop := p.run()
			for n := range 10 {
				p.Watch("e"+strconv.Itoa(n), "run")
			}
			looptest.Pass(time.Hour)
			stop()
			require.Equal(t, time.Hour, p.now())
			require.Empty(t, p.seen().finished)
			require.Empty(t, p.log.At(slog.LevelError))
		})
	})
}

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
		looptest.Pass(4 * time.Second)
		require.Zero(t, p.seen().waits)
		looptest.Pass(4 * time.Second)
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
		looptest.Pass(10 * time.Second)
		require.Equal(t, []string{"a"}, p.seen().givenUp[0].executions)
		require.Equal(t, slices.Repeat([]string{"Cannot find executions to watch"}, 2), p.log.At(slog.LevelError))
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
		looptest.Pass(2 * time.Second)
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
		looptest.Pass(time.Second)
		p.Unwatched(true)
		looptest.Pass(time.Second)
		adopts := p.seen().adopts
		require.Equal(t, []string{"a", "b"}, adopts[len(adopts)-1].watching)
		require.Equal(t, 9, adopts[len(adopts)-1].atMost, "one of ten places is taken")
	})
}
