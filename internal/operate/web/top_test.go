package web

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// readInParts are pages that are sent in two parts.
var readInParts = []string{"/ui/", "/ui/?period=6h", "/ui/items", "/ui/items?status=FAILED", "/ui/items/8",
	"/ui/workspaces", "/ui/workspaces/" + id, "/ui/limits", "/ui/dead", "/ui/dead/letters"}

// whenTopIsThere opens a page as a browser does, whose reads fail with err. It lets it be read once its top is there, and
// returns the rest.
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
