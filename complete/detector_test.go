package complete

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/claim"
)

// lookout is the store and Temporal of a detector in a synctest bubble. It has every turn, unless a test says otherwise.
type lookout struct {
	others  bool // have the turn
	queues  []claim.StalledQueue
	polled  map[string]bool
	open    []string
	attempt map[string]int
	err     map[string]error // what a namespace answers

	turns    int
	asked    atomic.Int64
	without  []claim.StalledQueue
	mu       sync.Mutex
	recorded []string
	change   []claim.StallChange
}

func (l *lookout) StallTurn(context.Context, time.Duration, time.Duration, int) ([]claim.StalledQueue, bool, error) {
	l.turns++
	return l.queues, !l.others, nil
}

func (l *lookout) StallPick(_ context.Context, _ time.Duration, without []claim.StalledQueue, _ int) (open []claim.Execution, err error) {
	l.without = without
	for _, id := range l.open {
		open = append(open, claim.Execution{ID: id})
	}
	return open, nil
}

func (l *lookout) StallRecord(_ context.Context, idle []claim.StalledQueue, asked []string, failing []claim.Stall, silent []string) ([]claim.StallChange, error) {
	words := fmt.Sprintf("idle %v, asked %v, silent %q", idle, asked, silent)
	for _, f := range failing {
		words += ", " + f.Name + ": " + f.Detail
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorded = append(l.recorded, words)
	return l.change, nil
}

// seen is what was recorded until now.
func (l *lookout) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorded
}

func (l *lookout) Polled(_ context.Context, queue claim.StalledQueue) (bool, error) {
	l.asked.Add(1)
	return l.polled[queue.Name], l.err[queue.Namespace]
}

func (l *lookout) TaskAttempt(_ context.Context, execution claim.Execution) (int, error) {
	l.asked.Add(1)
	return l.attempt[execution.ID], l.err[execution.Namespace]
}

func looking(t *testing.T, l *lookout, wanted func() bool, test func(log *logBook)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &logBook{}
		d := &Detector{Store: l, Temporal: l, Interval: time.Minute, Age: time.Minute, Wanted: wanted, Log: slog.New(log)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		test(log)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestDetectorFindsQueuesWithoutAPollerAndTasksThatFail(t *testing.T) {
	l := &lookout{
		queues: []claim.StalledQueue{{Name: "orders", Executions: 3}, {Name: "typo", Executions: 2}}, polled: map[string]bool{"orders": true},
		open: []string{"e1", "e2"}, attempt: map[string]int{"e1": failingAttempts - 1, "e2": failingAttempts},
		change: []claim.StallChange{
			{Stall: claim.Stall{Kind: "TASK_QUEUE", Name: "typo"}}, {Stall: claim.Stall{Kind: "EXECUTION", Name: "e2"}},
			{Over: true, Stall: claim.Stall{Kind: "EXECUTION", Name: "e3"}},
		},
	}
	looking(t, l, nil, func(log *logBook) {
		pass(16 * time.Second)
		require.Equal(t, []string{"idle [{ typo 2}], asked [e1 e2], silent [], e2: its workflow task is at attempt 5"}, l.seen())
		require.Equal(t, []claim.StalledQueue{{Name: "typo", Executions: 2}}, l.without, "what is known of a queue need not be asked of each execution")
		warnings, _ := log.at(slog.LevelWarn)
		require.Equal(t, []string{"No worker polls a task queue: start one, or correct the definitions' task_queue",
			"A workflow task fails again and again: mend the worker, or terminate the execution"}, warnings)
		infos, _ := log.at(slog.LevelInfo)
		require.Equal(t, []string{"Progresses again, or has ended"}, infos)
	})
}

func TestDetectorAsksNothingWhereItIsAnothersTurn(t *testing.T) {
	l := &lookout{others: true, queues: []claim.StalledQueue{{Name: "orders"}}, open: []string{"e1"}}
	looking(t, l, nil, func(*logBook) {
		pass(10 * time.Minute)
		require.Zero(t, l.asked.Load())
		require.GreaterOrEqual(t, l.turns, 39, "it tries to take it, four times a look")
	})
}

func TestDetectorDoesNotEvenTakeTheTurnWhereNothingIsOpen(t *testing.T) {
	l := &lookout{}
	looking(t, l, func() bool { return false }, func(*logBook) {
		pass(time.Hour)
		require.Zero(t, l.turns)
	})
}

func TestDetectorTakesItsTime(t *testing.T) {
	l := &lookout{open: strings.Fields(strings.Repeat("e ", 50))}
	looking(t, l, nil, func(*logBook) {
		pass(16 * time.Second)
		require.LessOrEqual(t, l.asked.Load(), int64(21), "20 questions a second")
		pass(5 * time.Second)
		require.EqualValues(t, 50, l.asked.Load())
	})
}

func TestANamespaceThatDoesNotAnswerHoldsUpNoOtherAndIsLoggedOnce(t *testing.T) {
	l := &lookout{
		queues: []claim.StalledQueue{{Namespace: "gone", Name: "orders"}, {Namespace: "gone", Name: "typo"}, {Namespace: "shop", Name: "typo"}},
		err:    map[string]error{"gone": errors.New("connection refused")},
	}
	looking(t, l, nil, func(log *logBook) {
		pass(16 * time.Second)
		require.Equal(t, []string{`idle [{shop typo 0}], asked [], silent ["gone"]`}, l.seen())
		require.EqualValues(t, 2, l.asked.Load(), "it is asked once a look")
		pass(10 * time.Minute)
		_, errs := log.at(slog.LevelWarn)
		require.Equal(t, []string{"connection refused"}, errs)
	})
}

func TestTemporalSaysWhetherAQueueIsPolledAndHowOftenATaskWasTried(t *testing.T) {
	t.Parallel()
	service := &fakeService{newest: described("run-1", "e1", true), attempt: 7}
	waiter := &TemporalWaiter{Service: service, Namespace: "shop"}
	for queue, want := range map[string]bool{"orders": true, "typo": false} {
		polled, err := waiter.Polled(t.Context(), claim.StalledQueue{Name: queue})
		require.NoError(t, err)
		require.Equal(t, want, polled)
	}
	for execution, want := range map[string]int{"e1": 7, "a stranger's": 0} {
		attempt, err := waiter.TaskAttempt(t.Context(), claim.Execution{ID: execution})
		require.NoError(t, err)
		require.Equal(t, want, attempt)
	}
	service.describe = serviceerror.NewUnavailable("connection refused")
	_, err := waiter.Polled(t.Context(), claim.StalledQueue{Name: "orders"})
	require.ErrorIs(t, err, ErrAway)
	_, err = waiter.TaskAttempt(t.Context(), claim.Execution{ID: "e1"})
	require.ErrorIs(t, err, ErrAway)
	attempt, err := (&TemporalWaiter{Service: &fakeService{}}).TaskAttempt(t.Context(), claim.Execution{ID: "e1"})
	require.NoError(t, err)
	require.Zero(t, attempt, "one that is gone")
}
