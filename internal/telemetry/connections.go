package telemetry

import (
	"net"
	nethttp "net/http"
	"sync"
	"time"
)

// connections keeps the open connections of a server within a bound. Beyond it, each new one has another closed: the one that has gone
// longest without a request, else the one whose request is the oldest. So a probe is answered however many connections somebody holds.
type connections struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]connection
}

// connection is what a connection does, and since when.
type connection struct {
	asks  bool
	since time.Time
}

// changed is a server's ConnState.
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
	if _, known := c.open[conn]; known || state == nethttp.StateNew { // else it was closed here
		c.open[conn] = connection{state == nethttp.StateActive, time.Now()}
	}
}

func (c *connections) closeOne() {
	var victim net.Conn
	for conn, candidate := range c.open {
		best := c.open[victim]
		if victim == nil || best.asks && !candidate.asks || best.asks == candidate.asks && candidate.since.Before(best.since) {
			victim = conn
		}
	}
	if victim != nil {
		_ = victim.Close() // its request, if there is one, gets an error
		delete(c.open, victim)
	}
}
