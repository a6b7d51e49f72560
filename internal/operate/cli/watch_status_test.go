package cli

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/process"
)

// fakeView gives preset answers.
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

func (f *fakeView) Overview(context.Context) (operate.Overview, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return operate.Overview{Depth: operate.Depth{Pending: f.waiting}}, f.err
}

func (f *fakeView) ListWorkspaces(context.Context, string, operate.WorkspaceOrder, *operate.WorkspaceKey,
	int) ([]operate.WorkspaceRow, error) {
	return nil, nil
}

func TestTheWatchDrawsAnewWhateverHappensUntilQ(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, out, keys, width := &fakeView{waiting: 1}, &process.Buffer{}, make(chan key), 100
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
		require.Equal(t, 2, strings.Count(out.String(), "waiting 2"), "the previous answer is still shown")
		fake.set(3, nil)
		time.Sleep(time.Second)
		require.Contains(t, out.String(), "waiting 3")
		before := drawn()
		mu.Lock()
		width = 10
		mu.Unlock()
		time.Sleep(2 * resizeInterval)
		require.Equal(t, before+1, drawn(), "a resize redraws at once, without a new query")
		keys <- 'x'
		synctest.Wait()
		require.Empty(t, done)
		keys <- 'q'
		require.NoError(t, <-done)
	})
}

func TestAWatchThatCannotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	w := &watcher{Store: &fakeView{err: errors.New("no such database")}, Interval: time.Second, Out: &process.Buffer{}}
	require.ErrorContains(t, w.Run(t.Context()), "no such database")
}

func TestAWatchWithoutATerminalWritesBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &process.Buffer{}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		require.NoError(t, (&watcher{Store: &fakeView{}, Interval: time.Second, Out: out, Colour: true}).Run(ctx))
		require.Equal(t, 3, strings.Count(out.String(), "WORKSPACE"))
		require.NotContains(t, out.String(), "\x1b")
	})
}
