package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

// fakeView answers with what it is told to.
type fakeView struct {
	mu      sync.Mutex
	waiting int64
	err     error
}

func (f *fakeView) set(waiting int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting, f.err = waiting, err
}

func (f *fakeView) Overview(context.Context) (claim.Overview, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return claim.Overview{Depth: claim.Depth{Pending: f.waiting}}, f.err
}

func (f *fakeView) ListWorkspaces(context.Context, string, claim.WorkspaceOrder, *claim.WorkspaceKey, int) ([]claim.WorkspaceRow, error) {
	return nil, nil
}

func TestTheWatchDrawsAnewWhateverHappensUntilQ(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, out, keys, width := &fakeView{waiting: 1}, &logBuffer{}, make(chan byte), 100
		var mu sync.Mutex
		w := &watcher{Store: fake, Interval: time.Second, Out: out, Keys: keys, Size: func() (int, int) {
			mu.Lock()
			defer mu.Unlock()
			return width, 30
		}}
		done := make(chan error, 1)
		go func() { done <- w.Run(t.Context()) }()
		drawn := func() int { return strings.Count(out.String(), "\x1b[H") }
		synctest.Wait()
		require.Equal(t, 1, drawn())
		fake.set(2, nil)
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, 2, drawn())
		require.Contains(t, out.String(), "waiting 2")
		fake.set(0, errors.New("the database is away"))
		time.Sleep(time.Second)
		require.Contains(t, out.String(), "the database is away")
		require.Equal(t, 2, strings.Count(out.String(), "waiting 2"), "what was seen before is still shown")
		fake.set(3, nil)
		time.Sleep(time.Second)
		require.Contains(t, out.String(), "waiting 3")
		before := drawn()
		mu.Lock()
		width = 10
		mu.Unlock()
		time.Sleep(2 * resizeInterval)
		require.Equal(t, before+1, drawn(), "a new size is drawn at once, and without a look")
		keys <- 'x'
		synctest.Wait()
		require.Empty(t, done)
		keys <- 'q'
		require.NoError(t, <-done)
	})
}

func TestAWatchThatCannotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	w := &watcher{Store: &fakeView{err: errors.New("no such database")}, Interval: time.Second, Out: &logBuffer{}}
	require.ErrorContains(t, w.Run(t.Context()), "no such database")
}

func TestAWatchWithoutATerminalWritesBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &logBuffer{}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		require.NoError(t, (&watcher{Store: &fakeView{}, Interval: time.Second, Out: out, Colour: true}).Run(ctx))
		require.Equal(t, 3, strings.Count(out.String(), "WORKSPACE"))
		require.NotContains(t, out.String(), "\x1b")
	})
}

func TestStatusShowsWhatNeedsAttentionFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 2, "card refused")
	d.enqueues()
	_, err := d.replica().Claim(t.Context(), 0) // the lanes learn of it
	require.NoError(t, err)
	d.exec("insert into pgdispatch.workspaces (name) values ($1)", "evil\u202e2J")
	out := d.types("status")
	lines := strings.Split(out, "\n")
	require.Contains(t, lines[0], "NOTHING IS STARTED")
	require.Contains(t, lines[1], "No replica runs")
	require.Contains(t, lines[2], "2 dead letters wait")
	require.Regexp(t, `(?m)^shop +FREE +░{10} +0/5,000 +1 +\d`, out)
	require.NotContains(t, out, "\u202e")
	require.Less(t, strings.Index(out, "shop"), strings.Index(out, "evil"), "who waits longest comes first")
	for args, want := range map[string]string{
		"--sort age":             `--sort is "age": it must be oldest, running, failures or name`,
		"--interval 1ms":         "--interval is 1ms: it must be from 200ms to 1h",
		"--watch --output json":  "--watch draws for people",
		"--limit 0":              "--limit is 0",
		"--sort name --limit -1": "--limit is -1",
	} {
		_, errs, code := d.tries(append([]string{"status"}, strings.Fields(args)...)...)
		require.Equal(t, 1, code)
		require.Contains(t, errs, want)
	}
}
