package complete_test

import (
	"context"
	"log/slog"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/complete"
)

func ExampleWatcher() {
	var store *claim.Store       // on a pool of connections
	var service complete.Service // of Temporal's client: client.WorkflowService()

	watcher := &complete.Watcher{
		Store:      store,
		Waiter:     &complete.TemporalWaiter{Service: service, Namespace: "default"},
		MaxWatches: 1000,
		Freed:      func() {}, // wakes the dispatcher
		Log:        slog.Default(),
	}
	// Blocks until ctx is cancelled. Meanwhile, watcher.Watch says what has been started.
	run := func(ctx context.Context) error { return watcher.Run(ctx) }
	_ = run
}
