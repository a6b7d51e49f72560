package replica

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// emptyStore has no executions to adopt.
type emptyStore struct{ complete.Store }

func (emptyStore) Adopt(context.Context, int, []string) ([]temporal.Execution, error) {
	return nil, nil
}

// endless are workflows that do not end.
type endless struct{}

func (endless) Wait(ctx context.Context, _ temporal.Execution) (end temporal.End, err error) {
	<-ctx.Done()
	return end, ctx.Err()
}

func TestReplica_HoldsBackOnlyEndsThatNothingWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &replica{claims: &claim.Store{}, watcher: &complete.Watcher{Store: emptyStore{}, Waiter: endless{},
			MaxWatches: 2, Log: slog.New(slog.DiscardHandler)}}
		looptest.Run(t, r.watcher.Run)
		synctest.Wait()
		r.watcher.WatchSlot("workspace", temporal.Execution{ID: "slot"})
		r.watcher.Watch(temporal.Execution{ID: "key"})
		synctest.Wait()

		require.True(t, r.mayWait("slot"))
		require.False(t, r.mayWait("key"), "others may wait for its limit key")
		require.False(t, r.mayWait("unknown"))
		r.announces.Store(true)
		require.False(t, r.mayWait("slot"), "an application listens")
	})
}
