package web

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlySoManyPagesAreDrawnAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		site := &Site{Read: &fakeReader{}, Log: slog.New(slog.DiscardHandler)}
		answers := make(chan int, 1)
		ask := func() {
			answer := httptest.NewRecorder()
			site.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/ui/items", nil))
			answers <- answer.Code
		}
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
	site := &Site{Read: &fakeReader{}, Log: slog.New(slog.DiscardHandler)}
	for range streamsAtOnce {
		require.True(t, site.streams.take(t.Context(), streamsAtOnce, 0))
	}
	answer := httptest.NewRecorder()
	site.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/ui/live", nil))
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
}

func TestAnItemOfDeepParamsHasASmallPageAndAllOfThemAsAFile(t *testing.T) {
	t.Parallel()
	deep := `{"ms":1,"a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`
	item := dead
	item.Params = json.RawMessage(deep)
	reader := &fakeReader{item: &item}
	_, text := get(t, reader, "/ui/items/8")
	require.Less(t, len(text), 200_000)
	require.NotContains(t, text, "are shown.")
	_, text = get(t, reader, "/ui/items/8/params")
	require.Equal(t, deep, text)

	long := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	item.Params = json.RawMessage(long)
	_, text = get(t, reader, "/ui/items/8")
	require.Less(t, len(text), 200_000)
	require.Contains(t, text, "The first 64 KiB are shown.")
	_, text = get(t, reader, "/ui/items/8/params")
	require.Equal(t, long, text)
}
