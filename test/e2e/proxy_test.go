package e2e

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy forwards bytes between clients and a server until a test stops it.
type proxy struct {
	address, server string

	mu      sync.Mutex
	refuses bool
	frozen  bool
	conns   map[net.Conn]bool
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: listener.Addr().String(), server: server, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close(); p.down() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.serve(conn)
		}
	}()
	return p
}

// down cuts all connections and refuses new ones.
func (p *proxy) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = true
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// up forwards bytes again.
func (p *proxy) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = false
}

// freeze accepts bytes without forwarding them; connections stay open.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses {
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	p.conns[client], p.conns[server] = true, true
	go p.pass(client, server)
	go p.pass(server, client)
}

func (p *proxy) pass(from, to net.Conn) {
	_, _ = io.Copy(gate{p, to}, from)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range []net.Conn{from, to} {
		_ = conn.Close()
		delete(p.conns, conn)
	}
}

// gate discards writes while the proxy is frozen.
type gate struct {
	p  *proxy
	to net.Conn
}

func (g gate) Write(b []byte) (int, error) {
	g.p.mu.Lock()
	frozen := g.p.frozen
	g.p.mu.Unlock()
	if frozen {
		return len(b), nil
	}
	return g.to.Write(b)
}
