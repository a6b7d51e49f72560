package request

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
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/internal/troubletest"
)

// signalDesk is where signals are kept, each of an execution of its own, and Temporal, for a synctest bubble.
type signalDesk struct {
	mu      sync.Mutex
	due     []Signal
	waits   bool
	takeErr func() error // of the next take
	answer  func(ctx context.Context, signal temporal.Signal) (string, error)
	room    []int // of each take
	started []string
	settled []string // name=outcome error run
	now     int      // being sent
	most    int
}

func (d *signalDesk) TakeSignals(_ context.Context, settled []SettledSignal, started []string,
	atMost int) (taken TakenSignals, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = append(d.room, atMost)
	if fail := d.takeErr; fail != nil {
		d.takeErr = nil
		return taken, fail()
	}
	d.started = append(d.started, started...)
	for _, one := range settled {
		d.settled = append(d.settled, fmt.Sprintf("%d=%s %s%s", one.ID, one.Outcome, one.Error, one.RunID))
	}
	taken.Now, d.due, taken.Waits = d.due[:min(atMost, len(d.due))], d.due[min(atMost, len(d.due)):], d.waits
	if len(d.due)+len(taken.Now) > 0 || d.waits {
		taken.Next = new(time.Duration)
		if len(d.due) == 0 {
			*taken.Next = 10 * time.Second
		}
	}
	return taken, nil
}

func (d *signalDesk) Signal(ctx context.Context, signal temporal.Signal) (string, error) {
	d.mu.Lock()
	d.now++
	d.most = max(d.most, d.now)
	answer := d.answer
	d.mu.Unlock()
	defer func() { d.mu.Lock(); d.now--; d.mu.Unlock() }()
	if answer == nil {
		return "", nil
	}
	return answer(ctx, signal)
}

// set changes what the desk has and answers from now on.
func (d *signalDesk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func signals(n int) []Signal {
	all := make([]Signal, n)
	for i := range all {
		all[i] = Signal{ID: int64(i), Try: 1, Signal: temporal.Signal{Execution: temporal.Execution{ID: fmt.Sprint("e", i)}}}
	}
	return all
}

// signalling runs a signaler in a bubble.
func signalling(t *testing.T,
	test func(d *signalDesk, s *Signaler, saw map[string]int, log *logtest.Book, stop func())) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, log, saw := &signalDesk{}, &logtest.Book{}, map[string]int{}
		s := &Signaler{Store: d, Temporal: d, Wake: make(chan struct{}, 1), Log: slog.New(log),
			Saw: func(outcome string, signals int, _ time.Duration) { saw[outcome] += signals }}
		stop := looptest.Run(t, s.Run)
		synctest.Wait()
		test(d, s, saw, log, stop)
	})
}

func TestSignalsAreSentTogetherAndSettled(t *testing.T) {
	signalling(t, func(d *signalDesk, s *Signaler, saw map[string]int, _ *logtest.Book, _ func()) {
		require.Equal(t, []int{mostSending}, d.room, "what was sent while nobody ran")
		looptest.Pass(time.Hour)
		require.Len(t, d.room, 1, "nothing is open, and nobody looks")
		d.due = signals(100)
		d.answer = func(context.Context, temporal.Signal) (string, error) { time.Sleep(time.Millisecond); return "", nil }
		s.Announced(true)
		looptest.Pass(time.Second)
		require.Len(t, d.settled, 100)
		require.Contains(t, d.settled, "0=DELIVERED ")
		require.Equal(t, mostSending, d.most)
		require.Equal(t, map[string]int{"delivered": 100}, saw)
	})
}

func TestASlowSignalDelaysNoOther(t *testing.T) {
	signalling(t, func(d *signalDesk, s *Signaler, _ map[string]int, _ *logtest.Book, _ func()) {
		d.due = signals(100)
		d.answer = func(_ context.Context, signal temporal.Signal) (string, error) {
			if signal.Execution.ID == "e0" {
				time.Sleep(temporal.SignalTimeout)
			}
			return "", nil
		}
		s.Announced(true)
		looptest.Pass(time.Second)
		require.Len(t, d.settled, 99)
	})
}

