package serve

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// opened returns a server's bound and n connections that it does not know yet.
func opened(most, n int) (*connections, []net.Conn) {
	conns := make([]net.Conn, n)
	for n := range conns {
		conns[n], _ = net.Pipe()
	}
	return &connections{most: most, open: map[net.Conn]connection{}}, conns
}

func (c *connections) has(conn net.Conn) bool { _, open := c.open[conn]; return open }

func TestTheIdlestConnectionMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, conns := opened(3, 5)
		c.changed(conns[0], http.StateNew)
		c.changed(conns[0], http.StateActive)
		c.changed(conns[1], http.StateNew)
		time.Sleep(newGrace)
		c.changed(conns[2], http.StateNew)
		c.changed(conns[2], http.StateActive)
		c.changed(conns[2], http.StateIdle)
		c.changed(conns[3], http.StateNew)
		require.False(t, c.has(conns[1]), "the oldest connection without a request is closed")
		require.True(t, c.has(conns[0]))
		c.changed(conns[1], http.StateActive)
		require.False(t, c.has(conns[1]), "a closed connection does not come back")
		c.changed(conns[2], http.StateActive)
		c.changed(conns[4], http.StateNew)
		require.False(t, c.has(conns[0]), "its request is the oldest")
		c.changed(conns[4], http.StateClosed)
		require.Len(t, c.open, 2)
	})
}

// Otherwise the next connection of a flood would close each new one before its request arrives.
func TestANewConnectionHasTimeToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, conns := opened(2, 4)
		c.changed(conns[0], http.StateNew)
		c.changed(conns[0], http.StateActive)
		time.Sleep(time.Millisecond)
		c.changed(conns[1], http.StateNew)
		c.changed(conns[2], http.StateNew)
		require.True(t, c.has(conns[1]))
		require.False(t, c.has(conns[0]), "its request is older")
		time.Sleep(newGrace)
		c.changed(conns[2], http.StateActive)
		c.changed(conns[3], http.StateNew)
		require.False(t, c.has(conns[1]), "it did not ask")
	})
}

func TestAKeptConnectionStaysOpen(t *testing.T) {
	t.Parallel()
	server := &http.Server{}
	Bound(server, 1)
	_, conns := opened(1, 3)
	kept := server.ConnContext(context.Background(), conns[0])
	server.ConnState(conns[0], http.StateNew)
	server.ConnState(conns[0], http.StateActive)
	release := Keep(kept)
	isOpen := func(conn net.Conn) bool { return conn.SetReadDeadline(time.Time{}) == nil }
	server.ConnState(conns[1], http.StateNew)
	require.False(t, isOpen(conns[1]), "the new one is closed instead")
	require.True(t, isOpen(conns[0]))
	release()
	server.ConnState(conns[2], http.StateNew)
	require.False(t, isOpen(conns[0]), "it makes room again")
	Keep(context.Background())() // a test's request has no connection
}
