package web

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// readInParts are pages that are sent in two parts.
var readInParts = []string{"/ui/", "/ui/?period=6h", "/ui/items", "/ui/items?status=FAILED", "/ui/items/8",
	"/ui/workspaces", "/ui/workspaces/" + id, "/ui/limits", "/ui/dead", "/ui/dead/letters"}

// whenTopIsThere opens a page as a browser does, whose reads fail with err. It lets it be read once its top is there,
// and returns the rest.
func whenTopIsThere(t *testing.T, err error, base, path string) (code int, top, rest string, log string) {
	t.Helper()
	var logged bytes.Buffer
	f := &fakeReader{held: make(chan struct{}), heldErr: err}
	site := &Site{Read: f, Base: base, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	server := httptest.NewServer(site.Handler())
	defer server.Close()
	let := sync.OnceFunc(func() { close(f.held) })
	defer let()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request := must.Get(http.NewRequestWithContext(ctx, "GET", server.URL+path, nil)).In(t)
	request.Header.Set("Accept", "text/html,*/*;q=0.8")
	response := must.Get(http.DefaultClient.Do(request)).In(t)
	defer response.Body.Close()
	for part := make([]byte, 1024); !strings.Contains(top, "</header>"); {
		n, err := response.Body.Read(part)
		require.NoError(t, err, path)
		top += string(part[:n])
	}
	let()
	text := must.Get(io.ReadAll(response.Body)).In(t)
	server.Close()
	return response.StatusCode, top, string(text), logged.String()
}

func TestABrowserGetsTheTopOfAPageBeforeItIsRead(t *testing.T) {
	t.Parallel()
	for _, path := range readInParts {
		code, top, rest, _ := whenTopIsThere(t, nil, "/tools", path)
		require.Equal(t, 200, code, path)
		require.Contains(t, top, ` href="/tools`+staticPath+`style.css"`)
		require.NotContains(t, top, "<main", path)
		require.Contains(t, rest, "<main", path)
		require.NotContains(t, rest, "<header", path)
		require.Equal(t, 1, strings.Count(rest, "<h1>"), path)
	}
}

func TestAPageThatFailsAfterItsTopSaysSo(t *testing.T) {
	t.Parallel()
	for _, path := range readInParts {
		code, _, rest, log := whenTopIsThere(t, errAway, "", path)
		require.Equal(t, 200, code, "it was sent with the top")
		require.Contains(t, rest, "<h1>The database did not answer.</h1>", path)
		require.NotContains(t, rest, "bob")
		require.Contains(t, log, "Cannot serve a page", path)

		b := newBrowser(t)
		b.header.Del("Accept")
		b.read.heldErr = errAway
		b.look(path).is(503) // a program is told
	}
}

func TestBrowsersKeepStaticFilesUntilTheyChange(t *testing.T) {
	t.Parallel()
	ask := func(path string) page { return get(t, &fakeReader{}, path) }
	page := ask("/ui/items")
	require.Equal(t, "no-store", page.Header().Get("Cache-Control"))
	found := regexp.MustCompile(`"(/ui/static/[^"]+)"`).FindAllStringSubmatch(page.text(), -1)
	require.Len(t, found, 7)
	for _, path := range found {
		require.Equal(t, "private, max-age=31536000, immutable", ask(path[1]).is(200).Header().Get("Cache-Control"))
	}
	other := ask("/ui/static/0123456789abcdef/style.css").is(200) // during an update, another version's page asks for it
	require.Equal(t, "no-store", other.Header().Get("Cache-Control"))
	for _, none := range []string{"/ui/static/", "/ui/static/x/", "/ui/static/style.css/", staticPath + "nothing",
		staticPath + "..%2fweb.go"} {
		require.Contains(t, []int{400, 404}, ask(none).Code, none)
	}
}

// inPage matches the value of any attribute that begins with Prefix, and inPages of one that begins with the base.
var inPage, inBase = regexp.MustCompile(`[a-z-]+="/ui/[^"]*"`), regexp.MustCompile(`[a-z]+="/tools/pgdispatch/ui/`)

func TestBehindAProxyEveryLinkHasItsPath(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	site := b.site()
	site.Base = "/tools/pgdispatch"
	handler := site.Acting()
	based := func(text, about string) {
		require.Regexp(t, inBase, text, about)
		require.Empty(t, inPage.FindAllString(text, -1), about)
	}
	for _, path := range append(paths, "/ui/none", "/ui/limits", "/ui/workspaces/"+id+"?period=6h",
		"/ui/items/8/discard", "/ui/items/selected?do=replay&item=8", "/ui/dead/replay", "/ui/settings/pause",
		"/ui/items?filter=%22/ui/items%22") {
		based(b.ask(handler, path, nil).text(), path)
	}
	for _, path := range []string{"/ui/items?filter=status:FAILED", "/ui/dead/letters?filter=since:1h"} {
		require.Regexp(t, "^/tools/pgdispatch"+strings.SplitAfter(path, "?")[0][:10], b.ask(handler, path, nil).to())
	}
	live := httptest.NewRecorder()
	require.NoError(t, site.send(live, httptest.NewRequest("GET", "/ui/live", nil), map[string]string{}))
	based(live.Body.String(), "live")
	require.Regexp(t, "^/tools/pgdispatch/ui/items/8",
		b.ask(handler, "/ui/items/8/retry", url.Values{"act": {"retry"}}).to())
	scoped := newScoped(&namesReader{})
	scoped.Base = site.Base
	require.Regexp(t, inBase, visits(t, scoped.Handler(), rolesIn("Nobody"), "/ui/items").text())
}

func TestScriptsFindTheirPagesByTheirOwnAddress(t *testing.T) {
	t.Parallel()
	files := must.Get(staticFiles.ReadDir("static")).In(t)
	for _, file := range files {
		require.NotContains(t, string(must.Get(staticFiles.ReadFile("static/"+file.Name())).In(t)), Prefix, file.Name())
	}
}

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
