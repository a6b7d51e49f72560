package web

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/signin"
)

// browser is a user.
type browser struct {
	t       testing.TB
	read    *fakeReader
	change  *fakeChanger
	header  http.Header
	visitor *signin.Visitor // nil: signed in by a token, or not at all
}

func newBrowser(t testing.TB) *browser {
	return &browser{t, &fakeReader{rows: 1, letters: []int64{8}}, &fakeChanger{},
		http.Header{"Sec-Fetch-Site": {"same-origin"}, "Accept": {"text/html"}}, nil}
}

// as returns a user with this name and the admin token.
func (b *browser) as(name string) *browser {
	signed := http.Request{Header: b.header}
	signed.SetBasicAuth(name, "0123456789abcdef")
	return b
}

func (b *browser) site() *Site {
	return &Site{Read: b.read, Change: b.change, Log: slog.New(slog.DiscardHandler)}
}

// ask requests a page; with a form it is a POST.
func (b *browser) ask(handler http.Handler, path string, form url.Values) page {
	b.t.Helper()
	request := httptest.NewRequest("GET", "http://localhost"+path, nil)
	if form != nil {
		request = httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(form.Encode()))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	maps.Copy(request.Header, b.header)
	if b.visitor != nil {
		request = request.WithContext(signin.With(request.Context(), *b.visitor))
	}
	answer := page{httptest.NewRecorder(), b.t, path}
	handler.ServeHTTP(answer, request)
	policy := answer.Header().Get("Content-Security-Policy")
	require.Contains(b.t, policy, "default-src 'none'")
	require.Contains(b.t, policy, "form-action 'self'")
	require.Equal(b.t, "nosniff", answer.Header().Get("X-Content-Type-Options"))
	return answer
}

// get requests a page as a user who may act.
func (b *browser) get(path string) page {
	b.t.Helper()
	return b.ask(b.site().Acting(), path, nil)
}

// look requests a page as a user who may only look.
func (b *browser) look(path string) page {
	b.t.Helper()
	return b.ask(b.site().Handler(), path, nil)
}

// get requests a page of a site as a user who may only look.
func get(t testing.TB, f *fakeReader, path string) page {
	t.Helper()
	b := newBrowser(t)
	b.read = f
	return b.look(path)
}

func (b *browser) post(path string, form url.Values) page {
	b.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	return b.ask(b.site().Acting(), path, form)
}

// changed checks which changes were made.
func (b *browser) changed(calls ...string) {
	b.t.Helper()
	require.Equal(b.t, calls, b.change.calls)
}

// page is an answer.
type page struct {
	*httptest.ResponseRecorder
	t    testing.TB
	path string
}

func (p page) text() string { return p.Body.String() }

// to is where the answer leads.
func (p page) to() string { return p.Header().Get("Location") }

// is checks the status.
func (p page) is(status int) page {
	p.t.Helper()
	require.Equal(p.t, status, p.Code, p.path)
	return p
}

func (p page) shows(texts ...string) page {
	p.t.Helper()
	for _, text := range texts {
		require.Contains(p.t, p.text(), text, p.path)
	}
	return p
}

func (p page) hides(texts ...string) page {
	p.t.Helper()
	for _, text := range texts {
		require.NotContains(p.t, p.text(), text, p.path)
	}
	return p
}

// opened requests a page of a server, and returns the answer once it begins.
func opened(t *testing.T, handler http.Handler, path string) *http.Response {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)).In(t)
	response := must.Get(server.Client().Do(request)).In(t)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}
