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
	if r := refusals(o); r.replicas > 0 && r.replicas == len(o.Replicas) {
		concerns = append(concerns, Concern{Severity: Critical, Since: r.since,
			What:   r.words("any replica") + ": starts are paused, and the replicas probe.",
			Remedy: "see their logs, and `pgdispatch doctor`"})
	}
	return concerns
}

// refusal is from how many replicas Temporal accepts no workflows, since when from the first of them, and why.
type refusal struct {
	replicas, codecs int // codecs of them lack the codec server
	since            *time.Time
	cause            string
}

func refusals(o operate.Overview) (found refusal) {
	for _, r := range o.Replicas {
		if !r.State.BreakerOpen {
			continue
		}
		found.replicas, found.codecs = found.replicas+1, found.codecs+truth(r.State.CodecAway)
		if at := r.State.BreakerSince; at != nil && (found.since == nil || at.Before(*found.since)) {
			found.since = at
		}
		if r.State.BreakerCause != "" {
			found.cause = r.State.BreakerCause
		}
	}
	return found
}

// words says what these replicas lack, and why.
func (r refusal) words(from string) string {
	text := "Temporal accepts no workflows from " + from
	if r.codecs == r.replicas {
		text = "The codec server does not answer " + from + ", so nothing is sent to Temporal"
	}
	if r.cause != "" {
		text += " (" + Printable(r.cause) + ")"
	}
	return text
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
