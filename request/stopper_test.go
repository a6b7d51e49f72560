package request

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// stopDesk is the store of stop requests and Temporal, for a synctest bubble.
type stopDesk struct {
	mu       sync.Mutex
	open     []temporal.Stop
	takes    int
	takeErr  error
	asked    []string
	answer   error
	settled  []string // execution=problem
	panicked bool
}

func (d *stopDesk) TakeStops(context.Context, int) ([]temporal.Stop, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.takes++
	return d.open, len(d.open) > 0, d.takeErr
}

func (d *stopDesk) StopDone(_ context.Context, stop temporal.Stop, problem string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = append(d.settled, stop.ID+"="+problem)
	if problem == "" {
		d.open = nil
	}
	return nil
}

func (d *stopDesk) Stop(_ context.Context, stop temporal.Stop) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, stop.How+" "+stop.ID)
	if d.panicked {
		panic("boom")
	}
	return d.answer
}

// answers changes Temporal's answer from now on.
func (d *stopDesk) answers(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.panicked, d.answer = false, err
}

// stopping runs a stopper in a bubble.
func stopping(t *testing.T, test func(d *stopDesk, wake func(), log *logtest.Book)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, log, bell := &stopDesk{}, &logtest.Book{}, make(chan struct{}, 1)
		s := &Stopper{Store: d, Temporal: d, Wake: bell, Log: slog.New(log)}
		stop := run(t, s.Run)
		test(d, func() { bell <- struct{}{}; synctest.Wait() }, log)
		stop()
	})
}

func TestARequestIsCarriedOutAtOnceAndOnce(t *testing.T) {
	stopping(t, func(d *stopDesk, wake func(), log *logtest.Book) {
		require.Equal(t, 1, d.takes, "requests made while no replica ran")
		pass(time.Hour)
		require.Equal(t, 1, d.takes, "no polling without open requests")
		d.open = []temporal.Stop{{Execution: temporal.Execution{ID: "e1"}, How: "CANCEL", RequestedBy: "ann"}}
		wake()
		require.Equal(t, []string{"CANCEL e1"}, d.asked)
		require.Equal(t, []string{"e1="}, d.settled)
		pass(time.Hour)
		require.Equal(t, []string{"CANCEL e1"}, d.asked)
		require.Equal(t, 3, d.takes, "one more look finds no open request")
		require.Equal(t, []string{"Asked Temporal to stop an execution"}, log.At(slog.LevelInfo))
	})
}

func TestARequestIsRepeatedUntilTemporalHasTakenIt(t *testing.T) {
	stopping(t, func(d *stopDesk, wake func(), log *logtest.Book) {
		d.open = []temporal.Stop{{Execution: temporal.Execution{ID: "e1"}, How: "TERMINATE"}}
		d.panicked = true
		wake()
		d.answers(errors.New("connection refused"))
		pass(10*stopPause + stopPause/2)
		d.answers(nil)
		pass(stopPause)
		require.Len(t, d.asked, 12)
		require.Equal(t, "e1=panic: boom", d.settled[0])
		require.Equal(t, "e1=connection refused", d.settled[1])
		require.Equal(t, "e1=", d.settled[11])
		errs := log.Errors(slog.LevelWarn)
		require.Equal(t, []string{"panic: boom", "connection refused"}, errs, "each error is logged once")
	})
}

func TestADatabaseThatIsAwayIsAskedAgain(t *testing.T) {
	stopping(t, func(d *stopDesk, wake func(), log *logtest.Book) {
		d.takeErr = errors.New("connection refused")
		wake()
		pass(3*stopPause + stopPause/2)
		require.Equal(t, 5, d.takes)
		require.Equal(t, []string{"connection refused"}, log.Errors(slog.LevelWarn))
	})
}
