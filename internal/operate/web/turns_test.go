package web

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlySoManyPagesAreDrawnAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, answers := newBrowser(t), make(chan int, 1)
		site := b.site()
		ask := func() { answers <- b.ask(site.Handler(), "/ui/items", nil).Code }
		for range pagesAtOnce {
			require.True(t, site.drawing.take(t.Context(), pagesAtOnce, 0))
		}
		go ask()
		synctest.Wait()
		require.Empty(t, answers, "the request waits for its turn")
		site.drawing.give()
		require.Equal(t, http.StatusOK, <-answers)

		require.True(t, site.drawing.take(t.Context(), pagesAtOnce, 0), "the turn was released")
		go ask()
		time.Sleep(pageWait)
		require.Equal(t, http.StatusServiceUnavailable, <-answers)
	})
}

func TestALivePageBeyondTheBoundIsRefused(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	site := b.site()
	for range streamsAtOnce {
		require.True(t, site.streams.take(t.Context(), streamsAtOnce, 0))
	}
	b.ask(site.Handler(), "/ui/live", nil).is(http.StatusServiceUnavailable)
}
