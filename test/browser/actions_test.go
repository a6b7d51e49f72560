package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func workspaceID(t testing.TB, name string) string {
	t.Helper()
	return one[string](t, shared.full, "select id::text from pgdispatch.workspaces where name = $1", name)
}

// itemOf returns an item of a workspace that has the given status. Tests that change items use their own workspaces.
func itemOf(t testing.TB, workspace, status string) string {
	t.Helper()
	return one[string](t, shared.full,
		`select max(id)::text from pgdispatch.workflow_execution_queue where workspace_id = $1 and status = $2`,
		workspaceID(t, workspace), status)
}

// executionOf returns an item's execution ID.
func executionOf(t testing.TB, item string) string {
	t.Helper()
	return one[string](t, shared.full,
		"select execution_id::text from pgdispatch.workflow_execution_queue where id = $1::text::bigint", item)
}

// logged returns the tests' own entries of the audit log whose subject contains the given text, newest last.
func logged(t testing.TB, about string) []string {
	t.Helper()
	return loggedIn(t, shared.full, about)
}

func loggedIn(t testing.TB, s *site, about string) []string {
	t.Helper()
	return one[[]string](t, s, `select coalesce(array_agg(action order by id), '{}') from pgdispatch.admin_log
		where who = 'anna (web)' and position($1 in subject || details::text) > 0`, about)
}

// loggedItems counts the items in the audit log under an action whose rows match the condition.
func loggedItems(t testing.TB, action, condition string, args ...any) int {
	t.Helper()
	return one[int](t, shared.full, `select count(*)
		from pgdispatch.admin_log l, jsonb_array_elements_text(l.details -> 'items') i
		join pgdispatch.workflow_execution_queue q on q.id = i::bigint
		where l.who = 'anna (web)' and l.action = $1 and `+condition, append([]any{action}, args...)...)
}

// done returns the page's confirmation of the last change.
func (p *tab) done() string { p.t.Helper(); return p.text(".done") }

func TestAWorkspaceIsChangedFromItsPage(t *testing.T) {
	t.Parallel()
	id := workspaceID(t, "Wonka Oslo")
	state := func() string {
		return one[string](t, shared.full, `select concat_ws(' ', plan,
				coalesce(max_concurrent_workflows::text, '-'), coalesce(max_starts_per_second::text, '-'), paused)
			from pgdispatch.workspaces where id = $1`, id)
	}
	require.Equal(t, "ENTERPRISE - - f", state())
	p := shared.acting.open(t, "/ui/workspaces/"+id)
	p.tabTo("Pause this workspace")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.done(), "Done.")
	require.Contains(t, p.text(".title"), "paused")
	require.Equal(t, "ENTERPRISE - - t", state())
	p.follow(chromedp.Click(chromedp.CSS(`[value=resume]`)))
	require.Equal(t, "ENTERPRISE - - f", state())

	p.tabTo("Plan")
	p.press("P")
	p.tabTo("Set plan")
	p.follow(chromedp.KeyEvent(" "))
	p.tabTo("Concurrent workflows")
	p.press("7")
	p.follow(chromedp.KeyEvent(kb.Enter))
	p.run(chromedp.SendKeys(chromedp.CSS(`[name=rate]`), "2.5"))
	p.follow(chromedp.Click(chromedp.CSS(`[value=rate]`)))
	require.Equal(t, "PRO 7 2.5 f", state())

	p.run(chromedp.SetValue(chromedp.CSS(`[name=limit]`), "some"))
	p.follow(chromedp.Click(chromedp.CSS(`[value=limit]`)))
	require.Regexp(t, `^network: Failed to load resource: the server responded with a status of 422 `,
		strings.Join(p.forgive(), "\n"))
	require.Contains(t, p.text("[role=alert]"), "Nothing was changed")
	require.Equal(t, "some", ask[string](p, `document.querySelector("[name=limit]").value`),
		"the form keeps the input")
	require.Empty(t, p.violations())
	p.run(chromedp.Clear(chromedp.CSS(`[name=limit]`)))
	p.follow(chromedp.Click(chromedp.CSS(`[value=limit]`)))
	require.Equal(t, "PRO - 2.5 f", state())

	changes := []string{"workspaces pause", "workspaces resume", "workspaces set-plan", "workspaces set-limit",
		"workspaces set-rate", "workspaces set-limit"}
	require.Equal(t, changes, logged(t, id))
	require.Len(t, p.texts("[aria-label='Table of changes'] tbody tr"), len(changes))
	require.Empty(t, p.violations())
	p.run(phone)
	require.LessOrEqual(t, p.width(), 390, "the page scrolls sideways")
}