func TestAWorkflowThatIsBusyHoldsUpNoOther(t *testing.T) {
	signalling(t, func(d *signalDesk, s *Signaler, _ map[string]int, _ *logtest.Book, _ func()) {
		d.due = signals(1)
		d.answer = func(_ context.Context, signal temporal.Signal) (string, error) {
			if signal.Execution.ID == "e0" {
				return "", fmt.Errorf("%w: %w", temporal.ErrAway,
					&serviceerror.ResourceExhausted{Cause: enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW})
			}
			return "", nil
		}
		s.Announced(true)
		synctest.Wait()
		d.set(func() { d.due = signals(2)[1:] })
		s.Announced(true)
		looptest.Pass(signalPause / 10)
		require.Len(t, d.settled, 2)
	})
}

func TestAReplicaThatDoesNotReachTemporalLeavesSignalsToOthers(t *testing.T) {
	signalling(t, func(d *signalDesk, s *Signaler, _ map[string]int, _ *logtest.Book, _ func()) {
		var reached atomic.Bool
		s.Reached = reached.Load
		d.set(func() { d.due = signals(1) })
		s.Announced(true)
		looptest.Pass(10 * signalPause)
		require.Empty(t, d.settled)
		reached.Store(true)
		looptest.Pass(2 * signalPause)
		require.Len(t, d.settled, 1)
	})
}

func TestWhatATryCameToIsSettledAndLogged(t *testing.T) {
	signalling(t, func(d *signalDesk, s *Signaler, saw map[string]int, log *logtest.Book, _ func()) {
		d.due = signals(5)
		d.answer = func(_ context.Context, signal temporal.Signal) (string, error) {
			switch signal.Execution.ID {
			case "e0":
				return "run-2", nil
			case "e1":
				return "", temporal.ErrEnded
			case "e2":
				return "", temporal.As(engine.Permanent, errors.New("too large"))
			case "e3":
				panic("boom")
			}
			return "", errors.New("busy")
		}
		s.Announced(true)
		looptest.Pass(time.Second)
		require.ElementsMatch(t, []string{"0=OPEN run-2", "1=GIVEN_UP workflow had ended", "2=GIVEN_UP too large",
			"3=OPEN panic: boom", "4=OPEN busy"}, d.settled)
		require.Equal(t, map[string]int{"given_up": 2, "failed": 2}, saw)
		messages := log.At(slog.LevelWarn)
		require.ElementsMatch(t, []string{"Gave up a signal", "Gave up a signal", "Cannot deliver a signal; retrying",
			"Cannot deliver a signal; retrying"}, messages)
	})
}

func TestWhileTemporalIsAwayOneSignalASecondIsTried(t *testing.T) {
	signalling(t, func(d *signalDesk, s *Signaler, _ map[string]int, log *logtest.Book, _ func()) {
		d.due = signals(1000)
		away := func(context.Context, temporal.Signal) (string, error) {
			return "", fmt.Errorf("%w: connection refused", temporal.ErrAway)
		}
		d.answer = away
		s.Announced(true)
		looptest.Pass(time.Second / 2)
		tried := len(d.settled)
		require.LessOrEqual(t, tried, mostSending)
		for range 100 {
			s.Announced(true) // those who send go on
			looptest.Pass(signalPause / 10)
		}
		require.InDelta(t, tried+10, len(d.settled), 1)
		require.Len(t, log.Errors(slog.LevelWarn), 1, "one line")
		d.set(func() { d.room = nil })
		looptest.Pass(10 * signalPause)
		d.set(func() { require.Less(t, len(d.room), 50, "nor are there more looks than tries need") })
		d.set(func() { d.answer = nil })
		looptest.Pass(2 * time.Second)
		require.Empty(t, d.due, "then all are sent")
		d.set(func() { d.answer, d.due = away, signals(1) })
		s.Announced(true)
		synctest.Wait()
		require.Len(t, log.Errors(slog.LevelWarn), 2, "another outage has its line")
	})
}

