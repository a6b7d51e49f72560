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
	cause   error         // why the last namespace was paused
	open    *time.Time    // when the breaker was first seen open; nil if it is closed
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
	if open && p.breaker && p.cause != nil {
		state.BreakerCause = p.cause.Error()
	}
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

func (p *pulse) pausedNow(namespaces int, all bool, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cause = cause
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

const (
	// rateSeconds is how far back starts are counted, and recentSeconds how far if there were enoughStarts in that time.
	rateSeconds   = 60
	recentSeconds = 10
	// enoughStarts is how many starts in recentSeconds, on average, make the rate of that time meaningful.
	enoughStarts = 10
)

// rate counts starts by the second, for a minute.
type rate struct {
	began  time.Time // nothing was counted before
	counts [rateSeconds]int64
	newest int64 // the second, since began, of the newest count
}

// add counts a start.
func (r *rate) add(now time.Time) {
	r.forget(now)
	r.counts[r.newest%rateSeconds]++
}

// forget clears the seconds that have passed.
func (r *rate) forget(now time.Time) {
	second := int64(now.Sub(r.began) / time.Second)
	for ; r.newest < second; r.newest++ {
		if second-r.newest > rateSeconds {
			r.newest = second - rateSeconds
		}
		r.counts[(r.newest+1)%rateSeconds] = 0
	}
}

// perSecond returns the rate over the last ten seconds or, if the last minute had few starts, over that.
func (r *rate) perSecond(now time.Time) float64 {
	r.forget(now)
	passed := now.Sub(r.began).Seconds()
	var recent, all int64
	for back := range int64(rateSeconds) {
		if back > r.newest {
			break
		}
		count := r.counts[(r.newest-back)%rateSeconds]
		if all += count; back < recentSeconds {
			recent += count
		}
	}
	if minute := max(min(passed, rateSeconds), 1); float64(all)/minute*recentSeconds < enoughStarts {
		return float64(all) / minute
	}
	return float64(recent) / max(min(passed, recentSeconds), 1)
}
