package telemetry

import (
	"net"
	nethttp "net/http"
	"sync"
	"time"
)

// connections bounds the open connections of a server. Beyond the bound, each new connection closes another: the one
// idle longest or, if none is idle, the one with the oldest request. So probes are answered however many connections a
// client holds.
type connections struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]connection
}

// connection is the state of a connection and the time since it is in that state.
type connection struct {
	asks  bool
	since time.Time
}

// changed is the server's ConnState hook.
func (c *connections) changed(conn net.Conn, state nethttp.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == nethttp.StateClosed || state == nethttp.StateHijacked {
		delete(c.open, conn)
		return
	}
	if c.open == nil {
		c.open = map[net.Conn]connection{}
	}
	if state == nethttp.StateNew && len(c.open) >= c.most {
		c.closeOne()
	}
	if _, known := c.open[conn]; known || state == nethttp.StateNew { // otherwise closeOne closed it
		c.open[conn] = connection{state == nethttp.StateActive, time.Now()}
	}
}

func (c *connections) closeOne() {
	var victim net.Conn
	for conn, candidate := range c.open {
		best := c.open[victim]
		if victim == nil || best.asks && !candidate.asks || best.asks == candidate.asks &&
			candidate.since.Before(best.since) {
			victim = conn
		}
	}
	if victim != nil {
		_ = victim.Close() // its request, if any, fails
		delete(c.open, victim)
	}
}
