package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// firstWait is the pause before the second look of a Waiter. Each pause is half as long again as the one before, up
	// to longestWait, or longestDeaf without notifications.
	firstWait   = 20 * time.Millisecond
	longestWait = 10 * time.Second
	longestDeaf = 2 * time.Second
)

// Waiter waits for the ends of items.
type Waiter struct {
	Store *Store
	// Connect opens a connection for LISTEN, outside of any pool.
	Connect func(ctx context.Context) (*pgx.Conn, error)
}

// Run returns when all items have ended or are gone, or with the cause of the end of ctx. It listens if ends are
// notified, and also looks at growing intervals, because a notification may be missed.
func (w *Waiter) Run(ctx context.Context, items []Item) error {
	settings, err := w.Store.Settings(ctx)
	if err != nil {
		return err
	}
	var heard <-chan struct{} // nil: nothing is received
	if settings.NotifyEnded {
		listening, stop := context.WithCancel(ctx)
		conn, err := w.listen(listening)
		if err == nil {
			done := make(chan struct{})
			heard = notifications(listening, conn, items, done)
			defer func() { stop(); <-done }()
		}
		defer stop()
	}
	open := make([]int64, len(items))
	for n, item := range items {
		open[n] = item.ID
	}
	for pause := firstWait; ; pause += pause / 2 {
		open, err = postgres.Values[int64](ctx, w.Store.DB, "read open items", sql.Text("items_open"), open)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || len(open) == 0:
			return err
		}
		pause = min(pause, longestWait)
		if heard == nil {
			pause = min(pause, longestDeaf)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case _, alive := <-heard:
			if !alive {
				heard = nil // the connection is lost
			}
		}
		timer.Stop()
	}
}

func (w *Waiter) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := w.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, sql.Text("listen_ended")); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("listen: %w", err)
	}
	return conn, nil
}

// notifications returns a channel that receives a value after each notification of one of the items, and is closed when
// the connection is lost. When ctx ends it closes the connection, then done.
func notifications(ctx context.Context, conn *pgx.Conn, items []Item, done chan<- struct{}) <-chan struct{} {
	heard := make(chan struct{}, 1)
	go func() {
		defer close(done)
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		defer close(heard)
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return
			}
			if slices.ContainsFunc(items, func(i Item) bool { return strings.Contains(n.Payload, i.ExecutionID) }) {
				select {
				case heard <- struct{}{}:
				default:
				}
			}
		}
	}()
	return heard
}
