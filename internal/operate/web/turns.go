package web

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// pagesAtOnce is the number of pages rendered concurrently, pageWait how long a further request waits. Each page is
	// held in memory until the client has read it, and may be as large as the data it shows.
	pagesAtOnce = 8
	pageWait    = 5 * time.Second
	// streamsAtOnce is the number of concurrent live streams. Further pages stay as rendered and retry.
	streamsAtOnce = 64
	// streamWrite bounds how long a client may take to read an update. streamLasts bounds a stream's lifetime; browsers
	// reconnect by themselves.
	streamWrite = 10 * time.Second
	streamLasts = time.Hour
)

// turns is a semaphore. The zero value is ready for use.
type turns struct {
	once  sync.Once
	taken chan struct{}
}

// take waits up to within for one of most turns and reports whether it got one. The caller must then call give. most is
// fixed by the first call.
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

// inTurn runs draw once it gets one of pagesAtOnce turns. After pageWait it answers 503.
func (s *Site) inTurn(draw http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.bounds().drawing.take(r.Context(), pagesAtOnce, pageWait) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many concurrent requests: try again in a moment", http.StatusServiceUnavailable)
			return
		}
		defer s.bounds().drawing.give()
		draw(w, r)
	}
}
