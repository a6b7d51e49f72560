package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// period is how far back plots reach.
type period struct {
	Query, Words string
	span         time.Duration
	bar          int // minutes of one bar of the overview
}

var periods = []period{{"1h", "hour", time.Hour, 1}, {"6h", "6 hours", 6 * time.Hour, 5}, {"24h", "24 hours",
	24 * time.Hour, 15}}

// chartAge is the maximum age of a cached plot of a period other than the hour.
const chartAge = 15 * time.Second

// charts caches the last read of each period for all visitors of a site.
type charts struct {
	mu   sync.Mutex
	read map[string]chart
}

type chart struct {
	at      time.Time
	minutes []operate.Minute
}

// All returns the periods to choose from.
func (period) All() []period { return periods }

// periodOf returns the requested period, or the hour.
func periodOf(r *http.Request) (period, error) {
	chosen := r.URL.Query().Get("period")
	for _, p := range periods {
		if chosen == p.Query || chosen == "" {
			return p, nil
		}
	}
	return period{}, bad("period must be 1h, 6h or 24h.")
}

// withActivity adds what the plots of a workspace need.
func (s *Site) withActivity(ctx context.Context, d workspaceData) (workspaceData, error) {
	stretches, err := s.Read.WorkspaceActivity(ctx, d.ID, d.Period.span)
	n := max(d.Period.bar/operate.StretchMinutes, 1)
	d.BarMinutes, d.Totals = n*operate.StretchMinutes, view.WorkspaceTotals(stretches)
	if plots := view.WorkspacePlots(operate.JoinStretches(stretches, n)); plots != nil {
		d.Charted = &charted{d.Period.Words, [][]view.Plot{plots[:1], plots[1:]}, plots}
	}
	return d, err
}

// minutes reads the minutes of a period, or returns a read no older than chartAge.
func (s *Site) minutes(ctx context.Context, p period) ([]operate.Minute, error) {
	s.charts.mu.Lock()
	defer s.charts.mu.Unlock()
	if c, known := s.charts.read[p.Query]; known && time.Since(c.at) < chartAge {
		return c.minutes, nil
	}
	minutes, err := s.Read.Activity(context.WithoutCancel(ctx), p.span)
	if err != nil {
		return nil, err
	}
	if s.charts.read == nil {
		s.charts.read = map[string]chart{}
	}
	s.charts.read[p.Query] = chart{time.Now(), minutes}
	return minutes, nil
}
