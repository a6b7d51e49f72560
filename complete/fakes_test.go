package complete

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// post is a watcher for a synctest bubble. By default nothing is adopted and everything completes after a second. All
// times count from the creation of the post.
type post struct {
	*Watcher
	t     *testing.T
	log   logtest.Book
	began time.Time

	onAdopt  func(atMost int, watching []string) ([]temporal.Execution, error)
	onSwap   func(atMost int) ([]temporal.Execution, []string, error)
	onGiveUp func(executions []string) error
	onFinish func(executionID string) (bool, error)
	onOpen   func(executions []string) ([]temporal.Execution, error)
	onWait   func(ctx context.Context, execution temporal.Execution) (temporal.End, error)

	mu   sync.Mutex
	book notes
}

func (p *post) Watch(executionID, runID string) {
	p.Watcher.Watch(temporal.Execution{ID: executionID, RunID: runID})
}

// notes records the calls of the fakes.
type notes struct {
	adopts   []adoptCall
	swaps    []int // the limit given
	givenUp  []giveUpCall
	finished []string // execution=outcome
	waits    int
	now      int // current waits
	most     int // maximum of concurrent waits
	freed    int
}

// giveUpCall gives up executions; nil: all.
type giveUpCall struct {
	at         time.Duration
	executions []string
}

type adoptCall struct {
	at       time.Duration
	atMost   int
	watching []string
}

func bubble(t *testing.T, test func(t *testing.T, p *post)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &post{t: t, began: time.Now()}
		p.Watcher = &Watcher{
			Store: fakeStore{p}, Ends: fakeStore{p}, Waiter: fakeWaiter{p}, MaxWatches: 10,
			Freed: func() { p.note(func(r *notes) { r.freed++ }) },
			Log:   slog.New(&p.log),
		}
		test(t, p)
	})
}

// run runs the watcher until the test ends, or until stop cancels it and waits for its return.
func (p *post) run() (stop func()) {
	stop = looptest.Run(p.t, p.Run)
	synctest.Wait()
	return stop
}

func (p *post) now() time.Duration { return time.Since(p.began) }

func (p *post) note(change func(*notes)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.book)
}

func (p *post) seen() notes {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.book
	seen.adopts, seen.finished = slices.Clone(seen.adopts), slices.Clone(seen.finished)
	seen.swaps, seen.givenUp = slices.Clone(seen.swaps), slices.Clone(seen.givenUp)
	return seen
}

type fakeStore struct{ *post }

func (f fakeStore) Adopt(_ context.Context, atMost int, watching []string) ([]temporal.Execution, error) {
	slices.Sort(watching)
	f.note(func(r *notes) { r.adopts = append(r.adopts, adoptCall{f.now(), atMost, watching}) })
	if f.onAdopt != nil {
		return f.onAdopt(atMost, watching)
	}
	return nil, nil
}

func (f fakeStore) SwapWatches(_ context.Context, atMost int) ([]temporal.Execution, []string, error) {
	f.note(func(r *notes) { r.swaps = append(r.swaps, atMost) })
	if f.onSwap != nil {
		return f.onSwap(atMost)
	}
	return nil, nil, nil
}

func (f fakeStore) GiveUpWatches(_ context.Context, executions []string) error {
	slices.Sort(executions)
	f.note(func(r *notes) { r.givenUp = append(r.givenUp, giveUpCall{f.now(), executions}) })
	if f.onGiveUp != nil {
		return f.onGiveUp(executions)
	}
	return nil
}

func (f fakeStore) OpenAmong(_ context.Context, executions []string) ([]temporal.Execution, error) {
	if f.onOpen != nil {
		return f.onOpen(executions)
	}
	return nil, nil
}

func (f fakeStore) Finish(_ context.Context, executionID, outcome, _, _ string) (bool, error) {
	f.note(func(r *notes) { r.finished = append(r.finished, executionID+"="+outcome) })
	if f.onFinish != nil {
		return f.onFinish(executionID)
	}
	return true, nil
}

type fakeWaiter struct{ *post }

func (f fakeWaiter) Wait(ctx context.Context, execution temporal.Execution) (temporal.End, error) {
	f.note(func(r *notes) { r.waits++; r.now++; r.most = max(r.most, r.now) })
	defer f.note(func(r *notes) { r.now-- })
	if f.onWait != nil {
		return f.onWait(ctx, execution)
	}
	select {
	case <-ctx.Done():
		return temporal.End{}, ctx.Err()
	case <-time.After(time.Second):
		return temporal.End{Outcome: "COMPLETED"}, nil
	}
}
