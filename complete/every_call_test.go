package complete

import (
	"context"
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
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/internal/troubletest"
)

// visibleAfter is how long after its close a workflow is in Temporal's lists.
const visibleAfter = 2 * time.Second

// office has the rows of executions, by the rules of the store's statements, and their workflows, which close at a time
// of their own. One of the calls meets a trouble.
type office struct {
	calls *troubletest.Calls

	mu       sync.Mutex
	rows     map[string]*executionRow
	order    []string
	listed   time.Time // the newest close time that a turn has listed
	wideAt   time.Time
	freed    int
	lastCall time.Time
}

type executionRow struct {
	closes  time.Time
	watcher string // nobody, or this replica
	lost    bool   // this replica took it, and does not know
	asked   time.Time
	outcome string
	after   time.Duration // from its close until its end was recorded
}

const nobody, self = "", "self"

func (o *office) do(call string, effect func()) error {
	return o.calls.Do(call, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.lastCall = time.Now()
		effect()
	})
}

// those returns the running executions for which a condition holds.
func (o *office) those(atMost int, hold func(id string, row *executionRow) bool) (list []temporal.Execution) {
	for _, id := range o.order {
		if row := o.rows[id]; row.outcome == "" && len(list) < atMost && hold(id, row) {
			list = append(list, temporal.Execution{ID: id, RunID: "run-" + id})
		}
	}
	return list
}

func (o *office) Adopt(_ context.Context, atMost int, watching []string) (list []temporal.Execution, err error) {
	err = o.do("adopt", func() {
		list = o.those(atMost, func(id string, row *executionRow) bool {
			return row.watcher == nobody || row.watcher == self && !slices.Contains(watching, id)
		})
		for _, e := range list {
			o.rows[e.ID].watcher = self
		}
	})
	for _, e := range list {
		o.rows[e.ID].lost = err != nil
	}
	return orNone(list, err)
}

