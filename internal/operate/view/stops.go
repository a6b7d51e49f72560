package view

import (
	"encoding/json"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// Stop is a time in which nothing was started, and why. To is zero if it goes on.
type Stop struct {
	From, To time.Time
	Why      string
}

// Stops returns when all claims were paused, by the changes of the settings, the newest first, and what stops all
// starts now.
func Stops(o operate.Overview, changes []operate.Administered) []Stop {
	stops, until := []Stop{}, time.Time{}
	for _, c := range changes {
		var details struct{ Paused []bool }
		if json.Unmarshal(c.Details, &details) != nil || len(details.Paused) != 2 {
			continue
		}
		if details.Paused[1] {
			stops = append(stops, Stop{c.At, until, "paused by " + Printable(c.Who)})
		}
		until = c.At
	}
	if now := OutageOf(o); now != nil && now.Since != nil && !o.Depth.Paused {
		stops = append(stops, Stop{From: *now.Since, Why: "nothing was started"})
	}
	return stops
}

// Marked returns the plots with each bar that is within a stop marked. A minute that no replica counted is marked, too.
func Marked(plots []Plot, stops []Stop, minutes []operate.Minute) []Plot {
	for _, p := range plots {
		for n := range p.Bars {
			b := &p.Bars[n]
			next := time.Now()
			if n+1 < len(p.Bars) {
				next = p.Bars[n+1].At
				if minutes[n].Waiting == nil {
					b.Stop = "no replica ran"
				}
			}
			for _, s := range stops {
				if s.From.Before(next) && (s.To.IsZero() || s.To.After(b.At)) {
					b.Stop = s.Why
				}
			}
		}
	}
	return plots
}
