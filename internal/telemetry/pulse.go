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
	waits   operate.StartWaits // of the starts since the last Take
	starts  rate
	news    chan struct{} // holds one element if there were starts since the last Take
	paused  int           // namespaces that accept no workflows
	breaker bool          // no namespace accepts workflows
	open    *time.Time    // since when the breaker has been open, as far as it was asked; nil if it is not
	wakeUps map[string]int64
}

// State returns the replica's current state.
func (t *Telemetry) State() operate.ReplicaState {
	open := t.BreakerOpen()
	p := &t.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened(open)
	state := operate.ReplicaState{Busy: t.heldItems.held(), BreakerOpen: open, BreakerSince: p.open,
		PausedNamespaces: p.paused, WakeUps: maps.Clone(p.wakeUps)}
	state.StartsPerSecond = p.starts.perSecond(time.Now())
	return state
}

// Started returns a channel that delivers when items were started since the last Take.
func (t *Telemetry) Started() <-chan struct{} { return t.pulse.news }

// Take returns the waits of the items started since the last Take.
func (t *Telemetry) Take() operate.StartWaits {
	p := &t.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	waits := p.waits
	p.waits = operate.StartWaits{}
	select {
	case <-p.news:
	default:
	}
	return waits
}

// GiveBack restores waits that were taken but could not be saved.
func (t *Telemetry) GiveBack(waits operate.StartWaits) {
	p := &t.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.Merge(waits)
}

// dispatched records a started item, with how long it had been due and startable.
func (p *pulse) dispatched(workspaceID string, due, startable time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits.Add(workspaceID, due, startable)
	p.starts.add(time.Now())
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (p *pulse) woken(source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeUps[source]++
}

func (p *pulse) pausedNow(namespaces int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused, p.breaker = namespaces, all; all {
		p.opened(true)
	}
}

// opened notes whether the breaker is open. The caller holds mu.
func (p *pulse) opened(open bool) {
	switch {
	case !open:
		p.open = nil
	case p.open == nil:
		p.open = new(time.Now().UTC())
	}
}

func (p *pulse) pauses() (namespaces int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused, p.breaker
}