func TestAnItemIsWithdrawnOrHurriedOrEndedFromItsPage(t *testing.T) {
	t.Parallel()
	status := func(item string) string {
		return one[string](t, shared.full,
			"select status from pgdispatch.workflow_execution_queue where id = $1::text::bigint", item)
	}
	waiting := itemOf(t, "Hooli Graz", "PENDING")
	p := shared.acting.open(t, "/ui/items/"+waiting)
	p.tabTo("Cancel this item")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.done(), "Cancelled")
	require.Equal(t, "CANCELLED", status(waiting))
	require.Equal(t, []string{"items cancel"}, logged(t, "["+waiting+"]"))

	later := one[string](t, shared.full, `
		insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() + interval '1 day' from pgdispatch.workflow_definitions
		where workspace_id = $1 limit 1 returning id::text`, workspaceID(t, "Hooli Graz"))
	p.visit("/ui/items/" + later)
	p.follow(chromedp.Click(chromedp.CSS(`[value=retry]`)))
	require.Contains(t, p.done(), "due now")
	require.True(t, one[bool](t, shared.full,
		"select run_at <= now() from pgdispatch.workflow_execution_queue where id = $1::text::bigint", later))
	require.Equal(t, []string{"items retry"}, logged(t, "["+later+"]"))

	running := itemOf(t, "Dunder Cork", "DISPATCHED")
	p.visit("/ui/items/" + running)
	p.tabTo("Request workflow cancellation")
	p.press(kb.Enter)
	p.tabTo("Reason")
	p.press("the customer asked")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.done(), "Requested")
	await(t, func() bool { return status(running) == "FAILED" }, "its workflow is cancelled")
	p.visit("/ui/items/" + running)
	require.Contains(t, p.text(".story"), "cancellation requested by anna (web): the customer asked")
	require.Equal(t, []string{"executions cancel"}, logged(t, executionOf(t, running)))

	running = itemOf(t, "Dunder Cork", "DISPATCHED")
	p.visit("/ui/items/" + running)
	p.tabTo("Terminate workflow")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "DISPATCHED", status(running), "no change before the confirmation")
	p.tabTo("Terminate")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.done(), "Requested")
	await(t, func() bool { return status(running) == "FAILED" }, "its workflow is terminated")
	require.Equal(t, []string{"executions terminate"}, logged(t, executionOf(t, running)))
}

// An execution that Temporal does not find is given up once that is confirmed.
func TestGiveUp_IsConfirmedOnAPageOfItsOwn(t *testing.T) {
	t.Parallel()
	item := one[string](t, shared.full, `
		insert into pgdispatch.missing_executions (execution_id, since, asked_at, young)
		select q.execution_id, now(), now(), true from pgdispatch.workflow_execution_queue q
		where q.status = 'DISPATCHED' and q.workspace_id <> $1 order by q.id limit 1
		returning (select q.id::text from pgdispatch.workflow_execution_queue q
			where q.execution_id = missing_executions.execution_id)`,
		workspaceID(t, "Dunder Cork"))
	givenUp := func() string {
		return one[string](t, shared.full, `select coalesce(given_up_by, '') from pgdispatch.missing_executions
			where execution_id::text = $1`, executionOf(t, item))
	}

	p := shared.acting.open(t, "/ui/items/"+item)
	p.tabTo("Give up")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.text("main"), "TEMPORAL_ADDRESS leads to the right cluster")
	require.Empty(t, givenUp(), "no change before the confirmation")
	p.tabTo("Give up")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.done(), "Given up")
	require.Equal(t, "anna (web)", givenUp())
	require.Equal(t, []string{"executions give-up"}, logged(t, "["+item+"]"))
	p.visit("/ui/items?status=MISSING")
	require.Contains(t, p.text("#items"), item)
}

