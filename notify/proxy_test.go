package notify

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy forwards between a client and Postgres. It can silence a connection without closing it, like a broken network
// or a suspended host.
type proxy struct {
	listener net.Listener
	target   string
	// silence reports whether data from a client silences its connection. Nil: never.
	silence func(data []byte) bool

	mu    sync.Mutex
	links []*link
}

type link struct {
	client, server net.Conn
	silent         atomic.Bool
}

// newProxy returns a proxy and the address of the database behind it.
func newProxy(t *testing.T, databaseURL string, silence func([]byte) bool) (*proxy, string) {
	t.Helper()
	address, err := url.Parse(databaseURL)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, target: address.Host, silence: silence}
	var accepting sync.WaitGroup
	accepting.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		for _, l := range p.all() {
			_ = l.client.Close()
			_ = l.server.Close()
		}
	})
	address.Host = listener.Addr().String()
	return p, address.String()
}

func (p *proxy) all() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*link{}, p.links...)
}

// fallSilent silences all present connections. New ones work.
func (p *proxy) fallSilent() {
	for _, l := range p.all() {
		l.silent.Store(true)
	}
}

func (p *proxy) accept() {
	var copying sync.WaitGroup
	for {
		client, err := p.listener.Accept()
		if err != nil {
			break
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.links = append(p.links, l)
		p.mu.Unlock()
		copying.Go(func() { p.copy(l, server, client, p.silence) })
		copying.Go(func() { p.copy(l, client, server, nil) })
	}
}

// copy forwards until one side closes. Data on a silent link is dropped.
func (p *proxy) copy(l *link, to io.WriteCloser, from io.Reader, silence func([]byte) bool) {
	defer to.Close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if silence != nil && silence(buffer[:n]) {
			l.silent.Store(true)
		}
		if l.silent.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
