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
	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// heldReader reads what pages are slow for only once it may, and then fails with err.
type heldReader struct {
	*fakeReader
	may chan struct{}
	err error
}

func held(err error) *heldReader { return &heldReader{&fakeReader{}, make(chan struct{}), err} }

func hold[T any](h *heldReader, read func() (T, error)) (T, error) {
	<-h.may
	got, err := read()
	if h.err != nil {
		err = h.err
	}
	return got, err
}

func (h *heldReader) Overview(ctx context.Context) (operate.Overview, error) {
	return hold(h, func() (operate.Overview, error) { return h.fakeReader.Overview(ctx) })
}

func (h *heldReader) EndedItems(ctx context.Context, of []string) ([]operate.EndedCount, error) {
	return hold(h, func() ([]operate.EndedCount, error) { return h.fakeReader.EndedItems(ctx, of) })
}

func (h *heldReader) ListWorkspaces(ctx context.Context, search string, by operate.WorkspaceOrder,
	after *operate.WorkspaceKey, atMost int) ([]operate.WorkspaceRow, error) {
	return hold(h, func() ([]operate.WorkspaceRow, error) {
		return h.fakeReader.ListWorkspaces(ctx, search, by, after, atMost)
	})
}

func (h *heldReader) WorkspaceActivity(ctx context.Context, id string, back time.Duration) ([]operate.Stretch, error) {
	return hold(h, func() ([]operate.Stretch, error) { return h.fakeReader.WorkspaceActivity(ctx, id, back) })
}

func (h *heldReader) Failures(ctx context.Context, item int64) ([]operate.Failure, error) {
	return hold(h, func() ([]operate.Failure, error) { return h.fakeReader.Failures(ctx, item) })
}

func (h *heldReader) UnlimitedKeys(ctx context.Context, atMost int) ([]operate.LimitKey, error) {
	return hold(h, func() ([]operate.LimitKey, error) { return h.fakeReader.UnlimitedKeys(ctx, atMost) })
}

func (h *heldReader) DeadGroups(ctx context.Context, atMost int) ([]operate.DeadGroup, error) {
	return hold(h, func() ([]operate.DeadGroup, error) { return h.fakeReader.DeadGroups(ctx, atMost) })
}

func (h *heldReader) Items(ctx context.Context, items []int64, executions []string,
	params bool) ([]operate.Item, error) {
	if params { // of an item's page: whether there is one
		return h.fakeReader.Items(ctx, items, executions, params)
	}
	return hold(h, func() ([]operate.Item, error) { return h.fakeReader.Items(ctx, items, executions, params) })
}

// readInParts are pages that are sent in two parts.
var readInParts = []string{"/ui/", "/ui/?period=6h", "/ui/items", "/ui/items?status=FAILED", "/ui/items/8",
	"/ui/workspaces", "/ui/workspaces/" + id, "/ui/limits", "/ui/dead", "/ui/dead/letters"}

// whenTopIsThere opens a page as a browser does. It lets it be read once its top is there, and returns the rest.
func whenTopIsThere(t *testing.T, h *heldReader, base, path string) (code int, top, rest string, log string) {
	t.Helper()
	var logged bytes.Buffer
	site := &Site{Read: h, Base: base, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	server := httptest.NewServer(site.Handler())
	defer server.Close()
	let := sync.OnceFunc(func() { close(h.may) })
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
		code, top, rest, _ := whenTopIsThere(t, held(nil), "/tools", path)
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
		code, _, rest, log := whenTopIsThere(t, held(errAway), "", path)
		require.Equal(t, 200, code, "it was sent with the top")
		require.Contains(t, rest, "<h1>The database did not answer.</h1>", path)
		require.NotContains(t, rest, "bob")
		require.Contains(t, log, "Cannot serve a page", path)

		h := held(errAway)
		close(h.may)
		answer := httptest.NewRecorder()
		site := &Site{Read: h, Log: slog.New(slog.DiscardHandler)}
		site.Handler().ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		require.Equal(t, 503, answer.Code, "a program is told: %s", path)
	}
}

func TestBrowsersKeepStaticFilesUntilTheyChange(t *testing.T) {
	t.Parallel()
	handler := (&Site{Read: &fakeReader{}, Log: slog.New(slog.DiscardHandler)}).Handler()
	ask := func(path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		return answer
	}
	page := ask("/ui/items")
	require.Equal(t, "no-store", page.Header().Get("Cache-Control"))
	found := regexp.MustCompile(`"(/ui/static/[^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	require.Len(t, found, 7)
	for _, path := range found {
		file := ask(path[1])
		require.Equal(t, 200, file.Code, path[1])
		require.Equal(t, "private, max-age=31536000, immutable", file.Header().Get("Cache-Control"))
	}
	other := ask("/ui/static/0123456789abcdef/style.css")
	require.Equal(t, 200, other.Code, "during an update, another version's page gets what there is")
	require.Equal(t, "no-store", other.Header().Get("Cache-Control"))
	for _, none := range []string{"/ui/static/", "/ui/static/x/", "/ui/static/style.css/", staticPath + "nothing",
		staticPath + "..%2fweb.go"} {
		require.Contains(t, []int{400, 404}, ask(none).Code, none)
	}
}