func TestADeadLetterIsReplayedOrDiscardedFromItsPage(t *testing.T) {
	t.Parallel()
	mark := func(item string) string {
		return one[string](t, shared.full,
			"select coalesce((select mark from pgdispatch.dead_letter_marks where item_id = $1::text::bigint), 'open')", item)
	}
	first, second := itemOf(t, "Stark Oslo", "FAILED"), itemOf(t, "Stark Nice", "FAILED")
	p := shared.acting.open(t, "/ui/items/"+first)
	p.tabTo("Replay as a new item")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.done(), "Replayed")
	require.Equal(t, "REPLAYED", mark(first))
	require.Equal(t, []string{"dead replay"}, logged(t, executionOf(t, first)))
	p.run(chromedp.Evaluate[chromedp.Void](`document.querySelector(".facts a[href^='/ui/items/']").focus()`))
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.text(".story"), "as a replay of item "+first)

	p.visit("/ui/items/" + second)
	p.follow(chromedp.Click(chromedp.CSS(`a[href$="/discard"]`)))
	p.follow(chromedp.Click(chromedp.CSS(`.back a`)))
	require.Equal(t, "open", mark(second), "nothing was changed")
	p.follow(chromedp.Click(chromedp.CSS(`a[href$="/discard"]`)))
	p.tabTo("Discard")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.done(), "Discarded")
	require.Equal(t, "DISCARDED", mark(second))
	require.Equal(t, []string{"dead discard"}, logged(t, "["+second+"]"))
}

func TestManyDeadLettersAreReplayedOrDiscardedAfterADryRun(t *testing.T) {
	t.Parallel()
	marked := func(mark, errors string) int {
		return one[int](t, shared.full, `select count(*)
			from pgdispatch.dead_letter_marks m join pgdispatch.workflow_execution_queue q on q.id = m.item_id
			where m.mark = $1 and q.last_error like $2`, mark, errors)
	}
	p := shared.acting.open(t, "/ui/dead")
	p.tabTo(`"><img src=x onerror=alert(…)> is no currency`)
	p.follow(chromedp.KeyEvent(kb.Enter))
	p.tabTo("Replay all of these")
	p.follow(chromedp.KeyEvent(kb.Enter))
	question := regexp.MustCompile(`This would replay (\d+) dead letters of \d+ workspaces\.`)
	asked := question.FindStringSubmatch(p.text("main"))
	require.NotNil(t, asked)
	require.Zero(t, marked("REPLAYED", "%currency"), "no change before the confirmation")
	p.tabTo("Replay ")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, asked[1]+" items replayed.", p.done())
	require.Equal(t, "Open dead letters", p.text("h1"))
	require.Empty(t, p.violations())
	require.Equal(t, asked[1], strconv.Itoa(marked("REPLAYED", "%currency")))
	require.Equal(t, asked[1], strconv.Itoa(loggedItems(t, "dead replay", "q.last_error like '%currency'")))

	p.visit("/ui/dead")
	p.tabTo("Filter")
	p.press(`workspace:"Tyrell Lima"`)
	p.follow(chromedp.KeyEvent(kb.Enter))
	p.follow(chromedp.Click(chromedp.CSS(`a[href^="/ui/dead/discard"]`)))
	p.follow(chromedp.Click(chromedp.CSS(`button.danger`)))
	require.Regexp(t, `^\d+ items discarded\.$`, p.done())
	tyrell := workspaceID(t, "Tyrell Lima")
	require.Equal(t, one[int](t, shared.full,
		"select count(*) from pgdispatch.workflow_execution_queue where status = 'FAILED' and workspace_id = $1", tyrell),
		one[int](t, shared.full, `select count(*)
			from pgdispatch.dead_letter_marks m join pgdispatch.workflow_execution_queue q on q.id = m.item_id
			where q.workspace_id = $1`, tyrell))
	require.Equal(t, strings.Fields(p.done())[0],
		strconv.Itoa(loggedItems(t, "dead discard", "q.workspace_id = $2", tyrell)))
	p.visit("/ui/dead/letters?workspace=Tyrell+Lima")
	require.Contains(t, p.text("main"), "No open dead letter matches")
}

