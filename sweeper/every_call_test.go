package sweeper

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/internal/troubletest"
	"github.com/pgdispatch/pgdispatch/notify"
)

// estate has the rows that the components of this package look after, by the rules of their statements, and the pollers
// and workflow tasks of Temporal. One of the calls meets a trouble.
type estate struct {
	calls *troubletest.Calls
	log   logtest.Book
	began time.Time

	mu             sync.Mutex
	leases, starts []time.Time   // when they expire; to be before when
	overdue        time.Duration // how late one of them was swept at most
	untold, found  int           // items in answers of which the dispatcher has not been told; how often it was told
	ahead, brings  int           // stored times that are ahead; how often they were brought back
	finished       int
	deletes        []time.Duration
	turn           time.Time
	stalls         map[string]bool
	well           bool // whether every queue is polled and every task succeeds
}

func (e *estate) do(call string, effect func()) error {
	return e.calls.Do(call, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		effect()
	})
}

// sweep removes times that have passed.
func (e *estate) sweep(times *[]time.Time, atMost int) (swept int) {
	*times = slices.DeleteFunc(*times, func(at time.Time) bool {
		if at.After(time.Now()) || swept == atMost {
			return false
		}
		swept, e.overdue = swept+1, max(e.overdue, time.Since(at))
		return true
	})
	return swept
}

