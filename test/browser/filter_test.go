package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// suggested are the suggestions that are shown.
func (p *tab) suggested() []string {
	p.t.Helper()
	return ask[[]string](p, `[...document.querySelectorAll("#filter-suggestions li")]
		.filter(e => e.checkVisibility()).map(e => e.textContent)`)
}

// typed is the line in the filter.
func (p *tab) typed() string {
	p.t.Helper()
	return ask[string](p, `document.getElementById("filter").value`)
}

// kept are the names of the saved filters.
func (p *tab) kept() []string { p.t.Helper(); return p.texts("#saved li a") }

func (p *tab) enter(line string) { p.t.Helper(); p.press(strings.Split(line, "")...) }

func TestTokensAreSuggestedWhileTheyAreTyped(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items")
	shows := func(want ...string) {
		t.Helper()
		await(t, func() bool { return strings.Join(p.suggested(), "|") == strings.Join(want, "|") }, "suggestions %q", want)
	}
	p.tabTo("Filter")
	shows("status:", "key:", "priority:", "params:", "workspace:", "definition:", "error:", "since:", "until:")
	require.Empty(t, p.violations())
	p.enter("S")
	shows("status:", "since:")
	p.press(kb.ArrowDown, kb.ArrowDown, kb.ArrowUp)
	require.Equal(t, "status:", ask[string](p, `document.getElementById(
		document.getElementById("filter").getAttribute("aria-activedescendant")).textContent`))
	require.Empty(t, p.violations())
	p.press(kb.Enter)
	require.Equal(t, "status:", p.typed())
	await(t, func() bool { return len(p.suggested()) == 10 }, "the statuses are suggested")
	p.enter("fa")
	shows("status:FAILED ")
	p.press(kb.ArrowDown, kb.Enter)
	require.Equal(t, "status:FAILED ", p.typed())
	p.enter("workspace:acme ber")
	await(t, func() bool { return len(p.suggested()) == 0 }, "a space ends a token")
	for range "acme ber" {
		p.press(kb.Backspace)
	}
	p.enter(`"Acme Ber`)
	shows(`workspace:"Acme Berlin" `)
	p.run(chromedp.Click(chromedp.CSS("#filter-suggestions li")))
	require.Equal(t, `status:FAILED workspace:"Acme Berlin" `, p.typed())
	p.enter("definition:")
	await(t, func() bool { return len(p.suggested()) > 0 }, "the definitions of the workspace are suggested")
	for range "definition:" {
		p.press(kb.Backspace)
	}
	p.enter("error:REFUSED")
	await(t, func() bool { return strings.Contains(strings.Join(p.suggested(), ""), "was refused by provider") },
		"errors that contain the text are suggested")
	p.press(kb.Escape)
	require.Empty(t, p.suggested())
	require.Equal(t, "Filter", p.focus().Label)
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "?error=REFUSED&status=FAILED&workspace=Acme+Berlin", ask[string](p, "location.search"))
}

func TestTokensAreRemovedByKeyboardAndByAClick(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items?status=FAILED&workspace=Acme+Berlin&since=168h")
	require.Len(t, p.texts(".token"), 3)
	p.run(chromedp.Click(chromedp.CSS("#filter")))
	p.press(kb.Backspace)
	require.Equal(t, "Remove the filter since: 168h", p.focus().Label)
	p.follow(chromedp.KeyEvent(kb.Backspace))
	require.Equal(t, "?status=FAILED&workspace=Acme+Berlin", ask[string](p, "location.search"))
	p.tabTo("Remove the filter status: FAILED")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "?workspace=Acme+Berlin", ask[string](p, "location.search"))
	p.run(chromedp.SendKeys(chromedp.CSS("#filter"), "status:PENDING"))
	p.follow(chromedp.Click(chromedp.CSS("form[role=search] button")))
	require.Equal(t, "?status=PENDING&workspace=Acme+Berlin", ask[string](p, "location.search"), "what is typed is added")
	p.follow(chromedp.Click(chromedp.CSS(".token")))
	p.follow(chromedp.Click(chromedp.CSS(".token")))
	require.Equal(t, "/ui/items", ask[string](p, "location.pathname + location.search"))
}

