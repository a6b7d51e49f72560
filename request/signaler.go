package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// SignalStore is the part of the store that Signaler needs.
type SignalStore interface {
	TakeSignals(ctx context.Context, settled []SettledSignal, started []string, atMost int) (TakenSignals, error)
}

const (
	// mostSending limits the signals that are sent at once, each of another execution.
	mostSending = 16
	// mostStarted limits the started executions that are remembered. The store finds the others within seconds.
	mostStarted = 1000
	// signalPause is the delay after an error of the store, and between tries while Temporal does not answer.
	signalPause = time.Second
	// leastPause is the shortest time between two settles.
	leastPause = 10 * time.Millisecond
	// lastSettle limits the last settle of a stopping replica.
	lastSettle = 2 * time.Second
)

// Signaler delivers signals to workflows. Each execution's signals are sent one after another: a signal that is not
// accepted keeps back those behind it, and no other execution's. Set the fields before Run and do not change them
// afterwards.
type Signaler struct {
	Store    SignalStore
	Temporal interface {
		Signal(ctx context.Context, signal temporal.Signal) (continues string, err error)
	}
	// Reached reports whether this replica reaches Temporal. While it does not, it leaves the signals to others. If nil,
	// Temporal is assumed to be reachable.
	Reached func() bool
	// Wake makes the signaler look for signals. Its capacity is 1.
	Wake chan struct{}
	// Saw is called with each outcome: delivered, failed or given_up, the number of signals, and the time from when a
	// delivered signal was sent. It must not block. Nil disables it.
	Saw func(outcome string, signals int, took time.Duration)
	Log *slog.Logger

	mu sync.Mutex
	// waits means that signals may wait for a workflow's start.
	waits, announced bool
	started          []string

	// Only Run uses the fields below.
	results   chan sent
	sending   sync.WaitGroup
	underway  int
	settled   []SettledSignal
	probeAt   time.Time // when to try again while Temporal does not answer; zero if it does
	complaint attempt.Complaint
}

// sent is the outcome of a try.
type sent struct {
	signal    Signal
	continues string
	err       error
	took      time.Duration
}

// Announced says that signals were sent. If look is false, another replica looks for them, and this one only for those
// of executions that it has started.
func (s *Signaler) Announced(look bool) {
	s.mu.Lock()
	s.waits, s.announced = true, true
	look = look || len(s.started) > 0
	s.mu.Unlock()
	if look {
		s.wake()
	}
}

// Started says that this replica has started an execution, for which signals may wait. It does not block.
func (s *Signaler) Started(executionID string) {
	s.mu.Lock()
	if len(s.started) >= mostStarted {
		s.started = append(s.started[:0], s.started[mostStarted/2:]...)
	}
	s.started = append(s.started, executionID)
	waits := s.waits
	s.mu.Unlock()
	if waits {
		s.wake()
	}
}

func (s *Signaler) wake() {
	select {
	case s.Wake <- struct{}{}:
	default:
	}
}

// Run delivers signals until ctx is cancelled, then returns nil.
func (s *Signaler) Run(ctx context.Context) error {
	s.results = make(chan sent, mostSending)
	again := time.NewTimer(0) // look at once, for signals sent while no replica was running
	for {
		select {
		case <-ctx.Done():
			s.settleInFlight(context.WithoutCancel(ctx))
			return nil
		case <-s.Wake:
		case <-again.C:
		case one := <-s.results:
			s.collect(ctx, one)
		}
		for more := true; more; {
			select {
			case one := <-s.results:
				s.collect(ctx, one)
			default:
				more = false
			}
		}
		if pause := s.settleAndSend(ctx, s.room()); pause >= 0 {
			again.Reset(pause)
		}
	}
}

// room returns how many signals to send now. While Temporal does not answer, one is tried at a time.
func (s *Signaler) room() int {
	switch {
	case s.Reached != nil && !s.Reached():
		return 0
	case s.probeAt.IsZero():
		return mostSending - s.underway
	case s.underway > 0 || time.Now().Before(s.probeAt):
		return 0
	}
	return 1
}

