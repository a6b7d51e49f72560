package telemetry

import (
	"maps"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// pulse counts what a replica publishes about itself in the database. Unlike metrics, it is always on.
type pulse struct {
	mu      sync.Mutex
	waits   operate.Waits // of the starts since the last Take
	started int64         // since the last State
	looked  time.Time
	paused  int  // namespaces that accept no workflows
	breaker bool // no namespace accepts workflows
	wakeUps map[string]int64
}

// State returns the replica's current state. StartsPerSecond is the rate since the last call.
func (t *Telemetry) State() operate.ReplicaState {
	open := t.BreakerOpen()
	p := &t.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Since(p.looked)
	state := operate.ReplicaState{Busy: t.hands.held(), BreakerOpen: open, PausedNamespaces: p.paused, WakeUps: maps.Clone(p.wakeUps)}
	if since > 0 {
		state.StartsPerSecond = float64(p.started) / since.Seconds()
	}
	p.started, p.looked = 0, time.Now()
	return state
}

// Take returns the waits of the items started since the last Take.
func (t *Telemetry) Take() operate.Waits {
	p := &t.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	waits := p.waits
	p.waits = nil
	return waits
}

// GiveBack restores waits that were taken but could not be saved.
func (t *Telemetry) GiveBack(waits operate.Waits) {
	p := &t.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.Merge(waits)
}

// dispatched records a started item that had been due for waited.
func (p *pulse) dispatched(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.Add(waited)
	p.started++
}

func (p *pulse) woken(source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeUps[source]++
}

func (p *pulse) pausedNow(namespaces int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused, p.breaker = namespaces, all
}

func (p *pulse) pauses() (namespaces int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused, p.breaker
}
