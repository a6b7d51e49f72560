package dispatch

import (
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// Observer is told what the dispatcher does, for metrics and traces. Its methods must not block. They are called from
// several goroutines.
type Observer interface {
	// Woken is called before each claim. source is the reason to look.
	Woken(source string)
	// Claimed is called after each claim, which also ended the claims of the settled items.
	Claimed(began time.Time, batch claim.Batch, settled []int64, err error)
	// Stalled is called after a claim of an item that had been startable for that long, more than StallAfter, while this
	// replica knew that something waits and had a free worker.
	Stalled(time.Duration)
	// Starting is called before a workflow is started, with the request to send. It may change the request's
	// Traceparent. started is called with the result; outcome is a name from Outcome, "forgotten" or "panic".
	Starting(request *claim.Item) (started func(runID, outcome string, err error))
	// Settled is called after each settle other than a claim's.
	Settled(began time.Time, verb claim.Verb, settled []int64, err error)
	// Renewed is called after each heartbeat.
	Renewed(err error)
	// Lost is called when this replica could not end an item's claim. Each dispatch ends with exactly one Lost or one
	// settlement.
	Lost(itemID int64)
	// Paused is called when pauses may have changed. namespaces is how many accept no workflows; all means that only
	// probes are claimed.
	Paused(namespaces int, all bool)
}

// nobody is the Observer of a dispatcher without one.
type nobody struct{}

func (nobody) Woken(string)                                   {}
func (nobody) Claimed(time.Time, claim.Batch, []int64, error) {}
func (nobody) Stalled(time.Duration)                          {}
func (nobody) Starting(*claim.Item) func(string, string, error) {
	return func(string, string, error) {}
}
func (nobody) Settled(time.Time, claim.Verb, []int64, error) {}
func (nobody) Renewed(error)                                 {}
func (nobody) Lost(int64)                                    {}
func (nobody) Paused(int, bool)                              {}

// outcomeName returns the outcome of a start for an Observer.
func outcomeName(err error) string {
	if errors.Is(err, temporal.ErrForgotten) {
		return "forgotten"
	}
	return temporal.Classify(err).String()
}
