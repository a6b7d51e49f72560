package notify_test

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/notify"
)

func ExampleListener() {
	var store *claim.Store // its Ping goes through a pool, and so another connection

	bell := make(chan string, 1)
	listener := &notify.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			config, err := pgx.ParseConfig(os.Getenv("DATABASE_URL"))
			if err != nil {
				return nil, err
			}
			config.DialFunc = notify.Dialer()
			return pgx.ConnectConfig(ctx, config)
		},
		Ring: func(string) {
			select {
			case bell <- "notification":
			default: // it rings already
			}
		},
		Ping:         store,
		PingInterval: 2 * time.Second,
		PingTimeout:  3 * time.Second,
		Name:         "replica_1",
		Log:          slog.Default(),
	}
	run := func(ctx context.Context) error { return listener.Run(ctx) } // blocks until ctx is cancelled
	_ = run
}
