package dispatch

// Observer is told what the dispatcher does, for metrics and traces. Its methods must not block. They are called from
// several goroutines.
type Observer interface {
	// Woken is called before each claim. source is the reason to look.
	Woken(source string)
	// Paused is called when pauses may have changed. namespaces is how many accept no workflows; all means that only
	// probes are claimed.
	Paused(namespaces int, all bool)
	// Lost is called when this replica could not end an item's claim. Each dispatch ends with exactly one Lost or one
	// settlement.
	Lost(itemID int64)
}

// observe calls tell if there is an observer.
func (d *Dispatcher) observe(tell func(Observer)) {
	if d.Observer != nil {
		tell(d.Observer)
	}
}
