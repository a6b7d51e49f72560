package admin

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// dial connects, and sends text.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", address)).In(t)
	t.Cleanup(func() { conn.Close() })
	must.Get(io.WriteString(conn, text)).In(t)
	return conn
}

func TestProbesAnswerHoweverManyConnectionsAreHeld(t *testing.T) {
	t.Parallel()
	address := serving(t, &Server{})
	var held []net.Conn
	for range mostConnections {
		held = append(held, dial(t, address, ""), dial(t, address, "GET /livez HTTP/1.1\r\nHost: x\r\n"),
			dial(t, address, "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"))
	}
	client := http.Client{Timeout: 5 * time.Second}
	answer := must.Get(client.Get("http://" + address + "/livez")).In(t)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, held[0].SetReadDeadline(time.Now().Add(headerTimeout/2)))
	_, err := held[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the connection open for longest is closed")
}

func TestABodyThatDoesNotComeEndsItsRequest(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	server := httptest.NewServer(boundBody(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}), 20*time.Millisecond))
	defer server.Close()
	dial(t, server.Listener.Addr().String(), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
	require.Error(t, <-read)
}

func TestAnAnswerThatNobodyReadsIsGivenUp(t *testing.T) {
	t.Parallel()
	a := &Server{Metrics: prometheus.NewRegistry(), Health: NewHealth(""), Log: quiet()}
	server := a.server(t.Context())
	require.Equal(t, writeTimeout, server.WriteTimeout)
	server.WriteTimeout = 20 * time.Millisecond
	wrote := make(chan error, 1)
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := fmt.Fprint(w, "line after line, and nobody reads them\n"); err != nil {
				wrote <- err
				return
			}
		}
	})
	listener := must.Get(Listen(t.Context(), "127.0.0.1:0")).In(t)
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	dial(t, listener.Addr().String(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Error(t, <-wrote)
}
