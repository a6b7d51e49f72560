package dispatch

import "sync"

const (
	// mostHints is how many hints are kept; what is beyond is found by a look.
	mostHints = 64
	// longestHint is how many bytes a payload may have that pgdispatch itself has sent.
	longestHint = 250
)

// Hints are the payloads of notifications that nobody has heeded yet. The zero value is ready, and safe for concurrent use.
type Hints struct {
	mu       sync.Mutex
	payloads []string
}

// Add keeps a payload. It never blocks. Where there are too many, or where one is not ours, "look" is all that is kept of it.
func (h *Hints) Add(payload string) {
	if len(payload) > longestHint {
		payload = ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.payloads) == mostHints {
		h.payloads[mostHints-1] = ""
		return
	}
	h.payloads = append(h.payloads, payload)
}

// take returns what was added since the last time.
func (h *Hints) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.payloads
	h.payloads = nil
	return taken
}
