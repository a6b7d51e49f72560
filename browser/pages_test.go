package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// pages are one of each kind, by what they are, with what is to be read there.
func pages(t testing.TB, s *site) map[string]struct{ path, text string } {
	t.Helper()
	failed := one[int64](t, s, "select max(id) from pgdispatch.workflow_execution_queue where last_error like 'card%'")
	completed := one[string](t, s, `select q.execution_id::text from pgdispatch.workflow_execution_queue q join pgdispatch.workspaces w on w.id = q.workspace_id
		where q.status = 'COMPLETED' and q.params->>'note' like '%<script>%' and w.name like '%<script>%' order by q.id desc limit 1`)
	long := one[string](t, s, `select q.id::text from pgdispatch.workflow_execution_queue q join pgdispatch.workspaces w on w.id = q.workspace_id
		where w.name like 'WWWW%' order by q.id desc limit 1`)
	return map[string]struct{ path, text string }{
		"overview":             {"/ui/", "What needs attention"},
		"workspaces":           {"/ui/workspaces", "Next page"},
		"workspaces by name":   {"/ui/workspaces?sort=name&q=e", "Acme Berlin"},
		"hostile workspace":    {"/ui/workspaces?q=%3Cscript", `"><script>alert(1)</script>`},
		"foreign workspace":    {"/ui/workspaces?q=%F0%9F%9A%80", "مؤسسة الاختبار 🚀 12"},
		"long name":            {"/ui/workspaces?q=WWWW", strings.Repeat("W", 200)},
		"items":                {"/ui/items", "Older items"},
		"items that failed":    {"/ui/items?status=FAILED", "no postcode"},
		"items of a long name": {"/ui/items?workspace=" + strings.Repeat("W", 200), strings.Repeat("W", 200)},
		"no item":              {"/ui/items?workspace=nobody", "No item matches"},
		"failed item":          {fmt.Sprintf("/ui/items/%d", failed), "failure 1, at attempt 1, on web-1: start workflow: the connection was reset"},
		"completed item":       {"/ui/items/" + completed, "</pre><script>alert(3)</script>"},
		"item of a long name":  {"/ui/items/" + long, strings.Repeat("W", 200)},
		"dead letters":         {"/ui/dead", "was refused by provider"},
	}
}

func TestEveryPageOpensAndTheBrowserFindsNothingWrongWithIt(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t, shared.full) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := shared.full.open(t, page.path)
			require.Contains(t, p.text("main"), page.text)
			require.Len(t, p.texts("h1"), 1)
			require.NotEmpty(t, ask[string](p, "document.title"))
		})
	}
}

func TestPagesAreAccessibleInLightAndDarkAndOnAPhone(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t, shared.full) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := shared.full.open(t, page.path, still)
			require.Empty(t, p.violations())
			require.Empty(t, ask[[]string](p, `[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)`),
				"what has to be moved sideways on a wide screen")
			p.run(phone)
			require.LessOrEqual(t, p.width(), 390, "the page scrolls sideways")
			p.run(dark)
			require.Empty(t, p.violations(), "dark, on a phone")
		})
	}
}

func TestPagesOfAnEmptyDatabaseTeachAndAreAccessible(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{
		"/ui/": "insert into pgdispatch.workspaces", "/ui/workspaces": "insert into pgdispatch.workspaces",
		"/ui/items": "insert into pgdispatch.workflow_execution_queue", "/ui/dead": "An item comes here when",
	} {
		p := shared.empty.open(t, path, still, phone)
		require.Contains(t, p.text("main"), text, path)
		require.Empty(t, p.violations(), path)
		require.LessOrEqual(t, p.width(), 390, path)
	}
}

func TestAPageThatThereIsNotSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{"/ui/nothing": "The links above", "/ui/items/987654321": "Retention may have deleted it", "/ui/items?status=DONE": "Correct the address"} {
		p := shared.full.open(t, path)
		for _, fault := range p.forgive() {
			require.Regexp(t, `^network: Failed to load resource: the server responded with a status of 40[04] `, fault)
		}
		require.Contains(t, p.text("main"), text)
		require.Empty(t, p.violations(), path)
		p.follow(chromedp.Click(chromedp.CSS(`nav a[href="/ui/"]`)))
		require.Equal(t, "Overview", p.text("h1"))
	}
}

func TestAnAddressShowsTheSameToWhoeverOpensIt(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items")
	p.run(chromedp.SetValue(chromedp.CSS(`[name=status]`), "FAILED"), chromedp.SendKeys(chromedp.CSS(`[name=error]`), "POSTCODE"))
	p.follow(chromedp.Click(chromedp.CSS(`main form button`)))
	p.follow(chromedp.Click(chromedp.CSS(`a[rel=next]`)))
	address, rows := ask[string](p, "location.pathname + location.search"), p.texts("tbody th")
	require.Len(t, rows, 50)
	for _, text := range p.texts("tbody .error") {
		require.Contains(t, text, "no postcode")
	}
	require.Equal(t, rows, shared.full.open(t, address).texts("tbody th"))
}

func TestAnItemsPageTellsItsStory(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items?status=FAILED&error=currency")
	p.follow(chromedp.Click(chromedp.CSS(`tbody th a`)))
	require.Regexp(t, `^Item \d+ FAILED$`, p.text("h1"))
	story := p.texts(".story li")
	require.Len(t, story, 6)
	for n, want := range []string{"inserted", "claimed for the first time", "failure 1, at attempt 1", "claimed for the last time, attempt 2", "started: workflow execution-", "is no currency"} {
		require.Contains(t, story[n], want)
	}
	require.Regexp(t, ` UTC `, story[0])
	require.Contains(t, p.text("pre"), "12345678901234567890", "no digit is lost")
	p.follow(chromedp.Click(chromedp.CSS(`.facts a`)))
	require.Equal(t, "Items", p.text("h1"))
}