// orNone returns nothing with an error.
func orNone(list []temporal.Execution, err error) ([]temporal.Execution, error) {
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (o *office) SwapWatches(context.Context, int) (taken []temporal.Execution, dropped []string, err error) {
	return nil, nil, o.do("swap", func() {})
}

func (o *office) GiveUpWatches(_ context.Context, executions []string) error {
	return o.do("give up", func() {
		for _, e := range o.those(len(o.rows), func(id string, row *executionRow) bool {
			return row.watcher == self && (executions == nil || slices.Contains(executions, id))
		}) {
			o.rows[e.ID].watcher = nobody
		}
	})
}

func (o *office) OpenAmong(_ context.Context, executions []string) (list []temporal.Execution, err error) {
	err = o.do("open among", func() {
		list = o.those(len(o.rows), func(id string, _ *executionRow) bool { return slices.Contains(executions, id) })
	})
	return orNone(list, err)
}

func (o *office) OpenUnder(context.Context, string, []string) ([]temporal.Execution, error) {
	return nil, nil
}

func (o *office) Silent(_ context.Context, atMost int, after time.Duration) (list []temporal.Execution, err error) {
	err = o.do("silent", func() {
		list = o.those(atMost, func(_ string, row *executionRow) bool {
			return row.watcher == nobody && time.Since(row.asked) >= after
		})
		for _, e := range list {
			o.rows[e.ID].asked = time.Now()
		}
	})
	return orNone(list, err)
}

func (o *office) CloseTurns(_ context.Context, _, wide time.Duration) (turns []Turn, err error) {
	err = o.do("take turn", func() {
		unwatched := len(o.those(1, func(_ string, row *executionRow) bool { return row.watcher == nobody })) > 0
		turn := Turn{Namespace: "default", Wide: time.Since(o.wideAt) >= wide, Since: o.listed}
		if turn.Wide {
			turn.Since = o.listed.Add(-time.Minute)
		}
		if unwatched || turn.Wide {
			turns = append(turns, turn)
		}
	})
	if err != nil {
		return nil, err
	}
	return turns, nil
}

func (o *office) CloseDone(_ context.Context, turn Turn, newest time.Time) error {
	return o.do("end turn", func() {
		if newest.After(o.listed) {
			o.listed = newest
		}
		if turn.Wide {
			o.wideAt = time.Now()
		}
	})
}

func (o *office) finish(id, outcome string) bool {
	row := o.rows[id]
	first := row.outcome == ""
	if first {
		row.outcome, row.after = outcome, time.Since(row.closes)
	}
	return first
}

func (o *office) Finish(_ context.Context, id, outcome, _, _ string) (first bool, err error) {
	err = o.do("finish", func() { first = o.finish(id, outcome) })
	return first && err == nil, err
}

func (o *office) FinishAll(_ context.Context, ends []Ended) (first map[string]bool, err error) {
	err = o.do("finish all", func() {
		first = map[string]bool{}
		for _, end := range ends[1:] { // the first is locked
			first[end.ExecutionID] = o.finish(end.ExecutionID, end.Outcome)
		}
	})
	if err != nil {
		return nil, err
	}
	return first, nil
}

// ended returns how an execution has ended, if it has.
func (o *office) ended(id string) (end temporal.End, ended bool) {
	if row := o.rows[id]; row != nil && !time.Now().Before(row.closes) {
		return temporal.End{Outcome: "COMPLETED"}, true
	}
	return temporal.End{}, false
}

func (o *office) Wait(ctx context.Context, e temporal.Execution) (temporal.End, error) {
	var closes time.Time
	if err := o.do("wait", func() { closes = o.rows[e.ID].closes }); err != nil {
		return temporal.End{}, fmt.Errorf("%w: %w", temporal.ErrAway, err)
	}
	select {
	case <-ctx.Done():
		return temporal.End{}, ctx.Err()
	case <-time.After(time.Until(closes)):
		return temporal.End{Outcome: "COMPLETED"}, nil
	}
}

func (o *office) Closed(_ context.Context, of temporal.Range, _ []byte) (page temporal.Page, err error) {
	err = o.do("list", func() {
		page.Runs = map[string]string{}
		for _, id := range o.order {
			closes := o.rows[id].closes
			if time.Since(closes) < visibleAfter || closes.Before(of.Since) {
				continue
			}
			page.ExecutionIDs, page.Runs[id] = append(page.ExecutionIDs, id), "run-"+id
			if closes.After(page.Newest) {
				page.Newest = closes
			}
		}
	})
	if err != nil {
		return temporal.Page{}, fmt.Errorf("%w: %w", temporal.ErrAway, err)
	}
	return page, nil
}

func (o *office) Look(_ context.Context, e temporal.Execution) (end temporal.End, ended bool, err error) {
	err = o.do("look", func() { end, ended = o.ended(e.ID) })
	return end, ended && err == nil, err
}

func (o *office) Ended(_ context.Context, e temporal.Execution) (end temporal.End, ended bool, err error) {
	err = o.do("ask", func() { end, ended = o.ended(e.ID) })
	return end, ended && err == nil, err
}

// add adds an execution whose workflow closes after that time.
func (o *office) add(watcher string, after time.Duration) temporal.Execution {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := fmt.Sprint("e", len(o.order))
	o.rows[id] = &executionRow{watcher: watcher, closes: time.Now().Add(after), asked: time.Now()}
	o.order = append(o.order, id)
	return temporal.Execution{ID: id, RunID: "run-" + id}
}

// findsAllEnds runs the watcher, the recorder of ends and the reconciler, one of whose calls may meet a trouble, and
// checks that every execution ends in time, that its slot is told to be free, and that nothing is watched or asked
// afterwards. No sweep tells the watcher what it has missed.
func findsAllEnds(t *testing.T, calls *troubletest.Calls) {
	o := &office{calls: calls, rows: map[string]*executionRow{}, listed: time.Now(), wideAt: time.Now()}
	book := &logtest.Book{}
	log := slog.New(book)
	ends := NewEnds(o, nil)
	freed := func() { o.mu.Lock(); o.freed++; o.mu.Unlock() }
	w := &Watcher{Store: o, Ends: ends, Waiter: o, MaxWatches: 3, Grace: 3 * time.Second, Freed: freed, Log: log}
	r := &Reconciler{Store: o, Ends: ends, Temporal: o, Interval: 5 * time.Second, Freed: freed, Log: log,
		Open: func() (open, unwatched bool) {
			o.mu.Lock()
			defer o.mu.Unlock()
			all := func(string, *executionRow) bool { return true }
			return len(o.those(1, all)) > 0, w.Wants()
		}}
	o.add(nobody, 35*time.Second) // a dead replica left it
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{ends.Run, w.Run, r.Run} {
		running.Go(func() { _ = run(ctx) })
	}
	synctest.Wait()
	w.Watch(o.add(self, 40*time.Second))
	w.Watch(o.add(self, 40*time.Second))
	w.Watch(o.add(self, 6*time.Second))  // no room
	w.Watch(o.add(self, 55*time.Second)) // no room at first
	w.WatchLater(o.add(self, 20*time.Second).ID)
	looptest.Pass(45 * time.Second)
	w.WatchLater(o.add(self, 15*time.Second).ID)
	looptest.Pass(2 * time.Minute)
	calls.Over()
	for _, id := range o.order {
		row := o.rows[id]
		require.Equal(t, "COMPLETED", row.outcome, id)
		within := visibleAfter + r.Interval + 2*failurePause
		if row.lost { // until the next wide list, as no sweep says here that it is not watched
			within += wideInterval
		}
		require.LessOrEqual(t, row.after, within, id)
	}
	require.GreaterOrEqual(t, o.freed, len(o.order)-1, "an end whose answer is lost is announced by the database")
	require.Zero(t, w.Watching())
	require.Zero(t, w.Waiting())
	last := o.lastCall
	looptest.Pass(time.Hour)
	require.Equal(t, last, o.lastCall, "nothing is open, and nothing is asked")
	cancel()
	running.Wait()
	switch calls.Troubled() {
	case "adopt", "swap":
		require.Contains(t, book.At(slog.LevelError), "Cannot find executions to watch")
	case "wait":
		require.Empty(t, book.At(slog.LevelWarn), "an outage of Temporal is logged elsewhere")
	}
}

func TestWhicheverCallFailsEveryEndIsFound(t *testing.T) {
	t.Parallel()
	troubletest.Each(t, findsAllEnds)
}
