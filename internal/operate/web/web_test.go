package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// hostile is a hostile name.
const hostile = `"><script>alert(1)</script>` + "\u202e"

const id = "11111111-2222-3333-4444-555555555555"

// get requests a page, and returns the status and body.
func get(t *testing.T, f *fakeReader, path string) (int, string) {
	t.Helper()
	site := &Site{Read: f, Log: slog.New(slog.DiscardHandler)}
	answer, request := httptest.NewRecorder(), httptest.NewRequest("GET", "http://localhost"+path, nil)
	request.Header.Set("Accept", "text/html")
	site.Handler().ServeHTTP(answer, request)
	require.Contains(t, answer.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, "nosniff", answer.Header().Get("X-Content-Type-Options"))
	return answer.Code, answer.Body.String()
}

var paths = []string{"/ui/", "/ui/workspaces", "/ui/workspaces?sort=name", "/ui/items", "/ui/items/8",
	"/ui/items/execution-" + id, "/ui/dead",
	"/ui/dead/letters", "/ui/dead/letters?kind=%22%3E%3Cscript%3Ealert(1)", "/ui/workspaces/" + id, "/ui/settings"}

func TestPagesShowWhatOthersTypedAsText(t *testing.T) {
	t.Parallel()
	for _, path := range paths {
		code, text := get(t, &fakeReader{rows: 2, letters: []int64{8}}, path)
		require.Equal(t, 200, code, path)
		requireHarmless(t, path, text)
	}
	for _, path := range append(paths, "/ui/items/8/discard", "/ui/dead/replay",
		"/ui/dead/discard?error=%22%3E%3Cscript%3Ealert(1)") {
		code, text := newBrowser(t).get(path)
		require.Equal(t, 200, code, path)
		requireHarmless(t, path, text)
	}
	_, text := get(t, &fakeReader{}, "/ui/items?q="+
		"%22%3E%3Cscript%3Ealert(1)&workspace=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
	require.NotContains(t, text, "<script>alert")
}

func requireHarmless(t *testing.T, path, text string) {
	t.Helper()
	require.Contains(t, text, "alert(1)", path)
	require.NotContains(t, text, "<script>alert", path)
	require.NotContains(t, text, "\u202e", "%s: text with a reversed direction", path)
	require.NotRegexp(t, ` (style|on[a-z]+)="`, text, "%s: the browser would block it", path)
	require.Equal(t, 1, strings.Count(text, "<h1>"), path)
}

func TestAnItemsPageKeepsNumbersAsTheyAre(t *testing.T) {
	t.Parallel()
	_, text := get(t, &fakeReader{}, "/ui/items/8")
	require.Contains(t, text, "12345678901234567890")
	require.Contains(t, text, "2026-08-01 12:00:00.000 UTC")
	require.Contains(t, text, "execution-"+id)
}

func TestEmptyPagesSayHowToFillThem(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/ui/": "pgdispatch run", "/ui/workspaces": "insert into pgdispatch.workspaces",
		"/ui/items":               "insert into pgdispatch.workflow_execution_queue",
		"/ui/items?status=FAILED": "No item matches", "/ui/workspaces?q=nobody": "No workspace matches",
		"/ui/dead": "An item is listed here when",
	} {
		code, text := get(t, &fakeReader{empty: true}, path)
		require.Equal(t, 200, code)
		require.Contains(t, text, want, path)
	}
}

func TestTheAddressSaysWhatIsListed(t *testing.T) {
	t.Parallel()
	f := &fakeReader{}
	_, text := get(t, f, "/ui/items?status=FAILED&workspace=Acme&definition="+id+"&error=card&since=24h&before=100")
	require.Equal(t, "FAILED", f.status)
	require.Equal(t, []string{id}, f.workspaces)
	require.Equal(t, id, f.definition)
	require.Equal(t, "card", f.filter.Error)
	require.Equal(t, 24*time.Hour, *f.filter.Since.Ago)
	require.EqualValues(t, 100, f.filter.Before)
	require.Contains(t, text, "before=7&amp;definition="+id+
		"&amp;error=card&amp;since=24h&amp;status=FAILED&amp;workspace=Acme", "the next page keeps the filter")
	f.lists = 0
	_, text = get(t, f, "/ui/items?workspace=nobody")
	require.Zero(t, f.lists, "an unknown workspace has no items")
	require.Contains(t, text, "No item matches")

	f.rows = pageSize
	_, text = get(t, f, "/ui/workspaces?sort=oldest")
	_, next, found := strings.Cut(text, `rel="next" href="`)
	require.True(t, found)
	next, _, _ = strings.Cut(next, `"`)
	code, _ := get(t, f, strings.ReplaceAll(next, "&amp;", "&"))
	require.Equal(t, 200, code)
	require.Equal(t, hostile, f.after.Name, "the next link works for any name")
	for _, name := range []string{"Äcme, and \"more\"", "a\nb\n", hostile} {
		key := operate.WorkspaceKey{Rank: math.Inf(-1), Name: name, ID: id}
		parsed := must.Get(parseKey(formatKey(key))).In(t)
		require.Equal(t, key, *parsed)
	}
	for _, name := range []string{"\x00", "\xff"} {
		_, err := parseKey(formatKey(operate.WorkspaceKey{Name: name, ID: id}))
		require.Error(t, err, "Postgres allows no such name")
	}
}

func TestAPageOfALargeInstallationSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	_, text := get(t, &fakeReader{rows: 2}, "/ui/workspaces?q=acme")
	require.Contains(t, text, "any part of the first 20,000 names. Sorts the first 1,000 found.")
	_, text = get(t, &fakeReader{rows: 2}, "/ui/workspaces")
	require.NotContains(t, text, "20,000")
	_, text = get(t, &fakeReader{rows: definitionsShown + 1}, "/ui/workspaces/"+id)
	require.Contains(t, text, "The first 100 by name.")
	require.Equal(t, definitionsShown, strings.Count(text, `<td class="second name">`)-1)
	_, text = get(t, &fakeReader{}, "/ui/workspaces/"+id)
	require.NotContains(t, text, "The first 100")
}

func TestABadAddressSaysWhatItShouldBe(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/ui/items?status=DONE": "status must be one of PENDING", "/ui/items?since=-1h": "since must be how long ago",
		"/ui/items?before=x":       "before must be",
		"/ui/items?definition=%00": "definition must be text", "/ui/workspaces/x": "A workspace is identified by its ID",
		"/ui/dead/letters?since=x": "since must be how long ago", "/ui/dead/letters?kind=%00": "kind must be text",
		"/ui/dead/letters?kind=a&error=b": "kind cannot be combined with",
		"/ui/dead/letters?workspace=%1b":  "workspace must be text", "/ui/items?error=%00": "error must be text",
		"/ui/items?error=" + strings.Repeat("x", 201): "error must be text",
		"/ui/items/zzz": "An item is identified by", "/ui/workspaces?after=%25": "after is not a valid position",
		"/ui/workspaces?after=eA": "after is not a valid position", "/ui/workspaces?q=%1b": "q must be text",
	} {
		code, text := get(t, &fakeReader{}, path)
		require.Equal(t, 400, code, path)
		require.Contains(t, text, want, path)
	}
	for _, path := range []string{"/ui/nothing", "/ui/items/9", "/ui/workspaces/" + strings.Replace(id, "1", "2", 1),
		"/ui/static/nothing", "/ui/static/../web.go"} {
		code, _ := get(t, &fakeReader{}, path)
		require.Contains(t, []int{404, 307}, code, path)
	}
}

func TestADatabaseThatIsAwayIsSaidWithoutItsWords(t *testing.T) {
	t.Parallel()
	for _, path := range paths {
		code, text := get(t, &fakeReader{err: errors.New("password of user bob")}, path)
		require.Equal(t, 503, code, path)
		require.Contains(t, text, "The database did not answer")
		require.NotContains(t, text, "bob")
	}
}

func TestHoweverManyLookTheDatabaseIsAskedOnce(t *testing.T) {
	t.Parallel()
	f := &fakeReader{}
	site := &Site{Read: f, Log: slog.New(slog.DiscardHandler)}
	handler := site.Handler()
	for range 5 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/ui/", nil))
	}
	require.Equal(t, []int{1, 1}, []int{f.looks, f.listings})
	f = &fakeReader{}
	for _, path := range []string{"/ui/items", "/ui/items?status=PENDING", "/ui/items/8", "/ui/dead", "/ui/limits"} {
		_, _ = get(t, f, path)
	}
	require.Zero(t, f.looks+f.listings, "other pages read a part of it at most")
	ended, stop := context.WithCancel(t.Context())
	stop()
	f = &fakeReader{}
	_, err := (&Site{Read: f}).glance(ended)
	require.NoError(t, err, "a cancelled request does not fail the shared look")
}

func TestTheLivePartIsSentUntilTheReaderGoes(t *testing.T) {
	t.Parallel()
	site := &Site{Read: &fakeReader{rows: 1}, Log: slog.New(slog.DiscardHandler)}
	server := httptest.NewServer(site.Handler())
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := must.Get(http.NewRequestWithContext(ctx, "GET", server.URL+"/ui/live", nil)).In(t)
	response := must.Get(http.DefaultClient.Do(request)).In(t)
	defer response.Body.Close()
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	var text strings.Builder
	for part := make([]byte, 4096); !strings.Contains(text.String(), "\n\n"); {
		n := must.Get(response.Body.Read(part)).In(t)
		text.Write(part[:n])
	}
	for line := range strings.Lines(strings.TrimRight(text.String(), "\n")) {
		require.True(t, strings.HasPrefix(line, "data: "), line)
	}
	require.Contains(t, text.String(), "about 1,000,000")
	cancel()
	_, err := io.ReadAll(response.Body)
	require.Error(t, err)
}

