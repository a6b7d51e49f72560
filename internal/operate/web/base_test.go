package web

import (
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

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
