package telemetry

import (
	"context"
	"fmt"
	nethttp "net/http"
	"strings"
	"sync"
	"time"
)

const (
	// checkTimeout bounds all checks of one look, below what a probe waits for by default in most places.
	checkTimeout = 900 * time.Millisecond
	// checkAge is how old a look may be.
	checkAge = time.Second
)

// Check is one thing that a replica needs to do its work. Do says what is wrong; nil: nothing.
type Check struct {
	Name string
	Do   func(ctx context.Context) error
}

// Health says whether a replica does its work, and why not. It is not ready at first.
type Health struct {
	mu       sync.Mutex
	checks   []Check
	why      string // "": the checks decide
	problems []string
	at       time.Time
}

// NewHealth returns one that is not ready, and says why.
func NewHealth(why string) *Health { return &Health{why: why} }

// Waiting says that the replica is not ready, whatever the checks say, and why.
func (h *Health) Waiting(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = why
}

// Working has the checks decide from now on.
func (h *Health) Working(checks ...Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why, h.checks, h.at = "", checks, time.Time{}
}

// Problems returns what is wrong, each with its name; none: the replica is ready. However many ask, the checks are done once a
// second.
func (h *Health) Problems(ctx context.Context) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != "" {
		return []string{h.why}
	}
	if !h.at.IsZero() && time.Since(h.at) < checkAge {
		return h.problems
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), checkTimeout, fmt.Errorf("check gave up after %s", checkTimeout))
	defer cancel()
	h.problems = nil
	for _, check := range h.checks {
		if err := check.Do(ctx); err != nil {
			h.problems = append(h.problems, check.Name+": "+err.Error())
		}
	}
	h.at = time.Now()
	return h.problems
}

// Ready says whether nothing is wrong.
func (h *Health) Ready(ctx context.Context) bool { return len(h.Problems(ctx)) == 0 }

func (h *Health) serve(w nethttp.ResponseWriter, r *nethttp.Request) {
	problems := h.Problems(r.Context())
	if len(problems) == 0 {
		fmt.Fprintln(w, "ready")
		return
	}
	nethttp.Error(w, "not ready\n"+strings.Join(problems, "\n"), nethttp.StatusServiceUnavailable)
}
