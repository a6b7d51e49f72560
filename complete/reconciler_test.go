package complete

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// ledger is a reconciler for a synctest bubble; the test answers for its store and Temporal.
type ledger struct {
	*Reconciler
	t     *testing.T
	log   logtest.Book
	began time.Time

	turns  []Turn
	mine   bool
	away   string // a namespace that does not answer
	pages  []temporal.Page
	open   []string // open executions according to the store
	ended  map[string]temporal.End
	silent []string
	fails  error // the error of Closed

	mu       sync.Mutex
	listed   []time.Duration
	done     []bool // for each ended turn, whether it was wide
	newest   time.Time
	looked   []string
	under    []temporal.Execution // open ones whose items name workflow IDs
	ranges   []temporal.Range     // that were listed
	finished []string
	freed    int
}

func (l *ledger) CloseTurns(context.Context, time.Duration, time.Duration) ([]Turn, error) {
	if !l.mine {
		return nil, nil
	}
	return l.turns, nil
}

func (l *ledger) CloseDone(_ context.Context, turn Turn, newest time.Time) error {
	l.done, l.newest = append(l.done, turn.Wide), newest
	return nil
}

func (l *ledger) OpenAmong(_ context.Context, ids []string) ([]temporal.Execution, error) {
	var open []temporal.Execution
	for _, id := range ids {
		if slices.Contains(l.open, id) {
			open = append(open, temporal.Execution{ID: id, RunID: "run-" + id})
		}
	}
	return open, nil
}

func (l *ledger) OpenUnder(_ context.Context, _ string, workflowIDs []string) (open []temporal.Execution, err error) {
	for _, e := range l.under {
		if slices.Contains(workflowIDs, e.WorkflowID) {
			open = append(open, e)
		}
	}
	return open, nil
}

func (l *ledger) Silent(context.Context, int, time.Duration) ([]temporal.Execution, error) {
	var silent []temporal.Execution
	for _, id := range l.silent {
		silent = append(silent, temporal.Execution{ID: id, RunID: "run-" + id})
	}
	l.silent = nil
	return silent, nil
}

func (l *ledger) Finish(_ context.Context, id, outcome, _, _ string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(open string) bool { return open == id })
	l.finished = append(l.finished, id+"="+outcome)
	return true, nil
}

func (l *ledger) Closed(_ context.Context, of temporal.Range, token []byte) (temporal.Page, error) {
	if l.away != "" && of.Namespace == l.away {
		return temporal.Page{}, errors.New("Namespace " + of.Namespace + " is not found.")
	}
	l.listed, l.ranges = append(l.listed, time.Since(l.began)), append(l.ranges, of)
	if l.fails != nil {
		return temporal.Page{}, l.fails
	}
	if len(token) == 0 {
		return l.pages[0], nil
	}
	return l.pages[int(token[0])], nil
}

func (l *ledger) Look(_ context.Context, e temporal.Execution) (temporal.End, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked = append(l.looked, e.ID)
	if e.ID == "odd" {
		return temporal.End{}, false, errors.New("read close event: type X does not close a workflow")
	}
	end, ended := l.ended[e.ID]
	return end, ended, nil
}

// Ended records the run that was asked about.
func (l *ledger) Ended(ctx context.Context, e temporal.Execution) (temporal.End, bool, error) {
	end, ended, err := l.Look(ctx, temporal.Execution{ID: e.ID})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked[len(l.looked)-1] = e.ID + "=" + e.RunID
	return end, ended, err
}

// reconciling runs a reconciler that always has the turn and lists from now.
func reconciling(t *testing.T, prepare func(*ledger), test func(l *ledger)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		l := &ledger{t: t, began: now, mine: true, turns: []Turn{{Since: now}}, pages: []temporal.Page{{}},
			ended: map[string]temporal.End{}}
		l.Reconciler = &Reconciler{Store: l, Ends: l, Temporal: l, Interval: time.Second, Freed: func() {
			l.mu.Lock()
			l.freed++
			l.mu.Unlock()
		}, Log: slog.New(&l.log)}
		prepare(l)
		looptest.Run(t, l.Run)
		synctest.Wait()
		test(l)
	})
}

func TestANamespaceThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	reconciling(t, func(l *ledger) {
		l.turns = []Turn{{Namespace: "away", Since: l.began}, {Namespace: "shop", Since: l.began}}
		l.away = "away"
		l.open, l.ended["e1"] = []string{"e1"}, temporal.End{Outcome: "COMPLETED"}
		l.silent, l.ended["e2"] = []string{"e2"}, temporal.End{Outcome: "FAILED"}
		l.pages = []temporal.Page{{ExecutionIDs: []string{"e1"}}}
	}, func(l *ledger) {
		looptest.Pass(3500 * time.Millisecond)
		require.Equal(t, []string{"e1=COMPLETED", "e2=FAILED"}, l.finished)
		require.Len(t, l.listed, 4, "every second, whatever the other namespace does")
		require.Len(t, l.done, 4, "only the listed namespace advances")
		require.Equal(t, []string{"Namespace away is not found."}, l.log.Errors(slog.LevelWarn), "the error is logged once")
	})
}

