package telemetry

import (
	"maps"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Pulse counts what a replica publishes about itself in the database. Unlike metrics, it is always on. It is the
// dispatcher's Observer and forwards each call to Telemetry. It is safe for concurrent use.
type Pulse struct {
	t *Telemetry // receives the same calls, and tracks the items held

	mu      sync.Mutex
	waits   claim.Waits // of the starts since the last Take
	started int64       // since the last State
	looked  time.Time
	paused  int  // namespaces that accept no workflows
	breaker bool // no namespace accepts workflows
	wakeUps map[string]int64
}

// NewPulse returns a Pulse that forwards to t. If t is nil, only the pulse is measured.
func NewPulse(t *Telemetry) *Pulse {
	if t == nil {
		t = &Telemetry{}
	}
	p := &Pulse{t: t, wakeUps: map[string]int64{}, looked: time.Now()}
	t.hands.dispatched = p.dispatched
	return p
}

// Store wraps a store so that the pulse and Telemetry measure it.
func (p *Pulse) Store(of *claim.Store) *Store { return &Store{Store: of, inner: of, t: p.t} }

// State returns the replica's current state. StartsPerSecond is the rate since the last call.
func (p *Pulse) State() claim.ReplicaState {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Since(p.looked)
	state := claim.ReplicaState{Busy: p.t.hands.held(), BreakerOpen: p.breaker, PausedNamespaces: p.paused, WakeUps: maps.Clone(p.wakeUps)}
	if since > 0 {
		state.StartsPerSecond = float64(p.started) / since.Seconds()
	}
	p.started, p.looked = 0, time.Now()
	return state
}

// Take returns the waits of the items started since the last Take.
func (p *Pulse) Take() claim.Waits {
	p.mu.Lock()
	defer p.mu.Unlock()
	waits := p.waits
	p.waits = nil
	return waits
}

// GiveBack restores waits that were taken but could not be saved.
func (p *Pulse) GiveBack(waits claim.Waits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.Merge(waits)
}

// dispatched records a started item that had been due for waited.
func (p *Pulse) dispatched(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.Add(waited)
	p.started++
}

// Woken implements dispatch.Observer.
func (p *Pulse) Woken(source string) {
	p.mu.Lock()
	p.wakeUps[source]++
	p.mu.Unlock()
	p.t.Woken(source)
}

// Paused implements dispatch.Observer.
func (p *Pulse) Paused(namespaces int, all bool) {
	p.mu.Lock()
	p.paused, p.breaker = namespaces, all
	p.mu.Unlock()
	p.t.Paused(namespaces, all)
}

// Lost implements dispatch.Observer.
func (p *Pulse) Lost(itemID int64) { p.t.Lost(itemID) }
