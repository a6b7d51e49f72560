package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
)

const (
	// headerBytes is the size of a message's type and length, and greetingBytes that of the first message's length.
	headerBytes, greetingBytes = 5, 4
	// longestMessage bounds one message.
	longestMessage = 64 << 20
)

// Statements is a proxy between one replica and Postgres that distinguishes statements, and can stop at each of them.
type Statements struct {
	// Address is the address on which it listens.
	Address string

	listener net.Listener
	target   string
	steps    *Steps

	mu      sync.Mutex
	refuses bool
	links   map[*dialogue]bool
}

// dialogue is one session through the proxy.
type dialogue struct {
	client, server net.Conn
	steps          *Steps
	end            sync.Once
	ended          chan struct{}

	mu    sync.Mutex
	asked []asked // requests under way, oldest first
}

// NewStatements starts a proxy for a Postgres server whose sessions are not encrypted.
func NewStatements(target string, steps *Steps) (*Statements, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy of Postgres: %w", err)
	}
	p := &Statements{Address: listener.Addr().String(), listener: listener, target: target, steps: steps,
		links: map[*dialogue]bool{}}
	go p.accept()
	return p, nil
}

// Close stops the proxy and its sessions.
func (p *Statements) Close() error {
	p.Cut()
	return p.listener.Close()
}

// Cut ends all sessions. What is stopped in them reaches nobody.
func (p *Statements) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
	clear(p.links)
}

// Refuse ends all sessions and accepts no others, or accepts them again.
func (p *Statements) Refuse(refuse bool) {
	p.mu.Lock()
	p.refuses = refuse
	p.mu.Unlock()
	if refuse {
		p.Cut()
	}
}

func (l *dialogue) close() {
	l.end.Do(func() {
		close(l.ended)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

func (p *Statements) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

func (p *Statements) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, dialTimeout)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &dialogue{client: client, server: server, steps: p.steps, ended: make(chan struct{})}
	p.mu.Lock()
	p.links[l] = true
	refuses := p.refuses
	p.mu.Unlock()
	if refuses {
		l.close()
	}
	go func() {
		_ = l.requests()
		l.close()
	}()
	_ = l.answers()
	l.close()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// read reads one message, including its header.
func read(from io.Reader, header int) ([]byte, error) {
	message := make([]byte, header)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(message[header-4:])) - 4
	if length < 0 || length > longestMessage {
		return nil, errors.New("this is no message of Postgres")
	}
	message = append(message, make([]byte, length)...)
	_, err := io.ReadFull(from, message[header:])
	return message, err
}

// requests forwards what the client sends. Messages up to a Sync are one request.
func (l *dialogue) requests() error {
	greeting, err := read(l.client, greetingBytes)
	if err != nil {
		return err
	}
	if _, err := l.server.Write(greeting); err != nil {
		return err
	}
	prepared := map[string]string{}
	var request []byte
	var names []string
	for {
		message, err := read(l.client, headerBytes)
		if err != nil {
			return err
		}
		request = append(request, message...)
		fields := bytes.SplitN(message[headerBytes:], []byte{0}, 3)
		switch kind := message[0]; {
		case kind == 'P' && len(fields) == 3:
			prepared[string(fields[0])] = StatementName(string(fields[1]))
			continue
		case kind == 'B' && len(fields) == 3:
			if name := prepared[string(fields[1])]; name != "" {
				names = append(names, name)
			}
			continue
		case kind == 'D' || kind == 'E' || kind == 'C':
			continue
		case kind == 'Q':
			names = append(names, StatementName(string(fields[0])))
		}
		if kind := message[0]; kind == 'S' || kind == 'Q' {
			a, ok := l.steps.ask(l.ended, strings.Join(names, ", "))
			if !ok {
				return nil
			}
			l.mu.Lock()
			l.asked = append(l.asked, a)
			l.mu.Unlock()
		}
		if _, err := l.server.Write(request); err != nil {
			return err
		}
		request, names = nil, nil
	}
}

// answers forwards what the server sends: an answer as a whole, everything else at once.
func (l *dialogue) answers() error {
	var answer []byte
	for {
		message, err := read(l.server, headerBytes)
		if err != nil {
			return err
		}
		answer = append(answer, message...)
		l.mu.Lock()
		var under asked
		waits := len(l.asked) > 0
		if waits {
			under = l.asked[0]
		}
		if waits && message[0] == 'Z' {
			l.asked = l.asked[1:]
		}
		l.mu.Unlock()
		if waits && message[0] != 'Z' {
			continue
		}
		if waits && !l.steps.answer(l.ended, under) {
			return nil
		}
		if _, err := l.client.Write(answer); err != nil {
			return err
		}
		answer = nil
	}
}

var (
	comments = regexp.MustCompile(`(?m)^\s*--.*$`)
	called   = regexp.MustCompile(`pgdispatch\.(\w+)`)
	verbs    = regexp.MustCompile(`^\s*(with \w+|\w+)`)
)

// Claims begins every statement that claims. They have this one name, because which of them runs depends on what the
// replica remembers. lock begins the statement that goes before one of them in the same request, and has no name.
const Claims, lock = "PENDING -> CLAIMED", "writes the lock of claims"

// StatementName returns a short name of a statement: the comment in its first line, which says what it does, then its
// first word, after "with" two, and the table or function of pgdispatch that follows.
func StatementName(text string) string {
	var parts []string
	first, _, _ := strings.Cut(text, "\n")
	switch {
	case strings.HasPrefix(first, "-- "+Claims):
		return Claims
	case strings.HasPrefix(first, "-- "+lock):
		return ""
	}
	if comment, ok := strings.CutPrefix(first, "--"); ok {
		parts = append(parts, strings.TrimSpace(comment)+":")
	}
	text = comments.ReplaceAllString(text, "")
	if verb := verbs.FindString(text); verb != "" {
		parts = append(parts, strings.ToLower(strings.TrimSpace(verb)))
	}
	if of := called.FindStringSubmatch(text); of != nil {
		parts = append(parts, of[1])
	}
	return strings.Join(parts, " ")
}
