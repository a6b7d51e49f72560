package dispatch

// Observer is told what the dispatcher does, for metrics and traces. It must not block, and is called from several goroutines.
type Observer interface {
	// Woken: the dispatcher is about to claim; source says what made it look.
	Woken(source string)
	// Paused: so many namespaces take no workflows; all: nothing is claimed but probes.
	Paused(namespaces int, all bool)
	// Lost: the claim of this item could not be ended by this replica. Each hand-over ends with this, once, or with a settle.
	Lost(itemID int64)
}

// observe tells the observer, if there is one.
func (d *Dispatcher) observe(tell func(Observer)) {
	if d.Observer != nil {
		tell(d.Observer)
	}
}
