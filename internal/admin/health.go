package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// checkTimeout bounds one round of all checks. It is shorter than the usual default timeout of a probe.
	checkTimeout = 900 * time.Millisecond
	// checkAge is how long the result of a round is reused.
	checkAge = time.Second
)

// Check tests one thing that a replica needs to work. Do returns nil if it is available.
type Check struct {
	Name string
	Do   func(ctx context.Context) error
	// Degrades means that the replica is ready without it.
	Degrades bool
}

// Health reports whether a replica is ready, and why not. It starts as not ready.
type Health struct {
	mu       sync.Mutex
	checks   []Check
	why      string // if empty, the checks decide
	problems []string
	degraded []string
	at       time.Time
}

// NewHealth returns a Health that is not ready, for the reason why.
func NewHealth(why string) *Health { return &Health{why: why} }

// Waiting marks the replica as not ready, for the reason why, regardless of the checks.
func (h *Health) Waiting(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = why
}

// Working lets the checks decide from now on.
func (h *Health) Working(checks ...Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why, h.checks, h.at = "", checks, time.Time{}
}

// Problems returns the failed checks, each prefixed with its name. An empty result means that the replica is ready.
// The checks run at most once a second, however many callers there are.
func (h *Health) Problems(ctx context.Context) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != "" {
		return []string{h.why}
	}
	if !h.at.IsZero() && time.Since(h.at) < checkAge {
		return h.problems
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), checkTimeout,
		fmt.Errorf("check timed out after %s", checkTimeout))
	defer cancel()
	h.problems, h.degraded = nil, nil
	for _, check := range h.checks {
		switch err := check.Do(ctx); {
		case err == nil:
		case check.Degrades:
			h.degraded = append(h.degraded, check.Name+": "+err.Error())
		default:
			h.problems = append(h.problems, check.Name+": "+err.Error())
		}
	}
	h.at = time.Now()
	return h.problems
}

// Ready reports whether there are no problems.
func (h *Health) Ready(ctx context.Context) bool { return len(h.Problems(ctx)) == 0 }

func (h *Health) serve(w http.ResponseWriter, r *http.Request) {
	problems := h.Problems(r.Context())
	if len(problems) == 0 {
		fmt.Fprintln(w, "ready")
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, line := range h.degraded {
			fmt.Fprintln(w, "degraded: "+line)
		}
		return
	}
	http.Error(w, "not ready\n"+strings.Join(problems, "\n"), http.StatusServiceUnavailable)
}