func (e *estate) Sweep(_ context.Context, atMost int) (swept Swept, err error) {
	err = e.do("sweep", func() {
		swept = Swept{Now: time.Now(), OldestOpen: 100, Housework: true}
		swept.Requeued, swept.Late = e.sweep(&e.leases, atMost), e.sweep(&e.starts, atMost)
		for _, at := range slices.Concat(e.leases, e.starts) {
			if next := time.Until(at); swept.NextExpiryIn == nil || next < *swept.NextExpiryIn {
				swept.NextExpiryIn = &next
			}
		}
		switch at := time.Since(e.began); {
		case at > time.Minute:
			swept.OldestOpen = 107
		case at > 30*time.Second:
			swept.NotifyQueue = 0.5
		}
	})
	if err != nil {
		return Swept{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.untold += swept.Requeued
	return swept, nil
}

func (e *estate) Housekeep(context.Context) (map[string]string, error) {
	return nil, e.do("keep house", func() {})
}

func (e *estate) BringBack(_ context.Context, atMost int) (brought Brought, err error) {
	err = e.do("bring back", func() {
		e.brings++
		brought = Brought{Times: min(e.ahead, atMost), More: e.ahead >= atMost, OpenTo: 101}
		e.ahead -= brought.Times
	})
	if err != nil {
		return Brought{}, err
	}
	return brought, nil
}

func (e *estate) QueueHolder(context.Context) (*notify.Holder, error) {
	return nil, e.do("find holder", func() {})
}

func (e *estate) DeleteFinished(_ context.Context, atMost int) (deleted Deleted, err error) {
	err = e.do("delete", func() {
		e.deletes = append(e.deletes, time.Since(e.began))
		deleted.Items, deleted.More = min(e.finished, atMost), e.finished >= atMost
		e.finished -= deleted.Items
	})
	if err != nil {
		return Deleted{}, err
	}
	return deleted, nil
}

func (e *estate) StallTurn(_ context.Context, often, _ time.Duration,
	_ int) (queues []StalledQueue, mine bool, err error) {
	err = e.do("take turn", func() {
		if mine = time.Since(e.turn) >= often; !mine {
			return
		}
		e.turn = time.Now()
		for _, of := range []temporal.TaskQueue{{Name: "orders"}, {Name: "typo"}, {Namespace: "shop", Name: "shoes"}} {
			queues = append(queues, StalledQueue{TaskQueue: of, Executions: 1})
		}
	})
	if err != nil {
		return nil, false, err
	}
	return queues, mine, nil
}

func (e *estate) StallPick(context.Context, time.Duration, []StalledQueue, int) (open []temporal.Execution, err error) {
	err = e.do("pick", func() {
		open = []temporal.Execution{{ID: "e1"}, {ID: "e2"}, {ID: "e3", Namespace: "shop"}}
	})
	return open, err
}

func (e *estate) StallRecord(_ context.Context, idle []StalledQueue, asked []string, failing []Stall,
	silent []string) (changes []StallChange, err error) {
	err = e.do("record", func() {
		for name := range e.stalls {
			of, queue, isQueue := strings.Cut(name, "/")
			known := isQueue && !slices.Contains(silent, of)
			if known && !slices.ContainsFunc(idle, func(q StalledQueue) bool { return q.Name == queue }) ||
				slices.Contains(asked, name) {
				delete(e.stalls, name)
			}
		}
		for _, q := range idle {
			e.stalls[q.Namespace+"/"+q.Name] = true
		}
		for _, f := range failing {
			e.stalls[f.Name] = true
		}
	})
	return changes, err
}

func (e *estate) Polled(_ context.Context, queue temporal.TaskQueue) (polled bool, err error) {
	err = e.do("ask for pollers", func() { polled = e.well || queue.Name == "orders" })
	return polled, err
}

func (e *estate) TaskAttempt(_ context.Context, of temporal.Execution) (attempt int, err error) {
	err = e.do("ask for a task", func() {
		if attempt = 1; !e.well && of.ID != "e1" {
			attempt = failingAttempts
		}
	})
	return attempt, err
}

// after lets time pass, and looks at the rows.
func (e *estate) after(d time.Duration, look func()) {
	looptest.Pass(d)
	e.mu.Lock()
	defer e.mu.Unlock()
	look()
}

// said are the lines that say that a call has failed.
var said = map[string]string{"sweep": "Cannot sweep", "bring back": "Cannot bring back stored times",
	"delete": "Cannot delete finished items", "keep house": "Part of the upkeep fails part=housekeeping"}

// inTrouble runs a component over an estate, one of whose calls may meet a trouble. The trouble is logged at most once.
func inTrouble(t *testing.T, component func(e *estate) func(context.Context) error,
	test func(t *testing.T, e *estate)) {
	t.Helper()
	t.Parallel()
	troubletest.Each(t, func(t *testing.T, calls *troubletest.Calls) {
		e := &estate{calls: calls, began: time.Now(), stalls: map[string]bool{}}
		stop := looptest.Run(t, component(e))
		test(t, e)
		stop()
		for _, level := range []slog.Level{slog.LevelWarn, slog.LevelError} {
			require.LessOrEqual(t, len(e.log.Errors(level)), 1)
		}
		if line, logged := said[calls.Troubled()]; logged {
			require.Contains(t, e.log.Lines(), "ERROR "+line+" error="+troubletest.Err.Error())
		}
	})
}

func TestWhicheverCallFailsAllThatIsDueIsSwept(t *testing.T) {
	inTrouble(t, func(e *estate) func(context.Context) error {
		for n := range 2*batch + 7 {
			e.leases = append(e.leases, e.began.Add(time.Duration(n/1000)*25*time.Second))
		}
		e.starts = append(e.starts, e.began, e.began.Add(12*time.Second))
		e.ahead = bringBatch + 1
		s := &Sweeper{Store: e, Interval: 10 * time.Second, Log: slog.New(&e.log), Found: func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.untold, e.found = 0, e.found+1
		}}
		return s.Run
	}, func(t *testing.T, e *estate) {
		e.after(55*time.Second, func() { e.ahead++ }) // by a transaction that was open when the clock was set back
		brings := 0
		e.after(35*time.Second, func() {
			require.Empty(t, e.leases)
			require.Empty(t, e.starts)
			require.LessOrEqual(t, e.overdue, 10*time.Second+maxJitter)
			require.Zero(t, e.ahead)
			require.Zero(t, e.untold)
			told := 0
			for _, line := range e.log.Lines() {
				if strings.Contains(line, "INFO Recovered ") || strings.Contains(line, "WARN Brought back ") {
					told++
				}
			}
			require.Equal(t, e.found, told, "what the dispatcher is told of is logged")
			require.Contains(t, fmt.Sprint(e.log.At(slog.LevelInfo)), "notification queue has room again")
			brings = e.brings
		})
		e.after(time.Hour, func() { require.Equal(t, brings, e.brings, "nothing is brought back for nothing") })
	})
}

func TestWhicheverCallFailsAllThatHasFinishedIsDeleted(t *testing.T) {
	inTrouble(t, func(e *estate) func(context.Context) error {
		e.finished = 2*deleteBatch + 7
		r := &Retention{Store: e, Interval: 10 * time.Second, Log: slog.New(&e.log)}
		return r.Run
	}, func(t *testing.T, e *estate) {
		e.after(11*time.Second, func() { require.Zero(t, e.finished) })
		e.after(time.Minute, func() { require.LessOrEqual(t, len(e.deletes), 3+7, "a pass for each interval") })
	})
}

func TestWhicheverCallFailsTheSameStallsAreRecorded(t *testing.T) {
	inTrouble(t, func(e *estate) func(context.Context) error {
		d := &Detector{Store: e, Temporal: e, Interval: time.Minute, Age: time.Minute, Log: slog.New(&e.log)}
		return d.Run
	}, func(t *testing.T, e *estate) {
		e.after(2*time.Minute, func() {
			require.Equal(t, []string{"/typo", "e2", "e3", "shop/shoes"}, slices.Sorted(maps.Keys(e.stalls)))
			e.well = true
		})
		e.after(2*time.Minute, func() { require.Empty(t, e.stalls) })
	})
}
