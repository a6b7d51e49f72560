package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

const (
	// liveInterval is how often a live page is redrawn. liveAge is the maximum age of cached data; it bounds how often
	// visitors query the database.
	liveInterval = 2 * time.Second
	liveAge      = time.Second
	// liveWorkspaces is the number of workspaces on the overview.
	liveWorkspaces = 10
)

// cached is the last read of something for all visitors of a site. The zero value is ready for use.
type cached[T any] struct {
	mu   sync.Mutex
	at   time.Time
	seen T
	err  error
}

// get returns a read no older than liveAge. Concurrent callers share one read, which goes on even if the request that
// began it is cancelled.
func (c *cached[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) >= liveAge {
		c.seen, c.err = read(context.WithoutCancel(ctx))
		c.at = time.Now()
	}
	return c.seen, c.err
}

// forget makes the next get read again.
func (c *cached[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
}

// parts are the templates of the live page, in order. Each renders one element whose ID is the template's name.
var parts = []string{"attention", "totals", "hour", "longest", "full", "stalled", "replicas", "asof"}

// glance is the data of the overview.
type glance struct {
	operate.Overview
	Workspaces []operate.WorkspaceRow
	At         time.Time
	// Confined reports whether the overview is of some workspaces only. It then lacks what concerns all of them.
	Confined bool
	// Period is that of the plots. Whole has its minutes, and Charted one for each bar.
	Period         period
	Whole, Charted operate.Overview
	// Stops are when nothing was started, as far as is known.
	Stops []view.Stop
}

// Self is the page's path, for the links to periods.
func (glance) Self() string { return Prefix }

// Anchored is false, because the plots are at the top.
func (glance) Anchored() bool { return false }

// Count formats a number of items. From 10,000 on it is an estimate, or if the overview is confined, a lower bound.
func (g glance) Count(n int64) string { return countWords(g.Confined, n) }

func countWords(confined bool, n int64) string {
	if confined && operate.IsEstimate(n) {
		return view.AtMost(n, n)
	}
	return view.Count(n)
}

func (s *Site) overview(r *http.Request) (string, any, error) {
	p, err := periodOf(r)
	return "overview", later(func() (any, error) { return s.glanceOf(r.Context(), p) }), err
}

// glanceOf is glance with what the plots of a period need.
func (s *Site) glanceOf(ctx context.Context, p period) (glance, error) {
	seen, err := s.glance(ctx)
	if seen.Whole, seen.Charted, seen.Period = seen.Overview, seen.Overview, p; err != nil || p == periods[0] {
		return seen, err
	}
	minutes, err := s.minutes(ctx, p)
	seen.Whole.Minutes, seen.Charted.Minutes = minutes, operate.Condense(minutes, p.bar)
	return seen, err
}

// glance returns the overview.
func (s *Site) glance(ctx context.Context) (glance, error) { return s.live.get(ctx, s.look) }

// depth is the depth of the overview, without the rest.
func (s *Site) depth(ctx context.Context) (operate.Depth, error) {
	return s.depths.get(ctx, s.Read.QueueDepth)
}

// standing is an overview with only what says whether anything is started. It reads no counts, unless all claims are
// paused: then the depth says since when.
func (s *Site) standing(ctx context.Context) (operate.Overview, error) {
	return s.stands.get(ctx, func(ctx context.Context) (operate.Overview, error) {
		seen, err := s.Read.Standing(ctx)
		if err == nil && (seen.Depth.Paused || seen.Depth.MaxClaims == 0) {
			seen.Depth, err = s.depth(ctx)
		}
		return seen, err
	})
}

// look reads a glance.
func (s *Site) look(ctx context.Context) (glance, error) {
	seen := glance{At: time.Now(), Confined: s.confined}
	var g errgroup.Group
	g.Go(func() (err error) { seen.Overview, err = s.Read.Overview(ctx); return err })
	g.Go(func() (err error) {
		seen.Workspaces, err = s.Read.ListWorkspaces(ctx, "", operate.ByOldest, nil, liveWorkspaces)
		return err
	})
	err := g.Wait()
	if err == nil && !s.confined {
		var changes []operate.Administered
		changes, err = s.Read.Audit(ctx, operate.AuditFilter{Subject: "settings"}, historyShown)
		seen.Stops = view.Stops(seen.Overview, changes)
	}
	return seen, err
}

// forget makes the next page read again, after a change.
func (s *Site) forget() {
	s.live.forget()
	s.depths.forget()
	s.stands.forget()
}

// stream sends the changed parts of the live page as server-sent events.
func (s *Site) stream(w http.ResponseWriter, r *http.Request) {
	if !s.bounds().streams.take(r.Context(), streamsAtOnce, 0) {
		http.Error(w, "too many live pages are open", http.StatusServiceUnavailable)
		return
	}
	defer s.bounds().streams.give()
	flush := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	ticker := time.NewTicker(liveInterval)
	sent := map[string]string{}
	for ends := time.Now().Add(streamLasts); time.Now().Before(ends); {
		_ = flush.SetWriteDeadline(time.Now().Add(streamWrite)) // unsupported only in tests
		if err := s.send(w, r, sent); err != nil {
			return // the client disconnected
		}
		if err := flush.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

// send sends the parts that have changed since they were last sent.
func (s *Site) send(w http.ResponseWriter, r *http.Request, sent map[string]string) error {
	p, err := periodOf(r)
	var seen glance
	if err == nil {
		seen, err = s.glanceOf(r.Context(), p)
	}
	if err != nil {
		_, err = fmt.Fprint(w, "event: problem\ndata: The database does not answer. The page shows the last known state.\n\n")
		return err
	}
	changed := ""
	for _, part := range parts {
		text, err := s.render("overview", part, seen)
		if err != nil {
			return err
		}
		if text != sent[part] {
			sent[part] = text
			changed += text
		}
	}
	for line := range strings.Lines(changed) {
		if _, err := fmt.Fprintf(w, "data: %s\n", strings.TrimRight(line, "\r\n")); err != nil {
			return err
		}
	}
	_, err = fmt.Fprint(w, "\n")
	return err
}
