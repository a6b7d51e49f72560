// Package serve runs HTTP servers with a bounded number of connections.
package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
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

// newGrace is how long a new connection has to begin its first request before it counts as idle.
const newGrace = time.Second

// Bound bounds the open connections of a server. Beyond the bound, each new connection closes another: the one idle
// longest or, if none is idle, the one with the oldest request. So a client that asks at once is answered, however many
// connections others hold.
func Bound(server *http.Server, mostConnections int) {
	open := &connections{most: mostConnections, open: map[net.Conn]connection{}}
	server.ConnState = open.changed
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, keeper{}, func(keep bool) { open.keep(conn, keep) })
	}
}

// Keep keeps the connection of the request with this context open, until release is called.
func Keep(ctx context.Context) (release func()) {
	keep, bounded := ctx.Value(keeper{}).(func(bool))
	if !bounded {
		return func() {}
	}
	keep(true)
	return func() { keep(false) }
}

// keeper is the key of a context's function that sets whether its connection is kept.
type keeper struct{}

type connections struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]connection
}

// connection is the state of a connection and the time since it is in that state.
type connection struct {
	state http.ConnState
	since time.Time
	kept  bool
}

// asks reports whether a request is under way, or may soon be.
func (c connection) asks() bool {
	return c.state == http.StateActive || c.state == http.StateNew && time.Since(c.since) < newGrace
}

// changed is the server's ConnState hook.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.open, conn)
		return
	}
	if state == http.StateNew && len(c.open) >= c.most && !c.closeOne() {
		_ = conn.Close()
		return
	}
	if _, known := c.open[conn]; known || state == http.StateNew { // otherwise it has been closed here
		c.open[conn] = connection{state: state, since: time.Now()}
	}
}

func (c *connections) keep(conn net.Conn, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, known := c.open[conn]; known {
		one.kept = keep
		c.open[conn] = one
	}
}

// closeOne returns false if all connections are kept.
func (c *connections) closeOne() bool {
	var victim net.Conn
	for conn, candidate := range c.open {
		best := c.open[victim]
		if candidate.kept {
			continue
		}
		if victim == nil || best.asks() && !candidate.asks() ||
			best.asks() == candidate.asks() && candidate.since.Before(best.since) {
			victim = conn
		}
	}
	if victim == nil {
		return false
	}
	_ = victim.Close() // its request, if any, fails
	delete(c.open, victim)
	return true
}
