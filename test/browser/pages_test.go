package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// place is a page and a text that it must show.
type place struct {
	site       *site
	path, text string
}

// places are pages of each kind by name, for readers and for those who may make changes.
func places(t testing.TB) map[string]place {
	t.Helper()
	full, acting := shared.full, shared.acting
	id := func(query string) string { t.Helper(); return one[string](t, full, query) }
	failed := id("select max(id)::text from pgdispatch.workflow_execution_queue where last_error like 'card%'")
	completed := id(`select q.execution_id::text
		from pgdispatch.workflow_execution_queue q join pgdispatch.workspaces w on w.id = q.workspace_id
		where q.status = 'COMPLETED' and q.params->>'note' like '%<script>%' and w.name like '%<script>%'
		order by q.id desc limit 1`)
	ofLong := id(`select q.id::text
		from pgdispatch.workflow_execution_queue q join pgdispatch.workspaces w on w.id = q.workspace_id
		where w.name like 'WWWW%' order by q.id desc limit 1`)
	waiting, running := itemOf(t, "Dunder Oslo", "PENDING"), itemOf(t, "Dunder Oslo", "DISPATCHED")
	long := strings.Repeat("W", 200)
	return map[string]place{
		"overview":                 {full, "/ui/", "Longest waiting workspaces"},
		"workspaces":               {full, "/ui/workspaces", "Next page"},
		"workspaces by name":       {full, "/ui/workspaces?sort=name&q=acme", "Acme Berlin"},
		"hostile workspace":        {full, "/ui/workspaces?q=%3Cscript", `"><script>alert(1)</script>`},
		"foreign workspace":        {full, "/ui/workspaces?q=%F0%9F%9A%80", "مؤسسة الاختبار 🚀 12"},
		"long name":                {full, "/ui/workspaces?q=WWWW", long},
		"workspace of a long name": {full, "/ui/workspaces/" + workspaceID(t, long), "Read-only. To act"},
		"workspace of a hostile name": {acting,
			"/ui/workspaces/" + workspaceID(t, `"><script>alert(1)</script>`), "Set plan"},
		"items":                {full, "/ui/items", "Older items"},
		"items that failed":    {full, "/ui/items?status=FAILED&workspace=Sterling+Oslo", "failed"},
		"items of a long name": {full, "/ui/items?status=FAILED&workspace=" + long, long},
		"items by many filters": {full,
			"/ui/items?status=FAILED&workspace=Sterling+Oslo&error=" + long + "&since=24h&until=1m", "since: 24h"},
		"no item": {full, "/ui/items?workspace=nobody", "No item matches"},
		"failed item": {full, "/ui/items/" + failed,
			"start workflow: the connection was reset"},
		"completed item":               {full, "/ui/items/" + completed, "</pre><script>alert(3)</script>"},
		"item of a long name":          {full, "/ui/items/" + ofLong, long},
		"waiting item to act on":       {acting, "/ui/items/" + waiting, "Cancel this item"},
		"running item to act on":       {acting, "/ui/items/" + running, "Request workflow cancellation"},
		"failed item to act on":        {acting, "/ui/items/" + failed, "Replay as a new item"},
		"question before a terminate":  {acting, "/ui/items/" + running + "/terminate", "Back without changes"},
		"question before a discard":    {acting, "/ui/items/" + failed + "/discard", "Back without changes"},
		"dead letters":                 {full, "/ui/dead", "was refused by provider"},
		"dead letters of a workspace":  {full, "/ui/dead/letters?workspace=Sterling+Oslo", "Sterling Oslo"},
		"dead letters to act on":       {acting, "/ui/dead/letters?workspace=Sterling+Oslo", "Replay all of these"},
		"dry run of many":              {acting, "/ui/dead/discard?error=postcode", "This would discard 1,"},
		"limits":                       {full, "/ui/limits", "courier"},
		"limits to change":             {acting, "/ui/limits", "Add a limit"},
		"settings":                     {full, "/ui/settings", "max-claims"},
		"settings to change":           {acting, "/ui/settings", "Set max-claims"},
		"question before a full pause": {acting, "/ui/settings/pause", "No replica starts items"},
	}
}

