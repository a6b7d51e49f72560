package web

import (
	"context"
	nethttp "net/http"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// period is how far back the plots of the overview reach.
type period struct {
	Query, Words string
	span         time.Duration
	bar          int // minutes of one bar
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

// Periods returns the periods to choose from.
func (glance) Periods() []period { return periods }

// withPeriod adds what the plots of the requested period need.
func (s *Site) withPeriod(r *nethttp.Request, seen glance) (glance, error) {
	seen.Period, seen.Whole, seen.Charted = periods[0], seen.Overview, seen.Overview
	chosen := r.URL.Query().Get("period")
	if chosen == "" || chosen == periods[0].Query {
		return seen, nil
	}
	for _, p := range periods {
		if p.Query == chosen {
			minutes, err := s.minutes(r.Context(), p)
			seen.Period, seen.Whole.Minutes, seen.Charted.Minutes = p, minutes, operate.Condense(minutes, p.bar)
			return seen, err
		}
	}
	return seen, bad("period must be 1h, 6h or 24h.")
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
