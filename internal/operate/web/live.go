package web

import (
	"context"
	"fmt"
	nethttp "net/http"
	"strings"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// liveInterval is how often a live page is drawn anew, and liveAge how old what it shows may be: however many look, the
	// database is asked no more often.
	liveInterval = 2 * time.Second
	liveAge      = time.Second
	// liveWorkspaces is how many workspaces the overview shows.
	liveWorkspaces = 10
)

// live is the last look, for all who ask.
type live struct {
	mu   sync.Mutex
	at   time.Time
	seen glance
	err  error
}

// parts are the templates of the live page, in their order. Each is an element whose ID is its name.
var parts = []string{"attention", "totals", "hour", "replicas", "stalled", "longest", "asof"}

// glance is what the overview shows.
type glance struct {
	claim.Overview
	Workspaces []claim.WorkspaceRow
	At         time.Time
}

// glance looks, or remembers what was seen a moment ago. Those who ask meanwhile wait for the one look, which does not end with
// the one who asked for it.
func (s *Site) glance(ctx context.Context) (glance, error) {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	if !s.live.at.IsZero() && time.Since(s.live.at) < liveAge {
		return s.live.seen, s.live.err
	}
	ctx = context.WithoutCancel(ctx)
	seen := glance{At: time.Now()}
	seen.Overview, s.live.err = s.Read.Overview(ctx)
	if s.live.err == nil {
		seen.Workspaces, s.live.err = s.Read.ListWorkspaces(ctx, "", claim.ByOldest, nil, liveWorkspaces)
	}
	s.live.seen, s.live.at = seen, time.Now()
	return s.live.seen, s.live.err
}

// stream sends what has changed of the live page again and again, as server-sent events.
func (s *Site) stream(w nethttp.ResponseWriter, r *nethttp.Request) {
	if !s.streams.take(r.Context(), streamsAtOnce, 0) {
		nethttp.Error(w, "too many live pages are open", nethttp.StatusServiceUnavailable)
		return
	}
	defer s.streams.give()
	flush := nethttp.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	ticker := time.NewTicker(liveInterval)
	defer ticker.Stop()
	sent := map[string]string{}
	for ends := time.Now().Add(streamLasts); time.Now().Before(ends); {
		_ = flush.SetWriteDeadline(time.Now().Add(streamWrite)) // only a test's writer knows none
		if err := s.send(w, r, sent); err != nil {
			return // the reader is gone
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

// send sends the parts that are not as they were sent last.
func (s *Site) send(w nethttp.ResponseWriter, r *nethttp.Request, sent map[string]string) error {
	seen, err := s.glance(r.Context())
	if err != nil {
		_, err = fmt.Fprint(w, "event: problem\ndata: The database does not answer. This is what was seen last.\n\n")
		return err
	}
	changed := ""
	for _, part := range parts {
		var out strings.Builder
		if err := pages["overview"].ExecuteTemplate(&out, part, seen); err != nil {
			return err
		}
		if text := out.String(); text != sent[part] {
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
