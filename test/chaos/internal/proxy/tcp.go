// Package proxy stands between replicas and what they talk to, and does to the traffic what networks do.
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
	// chunkBytes is how much is read at a time.
	chunkBytes = 32 << 10
)

// Policy is what a proxy does to its traffic. The zero value passes everything on.
type Policy struct {
	// Refuse closes connections that are there and those that come.
	Refuse bool
	// Hole passes nothing on in either direction, and closes nothing. What was sent meanwhile is delivered when it ends,
	// as TCP would.
	Hole bool
	// OneWay holds back what the server says, and passes on what it is told.
	OneWay bool
	// Label limits Hole, OneWay and DropReplies to Postgres sessions whose application_name contains it; empty: all.
	Label string
	// Except spares sessions whose application_name contains it; empty: none.
	Except string
	// Present limits Hole to connections that are there when the policy is set.
	Present bool
	// Delay holds each piece back, and Jitter up to so much longer.
	Delay, Jitter time.Duration
	// Slice cuts what is passed on into pieces of so many bytes; 0: as it comes.
	Slice int
	// DropReplies swallows so many more answers of the server, and cuts the connection each time: what was asked for has
	// been done, and nobody hears of it.
	DropReplies int
	// DropFrom spares answers whose first piece has fewer bytes.
	DropFrom int
}

// TCP is a proxy of one replica for one server.
type TCP struct {
	// Address is where it listens.
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
	label          string // application_name of a Postgres session
	old            bool   // it was there when the policy was set
	asked          bool   // the client has said something that the server has not answered
	cut            bool
}

// NewTCP starts a proxy for a server. Label says whether its clients are Postgres sessions, which introduce themselves.
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

// Close ends the proxy and its connections.
func (p *TCP) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cutAll()
	p.mu.Unlock()
	return p.listener.Close()
}

// Set changes the policy, for connections that are there as well.
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

// SetTarget moves the address to another server, as a failover does. Connections to the old one are cut.
func (p *TCP) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.cutAll()
	p.changed.Broadcast()
}

// Cut closes the connections that are there; new ones are welcome.
func (p *TCP) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAll()
	p.changed.Broadcast()
}

// Dropped is how many answers were swallowed so far.
func (p *TCP) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// cutAll is called with the lock held.
func (p *TCP) cutAll() {
	for l := range p.links {
		l.close()
		delete(p.links, l)
	}
}

// close is called with the proxy's lock held.
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
	// A hole in the network answers no greeting either; one that concerns some sessions only lets others in.
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

// pump passes on what one side says until it, or the other, has ended.
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

// pass does to one piece what the policy says. False: the connection is over.
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

// concerns is called with the lock held.
func (p *TCP) concerns(l *link) bool {
	return (l.old || !p.policy.Present) && strings.Contains(l.label, p.policy.Label) && (p.policy.Except == "" || !strings.Contains(l.label, p.policy.Except))
}