func TestEveryPageOpensWithoutAFaultAndIsAccessibleInLightAndDarkAndOnAPhone(t *testing.T) {
	t.Parallel()
	for name, page := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := page.site.open(t, page.path, still)
			require.Contains(t, p.text("main"), page.text)
			require.Len(t, p.texts("h1"), 1)
			require.Empty(t, p.violations())
			// A replica of a version without a tag, as a clone has it.
			p.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll(".version")
				.forEach(e => e.textContent = "v0.0.0-20261123112806-6ef9eb4e8333+dirty")`))
			require.Empty(t, ask[[]string](p, `[...document.querySelectorAll(".scroll")]
					.filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)`),
				"tables that scroll sideways on a wide screen")
			p.run(dark)
			require.Empty(t, p.violations(), "dark")
			p.run(phone)
			require.LessOrEqual(t, p.width(), 390, "the page scrolls sideways")
			require.Empty(t, p.violations(), "dark, on a phone")
			p.run(light)
			require.Empty(t, p.violations(), "on a phone")
		})
	}
}

func TestPagesOfAnEmptyDatabaseTeachAndAreAccessible(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{
		"/ui/": "insert into pgdispatch.workspaces", "/ui/workspaces": "insert into pgdispatch.workspaces",
		"/ui/items": "insert into pgdispatch.workflow_execution_queue", "/ui/dead": "An item is listed here when",
	} {
		p := shared.empty.open(t, path, still)
		require.Contains(t, p.text("main"), text, path)
		for _, look := range []step{light, dark, phone, light} {
			p.run(look)
			require.Empty(t, p.violations(), path)
		}
		require.LessOrEqual(t, p.width(), 390, path)
	}
}

func TestAPageThatThereIsNotSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{
		"/ui/nothing": "Use the links above", "/ui/items/987654321": "Retention may have deleted it",
		"/ui/items?status=DONE": "Correct the address",
	} {
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
	p.run(chromedp.SendKeys(chromedp.CSS(`#filter`), "status:FAILED POSTCODE"))
	p.follow(chromedp.Click(chromedp.CSS(`main form[role=search] button`)))
	p.follow(chromedp.Click(chromedp.CSS(`a[rel=next]`)))
	address, rows := ask[string](p, "location.pathname + location.search"), p.texts("tbody th")
	require.Len(t, rows, 50)
	for _, text := range p.texts("tbody .error") {
		require.Contains(t, text, "no postcode")
	}
	require.Equal(t, rows, shared.full.open(t, address).texts("tbody th"))
}

func TestDeadLettersAreListedPageByPage(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/dead/letters?error=timed+out")
	first := p.texts("tbody th")
	require.Len(t, first, 50)
	p.follow(chromedp.Click(chromedp.CSS(`a[rel=next]`)))
	second := p.texts("tbody th")
	require.Len(t, second, 50)
	require.Empty(t, intersection(first, second))
	for _, text := range p.texts("tbody .error") {
		require.Contains(t, text, "timed out")
	}
	require.Empty(t, p.violations())
}

func intersection(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(text string) bool { return !slices.Contains(b, text) })
}

func TestAnItemsPageTellsItsStory(t *testing.T) {
	t.Parallel()
	// No other test changes this workspace's items.
	p := shared.full.open(t, "/ui/items?status=FAILED&error=postcode&workspace=Sterling+Oslo")
	p.follow(chromedp.Click(chromedp.CSS(`tbody th a`)))
	require.Regexp(t, `^Item \d+$`, p.text("h1"))
	require.Equal(t, "failed", p.text("h1 + .badge"))
	story := p.texts(".timed li")
	require.Len(t, story, 5)
	for n, want := range []string{
		"inserted", "claimed for the first time", "claimed for the last time, attempt 2", "started: workflow execution-",
		"is incomplete: no postcode",
	} {
		require.Contains(t, story[n], want)
	}
	require.Regexp(t, ` UTC$`, story[0])
	require.Len(t, p.texts(".timed .after"), 4, "the durations between the steps")
	require.Contains(t, p.text("#attempts + .story"), "failure 1, attempt 1, on web-1")
	require.Contains(t, p.text("pre"), "12345678901234567890", "every digit is kept")
	p.follow(chromedp.Click(chromedp.CSS(`.facts a`)))
	require.Contains(t, p.text("main"), "Newest items")
}

// Digits that follow right-to-left text are drawn as part of it, unless they are isolated from it.
func TestANameFromRightToLeftMovesNothingBesideIt(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items/"+itemOf(t, "مؤسسة الاختبار 🚀 12", "COMPLETED"))
	require.True(t, ask[bool](p, `(() => {
		const [name, id] = [".facts a", ".facts small"].map(s => document.querySelector(s).getBoundingClientRect());
		return name.bottom <= id.top && name.left === id.left;
	})()`), "the ID is below the name")
}
