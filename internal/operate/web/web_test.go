package web

import (
	"context"
	"html"
	"math"
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

var paths = []string{"/ui/", "/ui/workspaces", "/ui/workspaces?sort=name", "/ui/items", "/ui/items/8",
	"/ui/items/execution-" + id, "/ui/dead",
	"/ui/dead/letters", "/ui/dead/letters?kind=%22%3E%3Cscript%3Ealert(1)", "/ui/workspaces/" + id, "/ui/settings"}

func TestPagesShowWhatOthersTypedAsText(t *testing.T) {
	t.Parallel()
	for _, path := range paths {
		requireHarmless(t, get(t, &fakeReader{rows: 2, letters: []int64{8}}, path))
	}
	for _, path := range append(paths, "/ui/items/8/discard", "/ui/dead/replay",
		"/ui/dead/discard?error=%22%3E%3Cscript%3Ealert(1)") {
		requireHarmless(t, newBrowser(t).get(path))
	}
	get(t, &fakeReader{}, "/ui/items?q=%22%3E%3Cscript%3Ealert(1)&"+
		"workspace=%22%3E%3Cscript%3Ealert(1)%3C/script%3E").hides("<script>alert")
}

func requireHarmless(t *testing.T, p page) {
	t.Helper()
	p.is(200).shows("alert(1)").hides("<script>alert", "\u202e") // the latter reverses text
	require.NotRegexp(t, ` (style|on[a-z]+)="`, p.text(), "%s: the browser would block it", p.path)
	require.Equal(t, 1, strings.Count(p.text(), "<h1>"), p.path)
}

func TestAnItemsPageKeepsNumbersAsTheyAre(t *testing.T) {
	t.Parallel()
	get(t, &fakeReader{}, "/ui/items/8").shows("12345678901234567890", "2026-08-01 12:00:00.000 UTC", "execution-"+id)
}

func TestEmptyPagesSayHowToFillThem(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/ui/": "pgdispatch run", "/ui/workspaces": "insert into pgdispatch.workspaces",
		"/ui/items":               "insert into pgdispatch.workflow_execution_queue",
		"/ui/items?status=FAILED": "No item matches", "/ui/workspaces?q=nobody": "No workspace matches",
		"/ui/dead": "An item is listed here when",
	} {
		get(t, &fakeReader{empty: true}, path).is(200).shows(want)
	}
}

func TestTheAddressSaysWhatIsListed(t *testing.T) {
	t.Parallel()
	f := &fakeReader{}
	get(t, f, "/ui/items?status=FAILED&workspace=Acme&definition="+id+"&error=card&since=24h&until=90m&before=100").shows(
		"before=7&amp;definition=" + id + "&amp;error=card&amp;since=24h&amp;status=FAILED&amp;until=90m&amp;workspace=Acme")
	require.Equal(t, "FAILED", f.status)
	require.Equal(t, []string{id}, f.workspaces)
	require.Equal(t, id, f.definition)
	ago := func(d time.Duration) operate.Moment { return operate.Moment{Ago: &d} }
	require.Equal(t, operate.ItemFilter{Before: 100, Filter: operate.Filter{Workspace: "Acme", Definition: id,
		Error: "card", Since: ago(24 * time.Hour), Until: ago(90 * time.Minute)}}, f.filter)
	f.lists = 0
	get(t, f, "/ui/items?workspace=nobody").shows("No item matches")
	require.Zero(t, f.lists, "an unknown workspace has no items")

	f.rows = pageSize
	get(t, f, nextOf(get(t, f, "/ui/workspaces?sort=oldest"))).is(200)
	require.Equal(t, hostile, f.after.Name, "the next link works for any name")
	for _, name := range []string{"Äcme, and \"more\"", "a\nb\n", hostile} {
		key := operate.WorkspaceKey{Rank: math.Inf(-1), Name: name, ID: id}
		require.Equal(t, key, *must.Get(parseKey(formatKey(key))).In(t))
	}
	for _, name := range []string{"\x00", "\xff"} {
		_, err := parseKey(formatKey(operate.WorkspaceKey{Name: name, ID: id}))
		require.Error(t, err, "Postgres allows no such name")
	}
}

// nextOf returns where a list goes on.
func nextOf(p page) string {
	_, next, _ := strings.Cut(p.text(), `rel="next" href="`)
	next, _, _ = strings.Cut(next, `"`)
	return html.UnescapeString(next)
}

func TestAPageOfALargeInstallationSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	get(t, &fakeReader{rows: 2}, "/ui/workspaces?q=acme").shows(
		"any part of the first 20,000 names. Sorts the first 1,000 found.")
	get(t, &fakeReader{rows: 2}, "/ui/workspaces").hides("20,000")
	long := get(t, &fakeReader{rows: definitionsShown + 1}, "/ui/workspaces/"+id).shows("The first 100 by name.")
	require.Equal(t, definitionsShown, strings.Count(long.text(), `<td class="second name">`)-1)
	get(t, &fakeReader{}, "/ui/workspaces/"+id).hides("The first 100")
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
		get(t, &fakeReader{}, path).is(400).shows(want)
	}
	for _, path := range []string{"/ui/nothing", "/ui/items/9", "/ui/workspaces/" + strings.Replace(id, "1", "2", 1),
		"/ui/static/nothing", "/ui/static/../web.go"} {
		require.Contains(t, []int{404, 307}, get(t, &fakeReader{}, path).Code, path)
	}
}

func TestADatabaseThatIsAwayIsSaidWithoutItsWords(t *testing.T) {
	t.Parallel()
	for _, path := range paths {
		get(t, &fakeReader{err: errAway}, path).is(503).shows("The database did not answer").hides("bob")
	}
}

func TestHoweverManyLookTheDatabaseIsAskedOnce(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	handler := b.site().Handler()
	for range 5 {
		b.ask(handler, "/ui/", nil)
	}
	require.Equal(t, []int{1, 1}, []int{b.read.looks, b.read.listings})
	f := &fakeReader{}
	for _, path := range []string{"/ui/items", "/ui/items?status=PENDING", "/ui/items/8", "/ui/dead", "/ui/limits"} {
		get(t, f, path)
	}
	require.Zero(t, f.looks+f.listings, "other pages read a part of it at most")
	ended, stop := context.WithCancel(t.Context())
	stop()
	f = &fakeReader{}
	must.Get((&Site{Read: f}).glance(ended)).In(t) // a cancelled request does not fail the shared look
}

func TestTheLivePartIsSentUntilTheReaderGoes(t *testing.T) {
	t.Parallel()
	response := opened(t, newBrowser(t).site().Handler(), "/ui/live")
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
}

func TestThePlotsOfTheLastHourAreReadWithoutSeeingThem(t *testing.T) {
	t.Parallel()
	hour := get(t, &fakeReader{}, "/ui/").shows(
		`role="img" aria-label="Waiting, over the last hour: – now, maximum about 12,000"`,
		"<title>12:29 UTC: about 12,000</title>", "<title>12:30 UTC: –</title>",
		`aria-label="Per minute, over the last hour: 0 started, 0 completed, 0 failed now, maximum 120"`,
		"<title>12:29 UTC: 120 started, 10 completed, 1 failed</title>",
		"<td>10 completed, 1 failed</td>",
		` data-minute>12:29 UTC</time><time `, ` data-minute>12:30 UTC</time></span></div>`,
		"<summary>Show as a table</summary>", `<h2 id="full-head">Full limits</h2>`)
	require.Equal(t, 5, strings.Count(hour.text(), `<svg class="plot"`))
	get(t, &fakeReader{empty: true}, "/ui/").shows("No data yet").hides("<svg")
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
		get(t, &fakeReader{}, path).hides("Open in Temporal") // the address of Temporal's UI is not set
		b := newBrowser(t)
		site := b.site()
		site.TemporalUI = "http://localhost:8233"
		b.ask(site.Handler(), path, nil).shows(
			`href="http://localhost:8233/namespaces/default/workflows/execution-` + id + "/%22%3E%3Cscript%3E")
	}
}

func TestOnlyWhatHasChangedIsSentAgain(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	site, sent := b.site(), map[string]string{}
	look := func() string {
		site.live.at = time.Time{}
		answer := httptest.NewRecorder()
		require.NoError(t, site.send(answer, httptest.NewRequest("GET", "/ui/live", nil), sent))
		return answer.Body.String()
	}
	first, whole := look(), b.look("/ui/")
	for _, part := range parts {
		require.Contains(t, first, ` id="`+part+`"`)
		require.Equal(t, 1, strings.Count(whole.text(), ` id="`+part+`"`), "the page contains %s once", part)
	}
	require.NotContains(t, look(), `id="hour"`)
	b.read.rows = 2
	second := look()
	require.Contains(t, second, `id="longest"`)
	require.NotContains(t, second, `id="hour"`)
}

func TestRemediesAreLinksAndNoCommands(t *testing.T) {
	t.Parallel()
	require.Equal(t, `see <a href="`+docs+`operating.md#doctor">doctor</a> &amp; <code>&lt;b&gt;</code>`,
		string(remedy("see `pgdispatch doctor` & `<b>`")))
	text := get(t, &fakeReader{}, "/ui/").text()
	require.NotRegexp(t, `<code>pgdispatch `, text[strings.Index(text, `id="attention"`):strings.Index(text,
		`id="totals"`)])
}
