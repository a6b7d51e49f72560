package proxy

import (
	"fmt"
	"slices"
	"sync"
)

// Step is a moment of an operation: a request before it reaches its server, or the answer to it before it reaches the
// client.
type Step struct {
	// Request names the statement, or the method of Temporal.
	Request string
	// Nth counts the requests of this name, from 1.
	Nth int
	// Answer is false for the request and true for the answer.
	Answer bool
}

// String returns the step in words.
func (s Step) String() string {
	when := "before"
	if s.Answer {
		when = "after"
	}
	return fmt.Sprintf("%s %s %d", when, s.Request, s.Nth)
}

// Steps sees every request and answer of one replica, to all of its servers, and stops all of them at one step. Only
// requests that are not ignored are steps. The zero value lets everything pass.
type Steps struct {
	// Ignore reports whether requests of this name are no steps. Nil ignores none.
	Ignore func(request string) bool

	mu      sync.Mutex
	records bool
	at      *Step
	reached chan struct{}
	stopped *stop // nil while nothing is stopped
	count   map[string]int
	seen    []Step
	moved   int
}

// Record forgets what was seen and begins to count. If at is not nil, everything stops at that step, and reached is
// closed.
func (s *Steps) Record(at *Step) (reached <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records, s.at, s.count, s.seen, s.reached = true, at, map[string]int{}, nil, make(chan struct{})
	return s.reached
}

// Release lets everything pass from now on.
func (s *Steps) Release() { s.release(false) }

// Drop lets everything pass from now on, except what is stopped: it reaches nobody.
func (s *Steps) Drop() { s.release(true) }

func (s *Steps) release(drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records, s.at = false, nil
	if s.stopped != nil {
		s.stopped.dropped = drop
		close(s.stopped.over)
		s.stopped = nil
	}
}

// stop holds what is stopped.
type stop struct {
	over    chan struct{} // closed when it is over
	dropped bool          // valid once over is closed
}

// Seen returns the steps since Record, in their order.
func (s *Steps) Seen() []Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Moved returns how many requests and answers that are not ignored have passed so far.
func (s *Steps) Moved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

// asked is a request that has passed. Its answer has the same number.
type asked struct {
	request string
	nth     int
}

// ask lets a request pass, or stops it until Release. It returns false if the connection ended meanwhile: the request
// must not be forwarded then.
func (s *Steps) ask(ended <-chan struct{}, request string) (asked, bool) {
	a := asked{request: request}
	s.mu.Lock()
	if s.records && !s.ignores(request) {
		s.count[request]++
		a.nth = s.count[request]
	}
	return a, s.pass(ended, a, false)
}

// answer lets the answer to a request pass.
func (s *Steps) answer(ended <-chan struct{}, a asked) bool {
	s.mu.Lock()
	return s.pass(ended, a, true)
}

// pass requires the lock and releases it.
func (s *Steps) pass(ended <-chan struct{}, a asked, answer bool) bool {
	if !s.ignores(a.request) {
		s.moved++
	}
	if s.records && a.nth > 0 && s.stopped == nil {
		step := Step{Request: a.request, Nth: a.nth, Answer: answer}
		s.seen = append(s.seen, step)
		if s.at != nil && *s.at == step {
			s.stopped = &stop{over: make(chan struct{})}
			close(s.reached)
		}
	}
	stopped := s.stopped
	s.mu.Unlock()
	if stopped == nil {
		return true
	}
	select {
	case <-stopped.over:
		return !stopped.dropped
	case <-ended:
		return false
	}
}

func (s *Steps) ignores(request string) bool {
	return request == "" || s.Ignore != nil && s.Ignore(request)
}
