package browser

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// tasksTable is the file that the table of tasks is written to.
var tasksTable = flag.String("tasks", "", "file for the table of operators' tasks; empty: they are only carried out")

// task is something that operators do, from the overview on.
type task struct {
	what string
	// do are the steps: a selector is clicked, `selector = text` is typed, and "Enter" is pressed.
	do []string
	// seen is a selector of what tells that it is done, with its text after " = ".
	seen string
}

const (
	firstItem, firstWorkspace = "tbody th a", "#workspaces tbody tr:not(:has(.badge)) th a"
	toScheduled, toRunning    = ".figures a[href*=SCHEDULED]", ".figures a[href*=DISPATCHED]"
	toItems, toWorkspaces     = "nav a[href$=items]", "nav a[href$=workspaces]"
	toDead, toSettings        = "nav a[href$=dead]", "nav a[href$=settings]"
	toLimits                  = "nav a[href$=limits]"
	// Of running items, in case the first of the list are about to end by a task before.
	secondItem, thirdItem = "tbody tr:nth-child(2) th a", "tbody tr:nth-child(3) th a"
	aGroup, all, confirm  = "#groups tbody th a", "#select-all", "[value=confirm]"
)

// operatorsTasks are carried out in this order.
var operatorsTasks = []task{
	{"see whether items are started", nil, "#attention strong"},
	{"find why an item waits", []string{toScheduled, firstItem}, ".note = Why it waits"},
	{"find an item by its number", []string{".find input = 77", "Enter"}, "h1 = Item 77"},
	{"find a workspace by a part of its name", []string{".find input = acme oslo", "Enter"}, "h1 = Acme Oslo"},
	{"list a workspace's failed items of a day", []string{toItems, `#filter = status:failed since:24h`, "Enter"},
		".token"},
	{"list the items with a value in their parameters", []string{toItems, "#filter = params:orderId=77", "Enter"},
		"tbody th = 77"},
	{"see a failed item's error, attempts and timeline", []string{toDead, aGroup, firstItem}, ".timed"},
	{"replay a dead letter", []string{toDead, aGroup, firstItem, "[value=replay]"}, ".done = Replayed"},
	{"replay all dead letters of an error", []string{toDead, aGroup, "a[href*='dead/replay']", confirm},
		".done = replayed"},
	{"discard all dead letters of an error", []string{toDead, aGroup, "a[href*='dead/discard']", confirm},
		".done = discarded"},
	{"replay the dead letters of a page", []string{toDead, "#groups a[href$=letters]", all,
		"button[value=replay]", confirm},
		".done = replayed"},
	{"run a scheduled item now", []string{toScheduled, firstItem, "[value=retry]"}, ".done = due now"},
	{"withdraw an item", []string{toScheduled, firstItem, "[value=cancel]"}, ".done = Cancelled"},
	{"withdraw the waiting items of a page", []string{toScheduled, all, "button[value=cancel]", confirm},
		".done = cancelled"},
	{"ask a workflow to end", []string{toRunning, firstItem, ".drop summary", "[name=reason] = wrong order",
		"[value=request-cancel]"}, ".done = Requested"},
	{"terminate a workflow", []string{toRunning, secondItem, "a[href$=terminate]", confirm}, ".done = Requested"},
	{"send a signal to a workflow", []string{toRunning, thirdItem, "#signals ~ details summary",
		"[name=signal] = hurry",
		"[value=signal]"}, ".done = sent"},
	{"pause a workspace", []string{toWorkspaces, firstWorkspace, "[value=pause]"}, ".title .badge = paused"},
	{"raise a workspace's limit", []string{toWorkspaces, firstWorkspace, "[name=limit] = 7", "[value=limit]"}, ".done"},
	{"raise a key's limit", []string{toLimits, "td [name=max] = 7", "[value=limit]"}, ".done"},
	{"pause a key", []string{toLimits, "td [value=pause]"}, "#limits .badge = paused"},
	{"see a workspace's last day", []string{toWorkspaces, firstWorkspace, ".tabs a[href*='24h']"},
		"#activity = 24 hours"},
	{"raise max-claims", []string{toSettings, "[name=max-claims] = 9", "[value=max-claims]"}, ".done = Done"},
	{"see who changed a setting", []string{toSettings}, "[aria-label='Table of changes'] tbody tr"},
	{"pause everything", []string{toSettings, "a[href$=pause]", confirm}, "h1 + .badge = paused"},
}

func TestOperatorsDoTheirTasksInFewClicks(t *testing.T) {
	t.Parallel()
	s := small(t, "PGDISPATCH_ADMIN_TOKEN="+adminToken)
	s.user = "anna:" + adminToken
	s.exec(t, statement("start"), one[string](t, s, "select max(workspace_id::text) from pgdispatch.workflow_definitions"),
		one[string](t, s, `select max(id::text) from pgdispatch.workflow_definitions where workspace_id::text =
			(select max(workspace_id::text) from pgdispatch.workflow_definitions)`))
	s.wait(t, 60)
	s.exec(t, "insert into pgdispatch.limits (key, max_concurrent) values ('smtp', 2)")
	p := s.open(t, "/ui/", desk)
	await(t, func() bool { p.visit("/ui/"); return len(p.texts("#replicas tbody tr")) == 1 }, "the replica is seen")
	rows := []string{}
	for _, job := range operatorsTasks {
		p.visit("/ui/")
		began, clicks, fields := time.Now(), 0, 0
		for _, step := range job.do {
			t.Logf("%s: %s", job.what, step)
			selector, text, typed := strings.Cut(step, " = ")
			switch {
			case step == "Enter":
				p.follow(chromedp.KeyEvent(kb.Enter))
			case typed:
				fields++
				p.run(chromedp.SendKeys(chromedp.CSS(selector), text))
			default:
				clicks++
				leads := ask[bool](p, fmt.Sprintf(`/^(A|BUTTON)$/.test(document.querySelector(%q)?.tagName)`, selector))
				// An element of a live page may be replaced between its search and a click of the mouse.
				click := chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).click()`, selector))
				if leads {
					p.follow(click)
				} else {
					p.run(click)
				}
			}
		}
		selector, text, _ := strings.Cut(job.seen, " = ")
		await(t, func() bool {
			found, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(
				`document.readyState === "complete" ? (document.querySelector(%q)?.innerText ?? "none") : "none"`, selector)))
			return err == nil && found != "none" && strings.Contains(found, text)
		}, "%s: %s", job.what, job.seen)
		rows = append(rows, fmt.Sprintf("| %s | %d | %d | %.1f |", job.what, clicks, fields, time.Since(began).Seconds()))
	}
	for _, fault := range p.forgive() {
		require.Contains(t, fault, "NavigationEntryMarkedSkippable", "only that a script clicked")
	}
	require.Len(t, rows, 25)
	if *tasksTable != "" {
		head := "| task | clicks | fields typed | seconds |\n|---|---|---|---|\n"
		text, err := os.ReadFile(*tasksTable)
		require.NoError(t, err)
		before, _, found := strings.Cut(string(text), head)
		require.True(t, found)
		require.NoError(t, os.WriteFile(*tasksTable, []byte(before+head+strings.Join(rows, "\n")+"\n"), 0o644))
	}
}
