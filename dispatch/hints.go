package dispatch

import "sync"

const (
	// mostHints is the maximum number of hints kept. The next look finds the work of dropped hints.
	mostHints = 64
	// longestHint is the maximum length in bytes of a payload that pgdispatch sends.
	longestHint = 250
)

// Hints holds the payloads of notifications until a claim uses them. The zero value is ready to use. It is safe for
// concurrent use.
type Hints struct {
	mu       sync.Mutex
	payloads []string
}

// Add keeps a payload. It never blocks. If there are too many payloads, or if one is too long to be from pgdispatch, it
// keeps an empty payload instead, which requests a look.
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

// take returns the payloads added since the last call.
func (h *Hints) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.payloads
	h.payloads = nil
	return taken
}
