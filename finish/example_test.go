package finish_test

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/finish"
)

func Example() {
	var pool *pgxpool.Pool // on pgdispatch's database, with synchronous_commit = off

	reporter := finish.New(&complete.Postgres{DB: pool}, slog.Default())
	options := client.Options{ConnectionOptions: client.ConnectionOptions{
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(reporter.Intercept)},
	}}
	_ = options // pass these options to the worker's client

	// Blocks until ctx is cancelled; run it beside the worker.
	run := func(ctx context.Context) error { return reporter.Run(ctx) }
	_ = run
}
