package sweeper_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/pgdispatch/pgdispatch/sweeper"
)

func ExampleSweeper() {
	var store *sweeper.Postgres // on a connection pool

	s := &sweeper.Sweeper{
		Store:    store,
		Interval: 5 * time.Second,
		Found:    func() {}, // wakes the dispatcher
		Log:      slog.Default(),
	}
	run := func(ctx context.Context) error { return s.Run(ctx) } // blocks until ctx is cancelled
	_ = run
}
