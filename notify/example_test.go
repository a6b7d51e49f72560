package notify_test

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/notify"
)

func ExampleListener() {
	var pool *pgxpool.Pool // used for pings, and so on another connection

	bell := make(chan string, 1)
	listener := &notify.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			config, err := pgx.ParseConfig(os.Getenv("DATABASE_URL"))
			if err != nil {
				return nil, err
			}
			return pgx.ConnectConfig(ctx, config)
		},
		Ring: func(string) {
			select {
			case bell <- "notification":
			default: // a ring is already pending
			}
		},
		Ping:         &notify.PoolPinger{DB: pool},
		PingInterval: 2 * time.Second,
		PingTimeout:  3 * time.Second,
		Name:         "replica_1",
		Log:          slog.Default(),
	}
	run := func(ctx context.Context) error { return listener.Run(ctx) } // blocks until ctx is cancelled
	_ = run
}
