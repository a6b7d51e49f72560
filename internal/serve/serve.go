// Package serve runs HTTP servers with a bounded number of connections.
package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run serves on listener until ctx is cancelled, then returns nil. Requests in flight get stopTimeout to finish. Bound
// says what happens beyond mostConnections.
func Run(ctx context.Context, server *http.Server, listener net.Listener, mostConnections int,
	stopTimeout time.Duration) error {
	Bound(server, mostConnections)
	var g errgroup.Group
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			_ = server.Close() // cuts off requests in flight
		}
		return nil
	})
	return g.Wait()
}
