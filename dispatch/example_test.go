package dispatch_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch"
)

func ExampleDispatcher() {
	var store *claim.Store       // on a connection pool
	var starter dispatch.Starter // starts workflows in Temporal

	wake := &dispatch.Wakeups{}
	dispatcher := &dispatch.Dispatcher{
		Store:        store,
		Starter:      starter,
		Workers:      10,
		Lease:        30 * time.Second,
		StartTimeout: 5 * time.Second,
		DrainTimeout: 20 * time.Second,
		Wake:         wake,
		Log:          slog.Default(),
	}
	// Blocks until ctx is cancelled and work in flight has ended.
	run := func(ctx context.Context) error { return dispatcher.Run(ctx) }

	// A row was inserted.
	wake.Notified("")
	_ = run
}