// settleAndSend settles what was sent, and sends what is due. It returns when to do so again. A negative duration means
// not before a wake-up or a result.
func (s *Signaler) settleAndSend(ctx context.Context, room int) time.Duration {
	s.mu.Lock()
	started := s.started
	s.started, s.announced = nil, false
	s.mu.Unlock()
	taken, err := s.Store.TakeSignals(ctx, s.settled, started, room)
	s.mu.Lock()
	if err != nil {
		s.started, s.waits = append(started, s.started...), true
	} else {
		s.waits = taken.Waits || s.announced
	}
	again := err == nil && s.waits && len(s.started) > 0
	s.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			s.complain(ctx, err, "Cannot take signals; retrying")
		}
		return signalPause
	}
	if again {
		s.wake()
	}
	s.settled = nil
	for _, g := range taken.GivenUp {
		s.saw("given_up", g.Signals, 0)
		s.Log.WarnContext(ctx, "Gave up signals", "execution_id", g.ExecutionID, "signals", g.Signals, "reason", g.Reason)
	}
	for _, signal := range taken.Now {
		s.send(ctx, signal)
	}
	switch {
	case taken.Next == nil || s.underway == mostSending:
		return -1
	case s.Reached != nil && !s.Reached():
		return signalPause
	case !s.probeAt.IsZero():
		return max(time.Until(s.probeAt), leastPause)
	}
	return max(*taken.Next, leastPause)
}

func (s *Signaler) send(ctx context.Context, signal Signal) {
	s.underway++
	took := time.Now()
	s.sending.Go(func() {
		one := sent{signal: signal}
		one.err = attempt.Contain(ctx, func(ctx context.Context) (err error) {
			one.continues, err = s.Temporal.Signal(ctx, signal.Signal)
			return err
		})
		one.took = signal.Waited + time.Since(took)
		s.results <- one
	})
}

// collect notes the outcome of a try, to be settled by the next settleAndSend.
func (s *Signaler) collect(ctx context.Context, one sent) {
	s.underway--
	settle := SettledSignal{ID: one.signal.ID, Try: one.signal.Try, Outcome: signalOpen, RunID: one.continues}
	if ctx.Err() == nil || one.err == nil { // otherwise it was interrupted, and another replica tries at once
		s.judge(ctx, one, &settle)
	}
	s.probeAt = time.Time{}
	if errors.Is(one.err, temporal.ErrAway) && temporal.Classify(one.err) != engine.Busy {
		s.probeAt = time.Now().Add(signalPause)
	}
	s.settled = append(s.settled, settle)
}

// judge decides what a try's error means.
func (s *Signaler) judge(ctx context.Context, one sent, settle *SettledSignal) {
	id, name := one.signal.Execution.ID, one.signal.Name
	switch {
	case one.err == nil && one.continues != "":
	case one.err == nil:
		settle.Outcome = signalDelivered
		s.complaint.Over()
		s.saw("delivered", 1, one.took)
		s.Log.DebugContext(ctx, "Delivered a signal", "execution_id", id, "name", name)
	case errors.Is(one.err, temporal.ErrEnded), temporal.Classify(one.err) == engine.Permanent:
		settle.Outcome, settle.Error = signalGivenUp, one.err.Error()
		s.saw("given_up", 1, 0)
		s.Log.WarnContext(ctx, "Gave up a signal", "execution_id", id, "name", name, "error",
			postgres.Clean(one.err.Error()))
	default:
		settle.Error = one.err.Error()
		s.saw("failed", 1, 0)
		s.complain(ctx, one.err, "Cannot deliver a signal; retrying", "execution_id", id)
	}
}

// settleInFlight settles what is being sent, so that another replica goes on at once.
func (s *Signaler) settleInFlight(ctx context.Context) {
	s.sending.Wait()
	close(s.results)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for one := range s.results {
		s.collect(cancelled, one)
	}
	if len(s.settled) == 0 {
		return
	}
	ctx, cancel = context.WithTimeoutCause(ctx, lastSettle, fmt.Errorf("last settle timed out after %s", lastSettle))
	defer cancel()
	if _, err := s.Store.TakeSignals(ctx, s.settled, nil, 0); err != nil {
		s.complain(ctx, err, "Cannot settle signals; another replica repeats them")
	}
}

func (s *Signaler) saw(outcome string, signals int, took time.Duration) {
	if s.Saw != nil {
		s.Saw(outcome, signals, took)
	}
}

func (s *Signaler) complain(ctx context.Context, err error, what string, about ...any) {
	if s.complaint.IsNew(err) {
		s.Log.WarnContext(ctx, what, append(about, "error", err)...)
	}
}
