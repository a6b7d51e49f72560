package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// asOf is the time of the overview's data.
const asOf = `[...document.querySelectorAll("#live time")].at(-1).dateTime`

// scheduled is the number of scheduled items that the overview shows.
const scheduled = `document.querySelectorAll(".figures dd")[1].innerText`

// wait enqueues items that are not due for a day.
func (s *site) wait(t testing.TB, items int) {
	t.Helper()
	s.exec(t, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() + interval '1 day' from pgdispatch.workflow_definitions limit $1`, items)
}

// layout is the scroll position, and the position of each fixed part of the overview down to the replicas. The part
// below them grows with the number of events.
const layout = `JSON.stringify([scrollY, document.querySelector("#replicas .scroll").scrollLeft,
	...["h1", "#attention", ".figures", "#hour", ".plot", "#replicas", "#replicas .scroll"].map(
		e => Math.round(document.querySelector(e).getBoundingClientRect().top))])`

// tablet fits every sentence above the replicas without a line break, but not their table.
var tablet = chromedp.EmulateViewport(700, 800)

// updated waits until the page shows newer data.
func (p *tab) updated() {
	p.t.Helper()
	before := ask[string](p, asOf)
	await(p.t, func() bool { return ask[string](p, asOf) != before }, "the overview is updated")
}

// quiet opens a separate site, once nothing on it changes by itself.
func quiet(t testing.TB) (*site, *tab) {
	t.Helper()
	s := small(t)
	p := s.open(t, "/ui/", tablet)
	await(t, func() bool {
		return strings.Contains(p.text("#replicas .scroll"), "listening") &&
			strings.Contains(p.text(".concerns"), "dead letters wait")
	}, "the replica has reported that it listens")
	p.updated()
	return s, p
}

func TestTheOverviewChangesByItselfAndNothingJumps(t *testing.T) {
	t.Parallel()
	s, p := quiet(t)
	p.run(chromedp.Evaluate[chromedp.Void](`scrollTo(0, 200);
		document.querySelector("#replicas .scroll").scrollLeft = 60`))
	before := ask[string](p, layout)
	require.Contains(t, before, "[200,60,")
	require.Equal(t, "0", ask[string](p, scheduled))
	s.wait(t, 7)
	await(t, func() bool { return ask[string](p, scheduled) == "7" }, "seven items are scheduled")
	p.updated()
	require.Equal(t, before, ask[string](p, layout))
}

func TestWhatIsReadIsHeldStillAndThePageSaysSo(t *testing.T) {
	t.Parallel()
	s, p := quiet(t)
	p.tabTo("Waiting")
	s.wait(t, 7)
	await(t, func() bool { return p.text("#connection") != "" }, "the page says that updates are paused")
	require.Contains(t, p.text("#connection"), "Escape")
	require.Equal(t, "0", ask[string](p, scheduled), "the figure is frozen")
	held := ask[string](p, asOf)
	require.Equal(t, "Waiting", p.focus().Label)
	p.press(kb.Escape)
	await(t, func() bool { return p.text("#connection") == "" && ask[string](p, asOf) != held }, "updates resume")
	require.Equal(t, "7", ask[string](p, scheduled))
}

func TestALostConnectionIsSaidAndTakenUpAgain(t *testing.T) {
	t.Parallel()
	s, p := quiet(t)
	before := ask[string](p, layout)
	require.NoError(t, s.replica.Kill())
	await(t, func() bool { return p.text("#connection") != "" }, "the page says that the connection is lost")
	require.Contains(t, p.text("#connection"), "Connection lost")
	require.True(t, ask[bool](p, `document.getElementById("connection").checkVisibility()`))
	require.Equal(t, before, ask[string](p, layout), "the message does not move the layout")
	seen := ask[string](p, asOf)
	require.NoError(t, s.start(t.Context()))
	await(t, func() bool { return p.text("#connection") == "" && ask[string](p, asOf) != seen }, "updates resume")
	p.forgive()
}

func TestAProxyThatAnswersInsteadIsOutwaited(t *testing.T) {
	t.Parallel()
	target, err := url.Parse(shared.empty.origin)
	require.NoError(t, err)
	var down atomic.Bool
	var refused atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			refused.Add(1)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p := openAt(t, server.URL, "", "/ui/")
	p.updated()
	down.Store(true)
	server.CloseClientConnections()
	await(t, func() bool { return refused.Load() > 1 },
		"the page reconnects after an error response, which no browser does by itself")
	require.Contains(t, p.text("#connection"), "Connection lost")
	down.Store(false)
	seen := ask[string](p, asOf)
	await(t, func() bool { return p.text("#connection") == "" && ask[string](p, asOf) != seen }, "updates resume")
	p.forgive()
}
