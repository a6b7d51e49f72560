package telemetry

import (
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// dial connects, and sends text.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

func TestProbesAnswerHoweverManyConnectionsAreHeld(t *testing.T) {
	t.Parallel()
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	a := &Admin{Listener: listener, Metrics: prometheus.NewRegistry(), Health: NewHealth(""), Log: quiet()}
	go func() { _ = a.Run(t.Context()) }()
	address := listener.Addr().String()
	var held []net.Conn
	for range mostConnections {
		held = append(held, dial(t, address, ""), dial(t, address, "GET /livez HTTP/1.1\r\nHost: x\r\n"),
			dial(t, address, "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"))
	}
	client := nethttp.Client{Timeout: 5 * time.Second}
	answer, err := client.Get("http://" + address + "/livez")
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, nethttp.StatusOK, answer.StatusCode)
	require.NoError(t, held[0].SetReadDeadline(time.Now().Add(headerTimeout/2)))
	_, err = held[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the connection open for longest is closed")
}

func TestTheIdlestConnectionMakesRoom(t *testing.T) {
	t.Parallel()
	c := &connections{most: 3}
	conns := make([]net.Conn, 5)
	for n := range conns {
		conns[n], _ = net.Pipe()
	}
	isOpen := func(n int) bool { _, open := c.open[conns[n]]; return open }
	c.changed(conns[0], nethttp.StateNew)
	c.changed(conns[0], nethttp.StateActive)
	c.changed(conns[1], nethttp.StateNew)
	c.changed(conns[2], nethttp.StateNew)
	c.changed(conns[1], nethttp.StateActive)
	c.changed(conns[1], nethttp.StateIdle)
	c.changed(conns[3], nethttp.StateNew)
	require.False(t, isOpen(2), "the oldest connection without a request is closed")
	require.True(t, isOpen(0))
	c.changed(conns[2], nethttp.StateActive)
	require.False(t, isOpen(2), "a closed connection does not come back")
	c.changed(conns[1], nethttp.StateActive)
	c.changed(conns[3], nethttp.StateActive)
	c.changed(conns[4], nethttp.StateNew)
	require.False(t, isOpen(0), "its request is the oldest")
	c.changed(conns[4], nethttp.StateClosed)
	require.Len(t, c.open, 2)
}

func TestABodyThatDoesNotComeEndsItsRequest(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	server := httptest.NewServer(boundBody(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}), 20*time.Millisecond))
	defer server.Close()
	dial(t, server.Listener.Addr().String(), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
	require.Error(t, <-read)
}

func TestAnAnswerThatNobodyReadsIsGivenUp(t *testing.T) {
	t.Parallel()
	a := &Admin{Metrics: prometheus.NewRegistry(), Health: NewHealth(""), Log: quiet()}
	server := a.server(t.Context())
	require.Equal(t, writeTimeout, server.WriteTimeout)
	server.WriteTimeout = 20 * time.Millisecond
	wrote := make(chan error, 1)
	server.Handler = nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		for {
			if _, err := fmt.Fprint(w, "line after line, and nobody reads them\n"); err != nil {
				wrote <- err
				return
			}
		}
	})
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	dial(t, listener.Addr().String(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Error(t, <-wrote)
}
