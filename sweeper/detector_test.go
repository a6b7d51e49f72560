package sweeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// lookout is the store and Temporal of a detector in a synctest bubble. By default it gets every turn.
type lookout struct {
	others  bool // whether it has the turn
	queues  []StalledQueue
	polled  map[string]bool
	open    []string
	attempt map[string]int
	err     map[string]error // a namespace's answer

	turns    int
	asked    atomic.Int64
	without  []StalledQueue
	mu       sync.Mutex
	recorded []string
	change   []StallChange
}

func (l *lookout) StallTurn(context.Context, time.Duration, time.Duration, int) ([]StalledQueue, bool, error) {
	l.turns++
	return l.queues, !l.others, nil
}

func (l *lookout) StallPick(_ context.Context, _ time.Duration, without []StalledQueue,
	_ int) (open []temporal.Execution, err error) {
	l.without = without
	for _, id := range l.open {
		open = append(open, temporal.Execution{ID: id})
	}
	return open, nil
}

func (l *lookout) StallRecord(_ context.Context, idle []StalledQueue, asked []string, failing []Stall,
	silent []string) ([]StallChange, error) {
	words := fmt.Sprintf("idle %v, asked %v, silent %q", idle, asked, silent)
	for _, f := range failing {
		words += ", " + f.Name + ": " + f.Detail
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorded = append(l.recorded, words)
	return l.change, nil
}

// seen returns the stalls recorded so far.
func (l *lookout) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorded
}

func (l *lookout) Polled(_ context.Context, queue temporal.TaskQueue) (bool, error) {
	l.asked.Add(1)
	return l.polled[queue.Name], l.err[queue.Namespace]
}

func (l *lookout) TaskAttempt(_ context.Context, execution temporal.Execution) (int, error) {
	l.asked.Add(1)
	return l.attempt[execution.ID], l.err[execution.Namespace]
}

func looking(t *testing.T, l *lookout, wanted func() bool, test func(log *logtest.Book)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Book{}
		d := &Detector{Store: l, Temporal: l, Interval: time.Minute, Age: time.Minute, Wanted: wanted, Log: slog.New(log)}
		looptest.Run(t, d.Run)
		test(log)
	})
}

func TestDetectorFindsQueuesWithoutAPollerAndTasksThatFail(t *testing.T) {
	l := &lookout{
		queues: []StalledQueue{{TaskQueue: temporal.TaskQueue{Name: "orders"}, Executions: 3},
			{TaskQueue: temporal.TaskQueue{Name: "typo"}, Executions: 2}}, polled: map[string]bool{"orders": true},
		open: []string{"e1", "e2"}, attempt: map[string]int{"e1": failingAttempts - 1, "e2": failingAttempts},
		change: []StallChange{
			{Stall: Stall{Kind: "TASK_QUEUE", Name: "typo"}}, {Stall: Stall{Kind: "EXECUTION", Name: "e2"}},
			{Over: true, Stall: Stall{Kind: "EXECUTION", Name: "e3"}},
		},
	}
	looking(t, l, nil, func(log *logtest.Book) {
		looptest.Pass(16 * time.Second)
		require.Equal(t, []string{"idle [{{ typo workflow} 2}], asked [e1 e2], silent [], e2: workflow task is at attempt 5"},
			l.seen())
		require.Equal(t, []StalledQueue{{TaskQueue: temporal.TaskQueue{Name: "typo"}, Executions: 2}}, l.without,
			"a queue's state need not be queried for each execution")
		require.Equal(t,
			[]string{"No worker polls the task queue; start a worker, or correct task_queue in the workflow definitions",
				"Workflow task fails repeatedly; fix the worker, or terminate the execution"}, log.At(slog.LevelWarn))
		require.Equal(t, []string{"Stalled execution recovered or ended"}, log.At(slog.LevelInfo))
	})
}

func TestDetectorAsksNothingWhereItIsAnothersTurnAndTakesNoTurnWhereNothingIsOpen(t *testing.T) {
	for _, open := range []bool{true, false} {
		t.Run(strconv.FormatBool(open), func(t *testing.T) {
			l := &lookout{others: true, queues: []StalledQueue{{TaskQueue: temporal.TaskQueue{Name: "orders"}}},
				open: []string{"e1"}}
			looking(t, l, func() bool { return open }, func(*logtest.Book) {
				looptest.Pass(10 * time.Minute)
				require.Zero(t, l.asked.Load())
				require.Equal(t, open, l.turns >= 39, "four attempts to take the turn per look")
				require.Equal(t, open, l.turns > 0)
			})
		})
	}
}

func TestDetectorTakesItsTime(t *testing.T) {
	l := &lookout{open: strings.Fields(strings.Repeat("e ", 50))}
	looking(t, l, nil, func(*logtest.Book) {
		looptest.Pass(16 * time.Second)
		require.LessOrEqual(t, l.asked.Load(), int64(21), "20 requests per second")
		looptest.Pass(5 * time.Second)
		require.EqualValues(t, 50, l.asked.Load())
	})
}

func TestANamespaceThatDoesNotAnswerHoldsUpNoOtherAndIsLoggedOnce(t *testing.T) {
	l := &lookout{
		queues: []StalledQueue{{TaskQueue: temporal.TaskQueue{Namespace: "gone", Name: "orders"}},
			{TaskQueue: temporal.TaskQueue{Namespace: "gone", Name: "typo"}},
			{TaskQueue: temporal.TaskQueue{Namespace: "shop", Name: "typo"}}},
		err: map[string]error{"gone": errors.New("connection refused")},
	}
	looking(t, l, nil, func(log *logtest.Book) {
		looptest.Pass(16 * time.Second)
		require.Equal(t, []string{`idle [{{shop typo workflow} 0}], asked [], silent ["gone"]`}, l.seen())
		require.EqualValues(t, 2, l.asked.Load(), "one request per look")
		looptest.Pass(10 * time.Minute)
		require.Equal(t, []string{"connection refused"}, log.Errors(slog.LevelWarn))
	})
}