func TestAWrongTokenIsExplainedAndKept(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items?status=FAILED", phone)
	p.run(chromedp.SendKeys(chromedp.CSS("#filter"), "tenant:acme"))
	p.follow(chromedp.Click(chromedp.CSS("form[role=search] button")))
	require.Regexp(t, `status of 422 `, strings.Join(p.forgive(), "\n"))
	require.Contains(t, p.text("[role=alert]"), "there is no filter tenant; use status, key,")
	require.Equal(t, "tenant:acme", p.typed())
	require.Len(t, p.texts(".token"), 1)
	require.NotEmpty(t, p.texts("tbody tr"))
	require.Empty(t, p.violations())
	require.LessOrEqual(t, p.width(), 390)
	p.run(dark)
	require.Empty(t, p.violations())
}

func TestFiltersAreSavedByNameInTheBrowser(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items")
	require.False(t, ask[bool](p, `document.getElementById("saved").checkVisibility()`), "there is nothing to save")
	save := func(name string) {
		t.Helper()
		p.run(chromedp.Click(chromedp.CSS("#saved summary")))
		p.run(chromedp.SendKeys(chromedp.CSS("#saved input"), name))
		p.press(kb.Enter)
	}
	p.visit("/ui/items?status=FAILED&workspace=Acme+Berlin")
	save("Berlin <b>")
	require.Equal(t, []string{"Berlin <b>"}, p.kept())
	require.Equal(t, "Saved as Berlin <b>.", p.text("#saved [role=status]"))
	require.Empty(t, p.violations())
	p.visit("/ui/items?since=1h&before=9")
	save("An hour")
	save(strings.Repeat("W", 60))
	require.Equal(t, []string{"An hour", "Berlin <b>", strings.Repeat("W", 60)}, p.kept())
	require.Len(t, p.texts("#saved [aria-current]"), 2)
	p.run(phone)
	require.Empty(t, p.violations())
	require.LessOrEqual(t, p.width(), 390)
	p.run(dark)
	require.Empty(t, p.violations())
	p.visit("/ui/items")
	p.tabTo("Berlin <b>")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "?status=FAILED&workspace=Acme+Berlin", ask[string](p, "location.search"))
	p.tabTo("Forget the filter Berlin <b>")
	p.press(kb.Enter)
	require.Equal(t, []string{"An hour", strings.Repeat("W", 60)}, p.kept())
	require.Equal(t, "An hour", p.focus().Label, "the focus is not lost")
	p.visit("/ui/items")
	require.Equal(t, []string{"An hour", strings.Repeat("W", 60)}, p.kept(), "they are kept")
}

func TestAtMostTwentyFiltersAreSaved(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items?status=FAILED")
	p.run(chromedp.Evaluate[chromedp.Void](`localStorage.setItem("filters", JSON.stringify(
		[...Array(20).keys()].map(n => ({ name: "f" + n, query: "since=" + n + "h" }))))`))
	p.visit("/ui/items?status=FAILED")
	p.run(chromedp.Click(chromedp.CSS("#saved summary")))
	p.run(chromedp.SendKeys(chromedp.CSS("#saved input"), "one more"))
	p.press(kb.Enter)
	require.Contains(t, p.text("#saved [role=status]"), "Not saved: there are 20 filters.")
	require.Len(t, p.kept(), 20)
	p.run(chromedp.SetValue(chromedp.CSS("#saved input"), "f7"))
	p.press(kb.Enter)
	require.Equal(t, "Saved as f7.", p.text("#saved [role=status]"), "in place of the one with that name")
	require.Equal(t, []string{"f7"}, p.texts("#saved [aria-current]"))
	require.Len(t, p.kept(), 20)
}

func TestABrowserThatKeepsNothingSaysSo(t *testing.T) {
	t.Parallel()
	refused := command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `Object.defineProperty(window, "localStorage",
			{ get() { throw new DOMException("no", "SecurityError"); } })`})
	p := shared.full.open(t, "/ui/items?status=FAILED", refused)
	p.run(chromedp.Click(chromedp.CSS("#saved summary")))
	p.run(chromedp.SendKeys(chromedp.CSS("#saved input"), "mine"))
	p.press(kb.Enter)
	require.Contains(t, p.text("#saved [role=status]"), "Not saved")
	require.Empty(t, p.kept())
	for _, text := range []string{"{", "[1, null]", `{"a": 1}`, `[{"name": 1, "query": "x"}]`} {
		p = shared.full.open(t, "/ui/items")
		p.run(chromedp.Evaluate[chromedp.Void]("localStorage.setItem('filters', `" + text + "`)"))
		p.visit("/ui/items")
		require.Empty(t, p.kept(), text)
		p.tabTo("Filter")
		await(t, func() bool { return len(p.suggested()) > 0 }, "the script goes on")
	}
}
