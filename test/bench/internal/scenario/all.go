package scenario

import "time"

// DefaultHold is how long scenario snapshot holds its snapshot.
const DefaultHold = 5 * time.Minute

// Options is what scenarios may be told.
type Options struct {
	// Hold is how long an old snapshot is held; 0: DefaultHold.
	Hold time.Duration
	// Soak is how long scenario soak takes; 0: DefaultSoak.
	Soak time.Duration
	// Base: an older pgdispatch is there to be measured beside the present one.
	Base bool
}

// All is every scenario, in the order of the report.
func All(o Options) []*Scenario {
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	if o.Soak == 0 {
		o.Soak = DefaultSoak
	}
	return []*Scenario{Enqueue(), SlowFlush(), Draining(), Idle(), Paced(), Greatest(), Drain(), SlowDrain(), Vain(),
		Claims(), ClaimCost(o.Base), Loading(), Snapshot(o.Hold), View(), Tenants(), Cost(), Herd(), Rest(), Watches(), Instructions(), Soak(o.Soak)}
}
