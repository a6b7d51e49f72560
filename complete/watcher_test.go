package complete

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func TestWatchRecordsTheEndAndFreesTheSlot(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.run()
		p.Watch("e1", "run-1")
		pass(time.Second)
		require.Equal(t, []string{"e1=COMPLETED"}, p.seen().finished)
		require.Equal(t, 1, p.seen().freed)
		require.Empty(t, p.watching)
		require.Equal(t, []string{"Execution ended"}, p.log.At(slog.LevelInfo))
	})
}

func TestSlotIsFreedByWhoeverRecordsTheEndFirst(t *testing.T) {
	for name, prepare := range map[string]func(p *post){
		"another was first": func(p *post) { p.onFinish = func(string) (bool, error) { return false, nil } },
		"nobody is told":    func(p *post) { p.Freed = nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *post) {
				prepare(p)
				p.run()
				p.Watch("e1", "run-1")
				pass(2 * time.Second)
				require.Len(t, p.seen().finished, 1)
				require.Zero(t, p.seen().freed)
			})
		})
	}
}

func TestSameExecutionIsWatchedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.run()
		for range 5 {
			p.Watch("e1", "run-1")
		}
		pass(2 * time.Second)
		require.Equal(t, 1, p.seen().waits)
		p.Watch("e1", "run-1") // adopted from a row that was read just before its end
		pass(2 * time.Second)
		require.Equal(t, 2, p.seen().waits)
	})
}

func TestWatchBeforeRunIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.Watch("e1", "run-1")
		stop := p.run()
		pass(2 * time.Second)
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
				pass(100 * time.Millisecond)
			}
		}
		pass(time.Second)
		require.Equal(t, 10, p.seen().most)
		require.Less(t, p.seen().waits, 100, "executions beyond the bound are left to adoption")
	})
}

func TestAdoptsAtStartAndWhenItIsTold(t *testing.T) {
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
		pass(9500 * time.Millisecond)
		p.Unwatched(true)
		pass(10 * time.Second)
		require.Equal(t, []adoptCall{{0, 10, nil}, {9500 * time.Millisecond, 7, []string{"e1", "e2", "e3"}}}, p.seen().adopts)
		require.Equal(t, 3, p.seen().waits)
	})
}

func TestAdoptsOnceEachTimeItIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.run()
		pass(time.Hour)
		require.Len(t, p.seen().adopts, 1, "the adoption at the start, for a predecessor's executions")
		p.Unwatched(false)
		pass(10 * time.Second)
		require.Len(t, p.seen().adopts, 1)
		p.Unwatched(true)
		pass(time.Second)
		require.Len(t, p.seen().adopts, 2)
		pass(time.Hour)
		require.Len(t, p.seen().adopts, 2, "once per call")
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
		pass(10500 * time.Millisecond)
		p.Unwatched(true)
		pass(10 * time.Second)
		require.Equal(t, []adoptCall{{0, 2, nil}, {16 * time.Second, 1, []string{"e2"}}}, p.seen().adopts,
			"there is room from 15 s on")
	})
}

func TestWaitIsRepeatedAndItsErrorLoggedWhenItChanges(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.onWait = func(context.Context, temporal.Execution) (temporal.End, error) {
			switch {
			case p.now() < time.Minute:
				return temporal.End{}, errors.New("connection refused")
			case p.now() < 2*time.Minute:
				return temporal.End{}, errors.New("namespace is not active")
			}
			return temporal.End{Outcome: "TERMINATED", Reason: "workflow was terminated: enough"}, nil
		}
		p.run()
		p.Watch("e1", "run-1")
		pass(2*time.Minute + 2*retryCap)
		require.Equal(t, []string{"Cannot watch an execution", "Cannot watch an execution"}, p.log.At(slog.LevelWarn))
		require.Equal(t, []string{"connection refused", "namespace is not active"}, p.log.Errors(slog.LevelWarn))
		require.Less(t, p.seen().waits, 100, "retries back off")
		require.Equal(t, []string{"e1=TERMINATED"}, p.seen().finished)
	})
}

func TestEndThatCannotBeRecordedIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.onFinish = func(string) (bool, error) {
			if p.now() < time.Hour {
				return false, errors.New("connection refused")
			}
			return true, nil
		}
		p.run()
		p.Watch("e1", "run-1")
		pass(time.Hour + 2*retryCap)
		require.Equal(t, 1, p.seen().waits, "the end is already recorded")
		require.Equal(t, 1, p.seen().freed)
		require.Equal(t, []string{"Cannot record an execution's end"}, p.log.At(slog.LevelWarn))
	})
}

func TestPanicInAWatchIsContained(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.onWait = func(_ context.Context, e temporal.Execution) (temporal.End, error) {
			if e.ID == "e1" && p.now() < time.Minute {
				panic(fmt.Sprintf("boom %s", e.ID))
			}
			return temporal.End{Outcome: "COMPLETED"}, nil
		}
		p.run()
		p.Watch("e1", "run-1")
		p.Watch("e2", "run-2")
		pass(time.Second)
		require.Equal(t, []string{"e2=COMPLETED"}, p.seen().finished)
		require.Equal(t, []string{"panic: boom e1"}, p.log.Errors(slog.LevelWarn))
		pass(time.Minute + 2*retryCap)
		require.Equal(t, []string{"e2=COMPLETED", "e1=COMPLETED"}, p.seen().finished)
	})
}

func TestStopIsPromptAndRecordsNothing(t *testing.T) {
	for name, wait := range map[string]func(context.Context, temporal.Execution) (temporal.End, error){
		"while waiting": forever,
		"while backing off": func(context.Context, temporal.Execution) (temporal.End, error) {
			return temporal.End{}, errors.New("connection refused")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *post) {
				p.onWait = wait
				stop := p.run()
				for n := range 10 {
					p.Watch("e"+strconv.Itoa(n), "run")
				}
				pass(time.Hour)
				stop()
				require.Equal(t, time.Hour, p.now())
				require.Empty(t, p.seen().finished)
				require.Empty(t, p.log.At(slog.LevelError))
			})
		})
	}
}

func TestEveryOneOfManyEndsIsRecordedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.MaxWatches = 500
		p.run()
		want := make([]string, 500)
		for n := range want {
			p.Watch("e"+strconv.Itoa(n), "run")
			want[n] = "e" + strconv.Itoa(n) + "=COMPLETED"
		}
		synctest.Wait()
		pass(time.Second)
		require.Equal(t, slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(p.seen().finished)))
		require.Equal(t, 500, p.seen().freed)
	})
}
