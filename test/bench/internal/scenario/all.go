package scenario

import "time"

// DefaultHold is how long scenario snapshot holds its snapshot by default.
const DefaultHold = 5 * time.Minute

// Options configures scenarios.
type Options struct {
	// Hold is how long an old snapshot is held. Zero means DefaultHold.
	Hold time.Duration
	// Soak is how long scenario soak takes. Zero means DefaultSoak.
	Soak time.Duration
}

// All returns every scenario, in the order of the report.
func All(o Options) []*Scenario {
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	if o.Soak == 0 {
		o.Soak = DefaultSoak
	}
	return []*Scenario{
		Lives(), SlowLives(), LifeDrain(), Turns(), // what users have; the others are parts of it
		Enqueue(), SlowFlush(), Draining(), Idle(), Signals(), Paced(), Single(), Greatest(), Drain(), SlowDrain(),
		Vain(), Claims(), Keys(), Arrive(), ClaimCost(), Loading(), Snapshot(o.Hold), View(), Tenants(), Cost(), Herd(),
		Rest(), Watches(), Instructions(), Soak(o.Soak),
	}
}
