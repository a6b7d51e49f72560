package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func TestKeysLeadToTheFilterTheHelpAndTheRows(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items")
	p.press("j", "j")
	require.Equal(t, p.texts("tbody th")[1], p.focus().Label)
	p.press("k")
	require.Equal(t, p.texts("tbody th")[0], p.focus().Label)
	require.True(t, p.focus().Ring)
	p.press("/")
	require.Equal(t, "filter", ask[string](p, "document.activeElement.name"))
	p.run(chromedp.Evaluate[chromedp.Void](`document.activeElement.value = ""`)) // a simulated key is typed in any case
	p.press("j", "?")
	require.Equal(t, "j?", ask[string](p, "document.activeElement.value"), "in a field, keys are text")
	p.run(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
	p.press("?")
	require.True(t, ask[bool](p, `document.getElementById("help").open`))
	require.Empty(t, p.violations())
	p.press(kb.Escape)
	require.False(t, ask[bool](p, `document.getElementById("help").open`))
}

func TestTheThemeAndTheZoneOfTimesAreChosenAndKept(t *testing.T) {
	t.Parallel()
	set := func(id, value string) step {
		return chromedp.Evaluate[chromedp.Void](`(() => { const e = document.getElementById("` + id + `"); e.value = "` +
			value +
			`"; e.dispatchEvent(new Event("change")); })()`)
	}
	const background = "getComputedStyle(document.body).backgroundColor"
	const first = `document.querySelector("tbody time").textContent`
	p := shared.full.open(t, "/ui/items")
	light := ask[string](p, background)
	require.Regexp(t, ` ago$|^now$`, ask[string](p, first))
	require.Regexp(t, ` UTC$`, ask[string](p, `document.querySelector("tbody time").title`), "the exact time is its hint")
	p.run(set("theme", "dark"), set("times", "utc"))
	require.NotEqual(t, light, ask[string](p, background))
	require.Regexp(t, ` UTC$`, ask[string](p, first))
	require.Empty(t, p.violations())
	p.visit("/ui/workspaces")
	require.NotEqual(t, light, ask[string](p, background), "the theme is kept")
	p.run(set("theme", "light"), dark)
	require.Equal(t, light, ask[string](p, background), "it overrides the system's theme")
	p.visit("/ui/items")
	p.run(set("times", "local"))
	require.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d\d:\d\d$`, ask[string](p, first))
}

func TestLiveUpdatesCanBePaused(t *testing.T) {
	t.Parallel()
	s, p := quiet(t)
	p.run(chromedp.Click(chromedp.CSS("#pause")))
	await(t, func() bool { return p.text("#connection") == "Updates are paused." }, "the page says so")
	held := ask[string](p, asOf)
	s.wait(t, 7)
	p.run(chromedp.Click(chromedp.CSS("#pause")), chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
	await(t, func() bool { return ask[string](p, scheduled) == "7" && ask[string](p, asOf) != held }, "updates resume")
}

func TestAListIsUpdatedByItself(t *testing.T) {
	t.Parallel()
	s := small(t, "PGDISPATCH_ADMIN_TOKEN="+adminToken)
	s.user = "anna:" + adminToken
	s.wait(t, 2)
	p := s.open(t, "/ui/items?status=SCHEDULED")
	rows := func() int { return len(p.texts("tbody tr")) }
	require.Equal(t, 2, rows())
	s.wait(t, 1)
	await(t, func() bool { return rows() == 3 }, "the new item is shown")
	require.Empty(t, p.violations())
	p.run(chromedp.Click(chromedp.CSS("#select-all")))
	s.wait(t, 1)
	await(t, func() bool { return strings.Contains(p.text("#connection"), "while something is selected") },
		"what is selected is not replaced")
	require.Equal(t, 3, rows())
	p.run(chromedp.Click(chromedp.CSS("#select-all")),
		chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
	await(t, func() bool { return rows() == 4 }, "it goes on")
}

func TestDeadLettersAndWorkspacesAreUpdatedByThemselves(t *testing.T) {
	t.Parallel()
	s := small(t)
	letters, list := s.open(t, "/ui/dead"), s.open(t, "/ui/workspaces?sort=name&q=acme")
	before := letters.texts("tbody tr")
	require.NotEmpty(t, before)
	require.NotEmpty(t, list.texts("tbody tr"))
	s.exec(t, `update pgdispatch.workflow_execution_queue set last_error = 'an error of its own'
		where id = (select max(id) from pgdispatch.workflow_execution_queue where status = 'FAILED')`)
	s.exec(t, "insert into pgdispatch.workspaces (name) values ('Acme of today')")
	await(t, func() bool { return strings.Contains(letters.text("#groups"), "an error of its own") }, "a group is shown")
	await(t, func() bool { return strings.Contains(list.text("#workspaces"), "Acme of today") }, "a workspace is shown")
	require.Empty(t, letters.violations())
	require.Empty(t, list.violations())
	letters.run(chromedp.Click(chromedp.CSS("#pause")))
	require.Equal(t, "Updates are paused.", letters.text("#connection"))
}

func TestRowsAreCompactWhereThatIsChosen(t *testing.T) {
	t.Parallel()
	const height = `document.querySelector("tbody tr").getBoundingClientRect().height`
	p := shared.full.open(t, "/ui/items")
	roomy := ask[float64](p, height)
	p.run(chromedp.Click(chromedp.CSS(".menu summary")), chromedp.SetValue(chromedp.CSS("#rows"), "compact"),
		chromedp.Evaluate[chromedp.Void](`document.getElementById("rows").dispatchEvent(new Event("change"))`))
	require.Less(t, ask[float64](p, height), roomy-5)
	require.Empty(t, p.violations())
	p.visit("/ui/items")
	require.Less(t, ask[float64](p, height), roomy-5, "it is kept")
}

func TestOnAPhoneRowsAreCardsOfTwoLines(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/ui/items?status=FAILED", "/ui/workspaces", "/ui/", "/ui/dead", "/ui/dead/letters",
		"/ui/workspaces/" + workspaceID(t, "Acme Oslo")} {
		p := shared.acting.open(t, path, still, phone)
		require.Empty(t, p.texts("main > .scroll table:not(.cards), section > .scroll table:not(.cards)"), path)
		require.NotEmpty(t, p.texts(".cards tbody tr"))
		require.Empty(t, ask[[]string](p, `[...document.querySelectorAll(".cards td, .cards th[scope=row]")]
			.filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth)
			.map(e => e.innerText)`), path)
		require.Empty(t, ask[[]string](p, `[...document.querySelectorAll(".cards tbody tr")]
			.filter(e => e.offsetHeight > (e.querySelector(".under:not(:empty)") ? 88 : 64)).map(e => e.innerText)`), path)
		require.LessOrEqual(t, p.width(), 390, path)
	}
}

func TestSelectedItemsAreCancelledAfterAQuestion(t *testing.T) {
	t.Parallel()
	s := small(t, "PGDISPATCH_ADMIN_TOKEN="+adminToken)
	s.user = "anna:" + adminToken
	s.wait(t, 3)
	p := s.open(t, "/ui/items?status=SCHEDULED")
	require.Len(t, p.texts("tbody tr"), 3)
	p.run(chromedp.Click(chromedp.CSS("#select-all")))
	p.follow(chromedp.Click(chromedp.CSS("button[value=cancel]")))
	require.Equal(t, "Cancel 3 items?", p.text("h1"))
	require.Empty(t, p.violations())
	p.follow(chromedp.Click(chromedp.CSS("button.danger")))
	require.Equal(t, "3 items cancelled.", p.done())
	require.Equal(t, "status=SCHEDULED", ask[string](p,
		"location.search.slice(1).replace(/(count|done|left)=\\w*&?/g, '')"),
		"it leads back to the list")
	require.Equal(t, 3, one[int](t, s,
		"select count(*) from pgdispatch.workflow_execution_queue where status = 'CANCELLED'"))
	p.visit("/ui/items/" + one[string](t, s,
		"select max(id)::text from pgdispatch.workflow_execution_queue where status = 'CANCELLED'"))
	require.Contains(t, p.text("main"), "anna (web)", "the page shows the author")
}
