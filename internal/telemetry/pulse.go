package telemetry

import (
	"maps"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Pulse counts what a replica tells the others, and whoever looks at the database, of itself. Unlike metrics, it always counts.
// It hears what a dispatcher does, as its Observer, and passes it on. It is safe for concurrent use.
type Pulse struct {
	t *Telemetry // hears the same, and follows the items in hand

	mu      sync.Mutex
	waits   claim.Waits // of what was started since the last note
	started int64       // since the last look at the state
	looked  time.Time
	paused  int  // namespaces that take no workflows
	breaker bool // all of them
	wakeUps map[string]int64
}

// NewPulse returns one that passes on to t. Where t is nil, nothing is measured but the pulse.
func NewPulse(t *Telemetry) *Pulse {
	if t == nil {
		t = &Telemetry{}
	}
	p := &Pulse{t: t, wakeUps: map[string]int64{}, looked: time.Now()}
	t.hands.dispatched = p.dispatched
	return p
}

// Store measures a store, for the pulse and for what it passes on to.
func (p *Pulse) Store(of *claim.Store) *Store { return &Store{Store: of, inner: of, t: p.t} }

// State is how the replica is now. Its rate is that since the last call.
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

// Take returns what was started since the last Take.
func (p *Pulse) Take() claim.Waits {
	p.mu.Lock()
	defer p.mu.Unlock()
	waits := p.waits
	p.waits = nil
	return waits
}

// GiveBack returns what was taken and could not be noted.
func (p *Pulse) GiveBack(waits claim.Waits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.Merge(waits)
}

// dispatched takes note of an item whose workflow was started, after it had been due for so long.
func (p *Pulse) dispatched(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.Add(waited)
	p.started++
}

// Woken is dispatch.Observer's.
func (p *Pulse) Woken(source string) {
	p.mu.Lock()
	p.wakeUps[source]++
	p.mu.Unlock()
	p.t.Woken(source)
}

// Paused is dispatch.Observer's.
func (p *Pulse) Paused(namespaces int, all bool) {
	p.mu.Lock()
	p.paused, p.breaker = namespaces, all
	p.mu.Unlock()
	p.t.Paused(namespaces, all)
}

// Lost is dispatch.Observer's.
func (p *Pulse) Lost(itemID int64) { p.t.Lost(itemID) }
