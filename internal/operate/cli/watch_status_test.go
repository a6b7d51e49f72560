package cli

import (
	"context"
	"errors"
	"io"
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

func TestAWatchThatCannotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	w := &watcher{Store: &fakeView{err: errors.New("no such database")}, Interval: time.Second}
	require.ErrorContains(t, w.Append(t.Context(), io.Discard), "no such database")
	require.ErrorContains(t, w.Draw(t.Context(), nil, nil, nil), "no such database")
}

func TestAWatchWithoutATerminalWritesBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, out := &fakeView{}, &process.Buffer{}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		time.AfterFunc(1500*time.Millisecond, func() { fake.set(0, errors.New("the database is away")) })
		require.NoError(t, (&watcher{Store: fake, Interval: time.Second}).Append(ctx, out))
		require.Equal(t, 3, strings.Count(out.String(), "WORKSPACE"))
		require.Equal(t, 1, strings.Count(out.String(), "the database is away"))
		require.NotContains(t, out.String(), "\x1b")
	})
}