func TestReconcilerRecordsTheEndsOfOpenExecutionsOnly(t *testing.T) {
	reconciling(t, func(l *ledger) {
		newest := l.began.Add(time.Hour)
		l.open = []string{"e1", "e2", "e3"}
		l.ended["e1"], l.ended["e3"] = temporal.End{Outcome: "COMPLETED"}, temporal.End{Outcome: "TIMED_OUT"}
		l.pages = []temporal.Page{{ExecutionIDs: []string{"e1", "e2", "stranger"}, Newest: newest, Next: []byte{1}},
			{ExecutionIDs: []string{"e3"}, Next: []byte{2}}, {}}
	}, func(l *ledger) {
		looptest.Pass(700 * time.Millisecond)
		require.ElementsMatch(t, []string{"e1=COMPLETED", "e3=TIMED_OUT"}, l.finished, "e2 continues in another run")
		require.Equal(t, 2, l.freed)
		require.ElementsMatch(t, []string{"e1", "e2", "e3"}, l.looked)
		const pause = 250 * time.Millisecond // between pages
		require.Equal(t, []time.Duration{0, pause, 2 * pause}, l.listed)
		require.Equal(t, []bool{false}, l.done)
		require.Equal(t, l.began.Add(time.Hour), l.newest)
	})
}

func TestReconcilerListsOnlyInItsTurnAndWhereThereIsNeed(t *testing.T) {
	must.Each(t, map[string]func(*ledger){
		"another replica has the turn": func(l *ledger) { l.mine = false },
		"every execution is watched":   func(l *ledger) { l.turns = nil },
		"Temporal is unreachable":      func(l *ledger) { l.Reached = func() bool { return false } },
	}, func(t *testing.T, prepare func(*ledger)) {
		reconciling(t, prepare, func(l *ledger) {
			looptest.Pass(time.Minute)
			require.Empty(t, l.listed)
			require.Empty(t, l.done)
		})
	})
}

func TestReconcilerAsksForTheTurnAsOftenAsThereIsNeed(t *testing.T) {
	type given struct {
		open, unwatched bool
		turns           int
	}
	must.Each(t, map[string]given{
		"no open execution":       {false, false, 0},
		"only watched executions": {true, false, 3},
		"an unwatched execution":  {true, true, 61},
	}, func(t *testing.T, c given) {
		reconciling(t, func(l *ledger) { l.Open = func() (bool, bool) { return c.open, c.unwatched } }, func(l *ledger) {
			looptest.Pass(time.Minute)
			require.Len(t, l.listed, c.turns)
		})
	})
}

func TestReconcilerAsksAboutWhatIsSilent(t *testing.T) {
	reconciling(t, func(l *ledger) {
		l.silent = []string{"e1", "e2", "odd"}
		l.ended["e2"] = temporal.End{Outcome: "FAILED"}
	}, func(l *ledger) {
		looptest.Pass(10 * time.Second)
		require.ElementsMatch(t, []string{"e1", "e2", "odd"}, l.looked)
		require.Equal(t, []string{"e2=FAILED"}, l.finished)
		require.Len(t, l.done, 11, "a failed lookup does not block the others")
		require.Equal(t, []string{"Cannot describe an execution"}, l.log.At(slog.LevelWarn))
	})
}

func TestReconcilerThatCannotListLeavesTheTurnToOthersAndSaysSoOnce(t *testing.T) {
	reconciling(t, func(l *ledger) { l.fails = fmt.Errorf("%w: connection refused", temporal.ErrAway) }, func(l *ledger) {
		looptest.Pass(time.Minute)
		require.Len(t, l.listed, 13, "every five seconds")
		require.Empty(t, l.done, "the next list starts at the same position")
		require.Equal(t, []string{"Cannot detect the ends of unwatched executions"}, l.log.At(slog.LevelWarn))
		require.Equal(t, []string{"no answer from Temporal: connection refused"}, l.log.Errors(slog.LevelWarn))
	})
}

func TestATurnOfAllFindsTheRunsUnderWorkflowIDsThatItemsName(t *testing.T) {
	reconciling(t, func(l *ledger) {
		l.turns = []Turn{{Namespace: "shop", Kind: temporal.Activity, Since: l.began, All: true}}
		for _, id := range []string{"e1", "e2", "e3"} {
			l.ended[id] = temporal.End{Outcome: "COMPLETED"}
			l.under = append(l.under, temporal.Execution{ID: id, WorkflowID: "order-1"})
		}
		l.under[2].WorkflowID = "order-3"
		l.pages = []temporal.Page{{WorkflowIDs: []string{"order-1", "order-2"}, Runs: map[string]string{"e1": "run-1"}}}
	}, func(l *ledger) {
		require.Equal(t, []temporal.Range{{Kind: temporal.Activity, Namespace: "shop", Since: l.began, All: true}}, l.ranges)
		require.ElementsMatch(t, []string{"e1=COMPLETED", "e2=COMPLETED"}, l.finished)
		require.ElementsMatch(t, []string{"e1=run-1", "e2"}, l.looked, "of the run that is listed for it")
	})
}

// Not looking it up saves a request each and loses nothing: the close event names the run that continues.
func TestWhatIsOursInTheListIsAskedAboutByTheRunThatClosed(t *testing.T) {
	reconciling(t, func(l *ledger) {
		l.open = []string{"ours", "unmarked"}
		l.pages = []temporal.Page{{ExecutionIDs: []string{"ours", "unmarked"}, Runs: map[string]string{"ours": "run-2"}}}
	}, func(l *ledger) {
		slices.Sort(l.looked)
		require.Equal(t, []string{"ours=run-2", "unmarked"}, l.looked)
	})
}

// A slow list does not delay the next one.
func TestListsBeginOnceAnIntervalHoweverLongTheyTake(t *testing.T) {
	reconciling(t, func(l *ledger) {
		l.pages = []temporal.Page{{Next: []byte{1}}, {Next: []byte{2}}, {}} // two pauses of 250 ms
	}, func(l *ledger) {
		looptest.Pass(1500 * time.Millisecond)
		require.Equal(t, time.Second, l.listed[3])
	})
}
