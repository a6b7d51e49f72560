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
	// On hears the same; nil: nobody does.
	On *Telemetry

	mu      sync.Mutex
	due     map[int64]time.Time // the items in hand, and since when each was due, by this process's clock
	waits   claim.Waits         // of what was started since the last note
	started int64               // since the last look at the state
	looked  time.Time
	paused  int  // namespaces that take no workflows
	breaker bool // all of them
	wakeUps map[string]int64
}

// NewPulse returns one that passes on to t, if that is not nil.
func NewPulse(t *Telemetry) *Pulse {
	return &Pulse{On: t, due: map[int64]time.Time{}, wakeUps: map[string]int64{}, looked: time.Now()}
}

// State is how the replica is now. Its rate is that since the last call.
func (p *Pulse) State() claim.ReplicaState {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Since(p.looked)
	state := claim.ReplicaState{Busy: len(p.due), BreakerOpen: p.breaker, PausedNamespaces: p.paused, WakeUps: maps.Clone(p.wakeUps)}
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

// claimed takes note of the items that were given.
func (p *Pulse) claimed(items []claim.Item) {
	if len(items) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, item := range items {
		p.due[item.ID] = now.Add(-item.Waited)
	}
}

// settled takes note of the items whose claim has ended.
func (p *Pulse) settled(verb claim.Verb, ids []int64) {
	if len(ids) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, id := range ids {
		due, known := p.due[id]
		delete(p.due, id)
		if verb == claim.Dispatched && known {
			p.waits.Add(now.Sub(due))
			p.started++
		}
	}
}

// Woken is dispatch.Observer's.
func (p *Pulse) Woken(source string) {
	p.mu.Lock()
	p.wakeUps[source]++
	p.mu.Unlock()
	if p.On != nil {
		p.On.Woken(source)
	}
}

// Paused is dispatch.Observer's.
func (p *Pulse) Paused(namespaces int, all bool) {
	p.mu.Lock()
	p.paused, p.breaker = namespaces, all
	p.mu.Unlock()
	if p.On != nil {
		p.On.Paused(namespaces, all)
	}
}

// Lost is dispatch.Observer's.
func (p *Pulse) Lost(itemID int64) {
	p.mu.Lock()
	delete(p.due, itemID)
	p.mu.Unlock()
	if p.On != nil {
		p.On.Lost(itemID)
	}
}