func TestEverythingIsPausedAfterAQuestion(t *testing.T) {
	t.Parallel()
	s := small(t, "PGDISPATCH_ADMIN_TOKEN="+adminToken)
	s.user = "anna:" + adminToken
	settings := func() string { return one[string](t, s, "select max_claims || ' ' || paused from pgdispatch.settings") }
	p := s.open(t, "/ui/settings")
	p.tabTo("Pause everything")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "100 false", settings(), "no change before the confirmation")
	p.tabTo("Pause everything")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "100 true", settings())
	p.visit("/ui/")
	require.Regexp(t, `Dispatching is paused .* Since .* UTC, by anna \(web\)\.`, p.text(".concerns"))
	p.visit("/ui/items")
	require.Regexp(t, `Dispatching is paused .* Since .* UTC, by anna \(web\)\.`, p.text(".outage"))
	require.Empty(t, p.violations())
	s.exec(t, "update pgdispatch.settings set paused = false")
	s.exec(t, "update pgdispatch.settings set paused = true")
	await(t, func() bool { p.visit("/ui/items"); return !strings.Contains(p.text(".outage"), "Since") },
		"with plain SQL, nobody knows who did it")
	p.visit("/ui/settings")
	p.follow(chromedp.Click(chromedp.CSS(`[value=resume]`)))
	p.run(chromedp.SetValue(chromedp.CSS(`[name=max-claims]`), "50"))
	p.follow(chromedp.Click(chromedp.CSS(`[value=max-claims]`)))
	require.Equal(t, "50 false", settings())
	require.Equal(t, []string{"settings set", "settings set", "settings set"}, loggedIn(t, s, "settings"))
}

func TestWhoMayOnlyLookHasNoForms(t *testing.T) {
	t.Parallel()
	all := places(t)
	for _, s := range []*site{shared.full, shared.watched} {
		p := s.open(t, "/ui/")
		for _, name := range []string{"workspace of a long name", "failed item", "dead letters of a workspace", "settings"} {
			p.visit(all[name].path)
			require.Contains(t, p.text("main"), "Read-only. To act", name)
			require.Empty(t, p.texts(`main form[method=post], .actions .button, .danger`), name)
		}
	}
}

func TestAPageOfAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	id := workspaceID(t, "Vandelay Lima")
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<form method="post" action="%s/ui/workspaces/%s/pause"></form>
			<script>document.forms[0].submit()</script>`, shared.acting.origin, id)
	}))
	t.Cleanup(hostile.Close)
	p := shared.acting.open(t, "/ui/workspaces/"+id)
	for _, from := range []string{hostile.URL, strings.Replace(hostile.URL, "127.0.0.1", "localhost", 1)} {
		p.run(chromedp.Navigate(from))
		await(t, func() bool {
			return ask[bool](p,
				fmt.Sprintf(`location.origin === %q && document.readyState === "complete"`, shared.acting.origin))
		}, "the form from another site is sent, with the saved password")
		require.Contains(t, p.text("main"), "Nothing was changed: the request came from another site.")
		require.NotEmpty(t, p.forgive())
	}
	require.False(t, one[bool](t, shared.full, "select paused from pgdispatch.workspaces where id = $1", id))
	require.Empty(t, logged(t, id))
}
