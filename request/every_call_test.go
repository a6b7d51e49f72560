package request

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/internal/troubletest"
)

// takenFor is how long what one replica has taken is left to it.
const takenFor = 15 * time.Second

// requests are the rows of signals and stop requests, and Temporal, which knows the requests that it has received. One
// of the calls meets a trouble.
type requests struct {
	calls *troubletest.Calls

	mu       sync.Mutex
	signals  []signalRow
	stops    []stopRow
	takes    int
	away     error           // of takes of stop requests
	asked    int             // to stop
	refuses  func(int) error // the nth time
	received []string        // by Temporal: the requests of signals and stops, each once
}

type signalRow struct {
	Signal
	outcome string
	due     time.Time
}

type stopRow struct {
	temporal.Stop
	due      time.Time
	done     bool
	problems []string
}

func (r *requests) TakeSignals(_ context.Context, settled []SettledSignal, _ []string,
	atMost int) (taken TakenSignals, err error) {
	err = r.calls.Do("take signals", func() { taken = r.takeSignals(settled, atMost) })
	if err != nil {
		return TakenSignals{}, err
	}
	return taken, nil
}

func (r *requests) takeSignals(settled []SettledSignal, atMost int) (taken TakenSignals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes++
	for _, s := range settled {
		row := &r.signals[s.ID]
		if row.Try != s.Try || row.outcome != signalOpen { // fenced
			continue
		}
		if row.outcome, row.due = s.Outcome, time.Now(); s.Error != "" {
			row.due = time.Now().Add(signalPause)
		}
	}
	kept := map[string]bool{} // the executions of which an earlier signal is open
	for n := range r.signals {
		row := &r.signals[n]
		if row.outcome != signalOpen || kept[row.Execution.ID] {
			continue
		}
		kept[row.Execution.ID] = true
		if !time.Now().Before(row.due) && len(taken.Now) < atMost {
			row.Try, row.due = row.Try+1, time.Now().Add(takenFor)
			taken.Now = append(taken.Now, row.Signal)
		}
		if next := max(time.Until(row.due), 0); taken.Next == nil || next < *taken.Next {
			taken.Next = &next
		}
	}
	return taken
}

func (r *requests) Signal(_ context.Context, signal temporal.Signal) (string, error) {
	return "", r.calls.Do("signal", func() { r.receive(signal.RequestID) })
}

// receive notes a request, unless Temporal knows it.
func (r *requests) receive(request string) {
	time.Sleep(10 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.received, request) {
		r.received = append(r.received, request)
	}
}

func (r *requests) TakeStops(_ context.Context, atMost int) (stops []temporal.Stop, open bool, err error) {
	err = r.calls.Do("take stops", func() { stops, open = r.takeStops(atMost) })
	if err = cmp.Or(err, r.away); err != nil {
		return nil, false, err
	}
	return stops, open, nil
}

func (r *requests) takeStops(atMost int) (stops []temporal.Stop, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes++
	for n := range r.stops {
		row := &r.stops[n]
		open = open || !row.done
		if !row.done && !time.Now().Before(row.due) && len(stops) < atMost {
			row.due = time.Now().Add(takenFor)
			stops = append(stops, row.Stop)
		}
	}
	return stops, open
}

func (r *requests) Stop(_ context.Context, stop temporal.Stop) error {
	r.mu.Lock()
	r.asked++
	asked := r.asked
	r.mu.Unlock()
	if r.refuses != nil {
		if err := r.refuses(asked); err != nil {
			return err
		}
	}
	return r.calls.Do("stop", func() { r.receive(stop.ID + " " + stop.How) })
}

func (r *requests) StopDone(_ context.Context, stop temporal.Stop, problem string) error {
	return r.calls.Do("settle stop", func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for n := range r.stops {
			if row := &r.stops[n]; row.ID == stop.ID {
				row.done, row.problems = problem == "", append(row.problems, problem)
			}
		}
	})
}

// runInTrouble runs a component, one of whose calls may meet a trouble, and checks that Temporal has received what is
// wanted, each execution's requests in their order, and that the component then rests.
func runInTrouble(t *testing.T, r *requests, component func(context.Context) error, want []string) {
	t.Helper()
	looptest.Run(t, component)
	looptest.Pass(4 * takenFor)
	r.calls.Over()
	slices.SortStableFunc(r.received, func(a, b string) int { return int(a[0]) - int(b[0]) })
	require.Equal(t, want, r.received)
	takes := r.takes
	require.Less(t, takes, 100, "it waits until something is due")
	looptest.Pass(time.Hour)
	require.Equal(t, takes, r.takes, "nothing is open, and nobody looks")
}

func TestWhicheverCallFailsEverySignalArrivesInOrder(t *testing.T) {
	t.Parallel()
	troubletest.Each(t, func(t *testing.T, calls *troubletest.Calls) {
		r, want := &requests{calls: calls}, []string{}
		for e := range 3 {
			for n := range 3 {
				id := fmt.Sprintf("%c%d", 'a'+e, n)
				r.signals = append(r.signals, signalRow{outcome: signalOpen, Signal: Signal{ID: int64(len(r.signals)),
					Signal: temporal.Signal{Execution: temporal.Execution{ID: id[:1]}, RequestID: id}}})
				want = append(want, id)
			}
		}
		delivered := 0
		s := &Signaler{Store: r, Temporal: r, Wake: make(chan struct{}, 1), Log: slog.New(&logtest.Book{}),
			Saw: func(outcome string, signals int, _ time.Duration) {
				if outcome == "delivered" {
					delivered += signals
				}
			}}
		runInTrouble(t, r, s.Run, want)
		require.Equal(t, len(want), delivered, "each counts once")
		require.Zero(t, s.underway)
	})
}

func TestWhicheverCallFailsEveryStopArrives(t *testing.T) {
	t.Parallel()
	troubletest.Each(t, func(t *testing.T, calls *troubletest.Calls) {
		r := &requests{calls: calls}
		for _, id := range []string{"a", "b", "c"} {
			r.stops = append(r.stops, stopRow{Stop: temporal.Stop{Execution: temporal.Execution{ID: id}, How: "CANCEL"}})
		}
		s := &Stopper{Store: r, Temporal: r, Wake: make(chan struct{}, 1), Log: slog.New(&logtest.Book{})}
		runInTrouble(t, r, s.Run, []string{"a CANCEL", "b CANCEL", "c CANCEL"})
	})
}
