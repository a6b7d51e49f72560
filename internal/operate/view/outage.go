package view

import (
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// Outage is what stops all starts.
type Outage struct {
	Concern
	// Since is when the first replica paused its starts. Nil if this is not known.
	Since *time.Time
}

// OutageOf returns the first critical concern, or nil if there is none.
func OutageOf(o operate.Overview) *Outage {
	concerns := Concerns(o)
	if len(concerns) == 0 || concerns[0].Severity != Critical {
		return nil
	}
	outage := &Outage{Concern: concerns[0]}
	if o.Depth.Paused || o.Depth.MaxClaims == 0 {
		return outage
	}
	for _, r := range o.Replicas {
		if since := r.State.BreakerSince; since != nil && (outage.Since == nil || since.Before(*outage.Since)) {
			outage.Since = since
		}
	}
	return outage
}
