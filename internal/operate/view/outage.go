package view

import (
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// OutageOf returns the first of the concerns that stop all starts, or nil if there is none.
func OutageOf(o operate.Overview) *Concern {
	if concerns := stops(o); len(concerns) > 0 {
		return &concerns[0]
	}
	return nil
}

// stops returns what stops all starts. It is not nil.
func stops(o operate.Overview) []Concern {
	concerns, d := []Concern{}, o.Depth
	if len(o.Replicas) == 0 {
		concerns = append(concerns, Concern{Severity: Critical, What: "No replica is running, so no items are started.",
			Remedy: "start one with `pgdispatch run`"})
	}
	if d.Paused {
		concerns = append(concerns, Concern{Severity: Critical, Since: d.PausedSince, Who: d.PausedBy,
			What:   "Dispatching is paused by the settings, so no items are claimed.",
			Remedy: "`pgdispatch settings set paused false`"})
	}
	if d.MaxClaims == 0 {
		zero := Concern{Severity: Critical, What: "max-claims is 0, so no items are claimed.",
			Remedy: "`pgdispatch settings set max-claims 100`"}
		if !d.Paused {
			zero.Since, zero.Who = d.PausedSince, d.PausedBy
		}
		concerns = append(concerns, zero)
	}
	if refused, since := refusals(o); refused > 0 && refused == len(o.Replicas) {
		concerns = append(concerns, Concern{Severity: Critical, Since: since,
			What:   "Temporal accepts no workflows from any replica: starts are paused, and the replicas probe.",
			Remedy: "see their logs, and `pgdispatch doctor`"})
	}
	return concerns
}

// refusals returns from how many replicas Temporal accepts no workflows, and since when from the first of them.
func refusals(o operate.Overview) (replicas int, since *time.Time) {
	for _, r := range o.Replicas {
		replicas += truth(r.State.BreakerOpen)
		if at := r.State.BreakerSince; at != nil && (since == nil || at.Before(*since)) {
			since = at
		}
	}
	return replicas, since
}

// Begun formats since when it is so, and who made it so, as a sentence. It is empty if neither is known.
func (c Concern) Begun() string {
	switch {
	case c.Since == nil:
		return ""
	case c.Who == "":
		return "Since " + c.Since.UTC().Format("2006-01-02 15:04:05 MST") + "."
	}
	return "Since " + c.Since.UTC().Format("2006-01-02 15:04:05 MST") + ", by " + Printable(c.Who) + "."
}
