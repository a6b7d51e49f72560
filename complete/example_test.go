package complete_test

import (
	"context"
	"log/slog"

	"github.com/pgdispatch/pgdispatch/complete"
)

func ExampleWatcher() {
	var store *complete.Postgres // on a connection pool
	var waiter complete.Waiter   // describes executions in Temporal

	watcher := &complete.Watcher{
		Store:      store,
		Ends:       store,
		Waiter:     waiter,
		MaxWatches: 1000,
		Freed:      func() {}, // wakes the dispatcher
		Log:        slog.Default(),
	}
	// Blocks until ctx is cancelled. Meanwhile, watcher.Watch adds started executions.
	run := func(ctx context.Context) error { return watcher.Run(ctx) }
	_ = run
}