func TestThePlotsOfTheLastHourAreReadWithoutSeeingThem(t *testing.T) {
	t.Parallel()
	_, text := get(t, &fakeReader{}, "/ui/")
	require.Equal(t, 5, strings.Count(text, `<svg class="plot"`))
	for _, want := range []string{
		`role="img" aria-label="Waiting, over the last hour: – now, maximum about 12,000"`,
		"<title>12:29 UTC: about 12,000</title>", "<title>12:30 UTC: –</title>",
		`aria-label="Per minute, over the last hour: 0 started, 0 completed, 0 failed now, maximum 120"`,
		"<title>12:29 UTC: 120 started, 10 completed, 1 failed</title>",
		"<td>10 completed, 1 failed</td>",
		` data-minute>12:29 UTC</time><time `, ` data-minute>12:30 UTC</time></span></div>`,
		"<summary>Show as a table</summary>", `<h2 id="full-head">Full limits</h2>`,
	} {
		require.Contains(t, text, want)
	}
	_, text = get(t, &fakeReader{empty: true}, "/ui/")
	require.NotContains(t, text, "<svg")
	require.Contains(t, text, "No data yet")
}

func TestBarsStandOnOneAnotherAndFitThePlot(t *testing.T) {
	t.Parallel()
	text := string(plot("hour", view.Plot{Name: "Ended", Parts: []string{"completed", "failed"}, Most: 1000,
		Write: view.Rate,
		Bars:  []view.Bar{{Tops: []float64{999, 1000}}, {Tops: []float64{0, 1}}, {}}}))
	require.Contains(t, text, `<path class="completed" d="M1 1h8v179h-8z"/><path class="failed" d="M1 0h8v1h-8z"/>`)
	require.Contains(t, text, `<path class="failed" d="M11 178h8v2h-8z"/>`, "a value above zero is visible")
	require.Equal(t, 1, strings.Count(text, `class="completed"`))
}

func TestAWorkflowHasALinkToTemporal(t *testing.T) {
	t.Parallel()
	item := dead
	item.Namespace, item.RunID = "a/b ?\"", "run#1"
	for base, want := range map[string]string{
		"http://localhost:8233": "http://localhost:8233/namespaces/a%2Fb%20%3F%22/workflows/execution-" + id + "/run%231",
		"https://t.example/ui/": "https://t.example/ui/namespaces/a%2Fb%20%3F%22/workflows/execution-" + id + "/run%231",
		"":                      "",
	} {
		require.Equal(t, want, (&Site{TemporalUI: base}).inTemporal(item))
	}
	item.RunID = ""
	require.Empty(t, (&Site{TemporalUI: "http://localhost:8233"}).inTemporal(item), "no run was started")

	for _, path := range []string{"/ui/items", "/ui/items/8"} {
		_, text := get(t, &fakeReader{}, path)
		require.NotContains(t, text, "Open in Temporal", "the address of Temporal's UI is not set")
		answer := httptest.NewRecorder()
		site := &Site{Read: &fakeReader{}, TemporalUI: "http://localhost:8233", Log: slog.New(slog.DiscardHandler)}
		site.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost"+path, nil))
		require.Contains(t, answer.Body.String(), `href="http://localhost:8233/namespaces/default/workflows/execution-`+id+
			"/%22%3E%3Cscript%3E")
	}
}

func TestOnlyWhatHasChangedIsSentAgain(t *testing.T) {
	t.Parallel()
	f := &fakeReader{rows: 1}
	site := &Site{Read: f, Log: slog.New(slog.DiscardHandler)}
	sent := map[string]string{}
	look := func() string {
		site.live.at = time.Time{}
		answer := httptest.NewRecorder()
		require.NoError(t, site.send(answer, httptest.NewRequest("GET", "/ui/live", nil), sent))
		return answer.Body.String()
	}
	first := look()
	for _, part := range parts {
		require.Contains(t, first, ` id="`+part+`"`)
	}
	_, page := get(t, f, "/ui/")
	for _, part := range parts {
		require.Equal(t, 1, strings.Count(page, ` id="`+part+`"`), "the page contains %s once", part)
	}
	require.NotContains(t, look(), `id="hour"`)
	f.rows = 2
	second := look()
	require.Contains(t, second, `id="longest"`)
	require.NotContains(t, second, `id="hour"`)
}

func TestARemedyIsTextWithCommandsInIt(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, "see <code>a &lt;b&gt;</code> &amp; c", remedy("see `a <b>` & c"))
}
