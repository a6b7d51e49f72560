package web

import (
	"context"
	nethttp "net/http"
	"sync"
	"time"
)

const (
	// pagesAtOnce is how many pages are drawn at a time, and pageWait how long another waits for its turn. A page may be as large as
	// what it shows, and is held until its reader has read it.
	pagesAtOnce = 8
	pageWait    = 5 * time.Second
	// streamsAtOnce is how many live pages are kept up to date. Any other stays as it was drawn, and tries again.
	streamsAtOnce = 64
	// streamWrite is how long the reader of a live page may take to read what has changed, and streamLasts how long a stream lasts at
	// the most: a browser opens it again by itself.
	streamWrite = 10 * time.Second
	streamLasts = time.Hour
)

// turns lets so many in at a time. The zero value is ready.
type turns struct {
	once  sync.Once
	taken chan struct{}
}

// take takes one of so many turns, and waits for it within a time. Whoever got one gives it back.
func (t *turns) take(ctx context.Context, most int, within time.Duration) bool {
	t.once.Do(func() { t.taken = make(chan struct{}, most) })
	select {
	case t.taken <- struct{}{}:
		return true
	default:
	}
	wait := time.NewTimer(within)
	defer wait.Stop()
	select {
	case t.taken <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-wait.C:
	}
	return false
}

func (t *turns) give() { <-t.taken }

// inTurn draws a page when it is its turn.
func (s *Site) inTurn(draw nethttp.HandlerFunc) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if !s.drawing.take(r.Context(), pagesAtOnce, pageWait) {
			w.Header().Set("Retry-After", "1")
			nethttp.Error(w, "too many pages are asked for at once: try again in a moment", nethttp.StatusServiceUnavailable)
			return
		}
		defer s.drawing.give()
		draw(w, r)
	}
}