func TestAStartWakesWhereSignalsWait(t *testing.T) {
	signalling(t, func(d *signalDesk, s *Signaler, _ map[string]int, log *logtest.Book, _ func()) {
		for n := range 2 * mostStarted {
			s.Started(fmt.Sprint(n))
		}
		looptest.Pass(time.Hour)
		require.Len(t, d.room, 1, "no signal waits for a start")
		s.Announced(false)
		synctest.Wait()
		require.LessOrEqual(t, len(d.started), mostStarted, "the newest are remembered")
		require.Equal(t, fmt.Sprint(2*mostStarted-1), d.started[len(d.started)-1])

		d.set(func() { d.started, d.waits = nil, true })
		s.Announced(true)
		synctest.Wait()
		s.Started("e1")
		synctest.Wait()
		require.Equal(t, []string{"e1"}, d.started)
		d.set(func() { d.takeErr = func() error { s.Started("e3"); return errors.New("connection refused") } })
		s.Started("e2")
		looptest.Pass(2 * signalPause)
		require.Equal(t, []string{"e1", "e2", "e3"}, d.started, "an error forgets none, and keeps their order")
		require.Equal(t, []string{"connection refused"}, log.Errors(slog.LevelWarn))
	})
}

func TestAReplicaThatStopsLeavesItsSignalsToOthersAtOnce(t *testing.T) {
	signalling(t, func(d *signalDesk, s *Signaler, _ map[string]int, log *logtest.Book, stop func()) {
		d.due = signals(1)
		d.answer = func(ctx context.Context, _ temporal.Signal) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		s.Announced(true)
		synctest.Wait()
		stop()
		synctest.Wait()
		require.Equal(t, []string{"0=OPEN "}, d.settled)
		require.Empty(t, log.At(slog.LevelWarn))
	})
}

// stopping runs a stopper in a bubble.
func stopping(t *testing.T, test func(r *requests, wake func(), log *logtest.Book)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, log, bell := &requests{calls: &troubletest.Calls{}}, &logtest.Book{}, make(chan struct{}, 1)
		looptest.Run(t, (&Stopper{Store: r, Temporal: r, Wake: bell, Log: slog.New(log)}).Run)
		synctest.Wait()
		test(r, func() { bell <- struct{}{}; looptest.Pass(time.Second / 2) }, log)
	})
}

func TestARequestIsCarriedOutAtOnceAndOnce(t *testing.T) {
	stopping(t, func(r *requests, wake func(), log *logtest.Book) {
		require.Equal(t, 1, r.takes, "requests made while no replica ran")
		looptest.Pass(time.Hour)
		require.Equal(t, 1, r.takes, "no polling without open requests")
		r.stops = []stopRow{{Stop: temporal.Stop{Execution: temporal.Execution{ID: "e1"}, How: "CANCEL", RequestedBy: "ann"}},
			{Stop: temporal.Stop{Execution: temporal.Execution{ID: "e2"}, How: "TERMINATE"}}}
		wake()
		require.Equal(t, []string{"e1 CANCEL", "e2 TERMINATE"}, r.received)
		require.Equal(t, [][]string{{""}, {""}}, [][]string{r.stops[0].problems, r.stops[1].problems}, "each is settled once")
		looptest.Pass(time.Hour)
		require.Equal(t, 2, r.asked)
		require.Equal(t, 3, r.takes, "one more look finds no open request")
		require.Equal(t, "ann", log.Value("Asked Temporal to stop an execution", "requested_by"))
	})
}

func TestARequestIsRepeatedUntilTemporalHasTakenIt(t *testing.T) {
	stopping(t, func(r *requests, wake func(), log *logtest.Book) {
		r.stops = []stopRow{{Stop: temporal.Stop{Execution: temporal.Execution{ID: "e1"}, How: "TERMINATE"}}}
		r.refuses = func(asked int) error {
			switch {
			case asked == 1:
				panic("boom")
			case asked < 12:
				return errors.New("connection refused")
			}
			return nil
		}
		wake()
		looptest.Pass(11 * takenFor)
		require.Equal(t, 12, r.asked)
		require.Equal(t, []string{"e1 TERMINATE"}, r.received)
		require.Equal(t, "panic: boom,"+strings.Repeat("connection refused,", 10), strings.Join(r.stops[0].problems, ","))
		require.Equal(t, []string{"panic: boom", "connection refused"}, log.Errors(slog.LevelWarn), "each is logged once")
	})
}

func TestADatabaseThatIsAwayIsAskedAgain(t *testing.T) {
	stopping(t, func(r *requests, wake func(), log *logtest.Book) {
		r.away = errors.New("connection refused")
		wake()
		looptest.Pass(3 * stopPause)
		require.Equal(t, 5, r.takes)
		require.Equal(t, []string{"connection refused"}, log.Errors(slog.LevelWarn))
	})
}
