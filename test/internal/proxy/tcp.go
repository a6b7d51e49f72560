// Package proxy stands between replicas and their servers, and applies network faults to the traffic.
package proxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// dialTimeout bounds one attempt to reach the server.
	dialTimeout = 5 * time.Second
	// chunkBytes is the maximum size of one read.
	chunkBytes = 32 << 10
)

// Policy configures what a proxy does to its traffic. The zero value forwards everything.
type Policy struct {
	// Refuse closes existing and new connections.
	Refuse bool
	// Hole forwards nothing in either direction and closes nothing. Held data is delivered when the hole ends, as TCP
	// would.
	Hole bool
	// OneWay holds the server's data and forwards the client's.
	OneWay bool
	// Label limits Hole, OneWay and DropReplies to Postgres sessions whose application_name contains it. Empty means
	// all sessions.
	Label string
	// Except exempts sessions whose application_name contains it. Empty exempts none.
	Except string
	// Present limits Hole to the connections that exist when the policy is set.
	Present bool
	// Delay delays each piece of data. Jitter adds a random delay of up to its value.
	Delay, Jitter time.Duration
	// Slice splits forwarded data into pieces of this many bytes. Zero disables splitting.
	Slice int
	// DropReplies is how many more answers of the server are dropped. The connection is cut each time: the request has
	// taken effect, but the client does not learn of it.
	DropReplies int
	// DropFrom exempts answers whose first piece has fewer bytes.
	DropFrom int
}

// TCP is a proxy between one replica and one server.
type TCP struct {
	// Address is the address on which it listens.
	Address string

	listener net.Listener

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	target  string
	policy  Policy
	dropped int
	links   map[*link]bool
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	label          string // application_name of the Postgres session
	old            bool   // it existed when the policy was set
	asked          bool   // the client has sent something that the server has not answered
	cut            bool
}

// NewTCP starts a proxy for a server. Label means that its clients are Postgres sessions, which send an
// application_name.
func NewTCP(target string) (*TCP, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &TCP{Address: listener.Addr().String(), listener: listener, target: target, links: map[*link]bool{}}
	p.changed = sync.NewCond(&p.mu)
	go p.accept()
	return p, nil
}

// Close stops the proxy and its connections.
func (p *TCP) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cutAll()
	p.mu.Unlock()
	return p.listener.Close()
}

// Set changes the policy, also for existing connections.
func (p *TCP) Set(policy Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policy = policy
	for l := range p.links {
		l.old = true
	}
	if policy.Refuse {
		p.cutAll()
	}
	p.changed.Broadcast()
}

// SetTarget moves the address to another server, as a failover does. It cuts connections to the old server.
func (p *TCP) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.cutAll()
	p.changed.Broadcast()
}

// Cut closes the existing connections. New ones are accepted.
func (p *TCP) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAll()
	p.changed.Broadcast()
}

// Dropped returns how many answers were dropped so far.
func (p *TCP) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// cutAll requires the lock.
func (p *TCP) cutAll() {
	for l := range p.links {
		l.close()
		delete(p.links, l)
	}
}

// close requires the proxy's lock.
func (l *link) close() {
	l.cut = true
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *TCP) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

func (p *TCP) serve(client net.Conn) {
	p.mu.Lock()
	// A hole in the network does not answer a startup message either. A hole for some sessions only lets new
	// connections in.
	for p.policy.Hole && !p.policy.Present && p.policy.Label == "" && p.policy.Except == "" && !p.closed {
		p.changed.Wait()
	}
	refuse, target := p.policy.Refuse || p.closed, p.target
	p.mu.Unlock()
	if refuse {
		_ = client.Close()
		return
	}
	server, err := net.DialTimeout("tcp", target, dialTimeout)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	if p.closed || p.policy.Refuse || p.target != target {
		l.close()
		p.mu.Unlock()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	go p.pump(l, client, server, true)
	p.pump(l, server, client, false)
}

// pump forwards one side's data until either side has ended.
func (p *TCP) pump(l *link, from, to net.Conn, fromClient bool) {
	buffer := make([]byte, chunkBytes)
	for first := fromClient; ; first = false {
		n, err := from.Read(buffer)
		if n > 0 {
			if first {
				p.introduce(l, buffer[:n])
			}
			if !p.pass(l, buffer[:n], to, fromClient) {
				break
			}
		}
		if err != nil {
			break
		}
	}
	p.mu.Lock()
	l.close()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *TCP) introduce(l *link, greeting []byte) {
	label := applicationName(greeting)
	p.mu.Lock()
	l.label = label
	p.mu.Unlock()
}

// pass applies the policy to one piece of data. It returns false if the connection is over.
func (p *TCP) pass(l *link, piece []byte, to io.Writer, fromClient bool) bool {
	p.mu.Lock()
	for !l.cut && p.concerns(l) && (p.policy.Hole || p.policy.OneWay && !fromClient) {
		p.changed.Wait()
	}
	if l.cut {
		p.mu.Unlock()
		return false
	}
	if fromClient {
		l.asked = true
	} else if p.policy.DropReplies > 0 && len(piece) >= p.policy.DropFrom && l.asked && l.label != "" && p.concerns(l) {
		p.policy.DropReplies--
		p.dropped++
		p.mu.Unlock()
		return false
	} else {
		l.asked = false
	}
	policy := p.policy
	p.mu.Unlock()

	if wait := policy.Delay; wait > 0 || policy.Jitter > 0 {
		if policy.Jitter > 0 {
			wait += rand.N(policy.Jitter)
		}
		time.Sleep(wait)
	}
	size := len(piece)
	if policy.Slice > 0 {
		size = policy.Slice
	}
	for len(piece) > 0 {
		n := min(size, len(piece))
		if _, err := to.Write(piece[:n]); err != nil {
			return false
		}
		piece = piece[n:]
	}
	return true
}

// concerns requires the lock.
func (p *TCP) concerns(l *link) bool {
	return (l.old || !p.policy.Present) && strings.Contains(l.label, p.policy.Label) &&
		(p.policy.Except == "" || !strings.Contains(l.label, p.policy.Except))
}
