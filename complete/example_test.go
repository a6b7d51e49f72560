package complete_test

import (
	"context"
	"log/slog"

	"github.com/pgdispatch/pgdispatch/complete"
)

func ExampleWatcher() {
	var store *complete.Postgres // on a pool of connections
	var waiter complete.Waiter   // which asks Temporal

	watcher := &complete.Watcher{
		Store:      store,
		Waiter:     waiter,
		MaxWatches: 1000,
		Freed:      func() {}, // wakes the dispatcher
		Log:        slog.Default(),
	}
	// Blocks until ctx is cancelled. Meanwhile, watcher.Watch says what has been started.
	run := func(ctx context.Context) error { return watcher.Run(ctx) }
	_ = run
}
