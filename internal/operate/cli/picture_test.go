package cli

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// painted is text between two escape sequences that set colours, and the attributes that it is drawn with.
var (
	painted = regexp.MustCompile("\x1b\\[([0-9;]+)m([^\x1b]*)\x1b\\[0m")
	paints  = map[string]string{"1": `font-weight="bold"`, "2": `fill="#8b949e"`,
		"31;1": `fill="#ff7b72" font-weight="bold"`, "33": `fill="#d29922"`, "32": `fill="#3fb950"`}
)

// The picture of docs/web.md is what `status --watch` draws on a terminal of 80 columns and 24 lines.
func TestThePageShowsWhatStatusDrawsOnATerminal(t *testing.T) {
	t.Parallel()
	l := live{sort: operate.ByOldest, interval: time.Second, screen: shopScreen(),
		style: view.Style{Width: 80, Height: 24, Colour: true}}
	var svg strings.Builder
	svg.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" width="700" height="456" role="img" ` +
		`aria-label="status --watch">` +
		`<rect width="700" height="456" rx="8" fill="#0d1117"/><g font-family="ui-monospace,Menlo,Consolas,monospace" ` +
		`font-size="14" fill="#e6edf3" xml:space="preserve">` + "\n")
	for n, line := range l.arranged().Lines(l.style) {
		text := painted.ReplaceAllStringFunc(html.EscapeString(line), func(part string) string {
			found := painted.FindStringSubmatch(part)
			return "<tspan " + paints[found[1]] + ">" + found[2] + "</tspan>"
		})
		fmt.Fprintf(&svg, "<text x=\"14\" y=\"%d\">%s</text>\n", 25+18*n, text)
	}
	svg.WriteString("</g></svg>\n")
	goldentest.Require(t, "../../../docs/images/status.svg", svg.String())
}

// shopScreen is a queue under load, in which one workspace is full and one is paused.
func shopScreen() view.Screen {
	at := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	waits := operate.Waits{}
	for n := range 5400 {
		waits.Add(time.Duration(2000+n) * time.Microsecond)
	}
	replica := func(id string, duty bool) operate.Replica {
		return operate.Replica{ID: id, Version: "v1.2.3", Workers: 20, Up: 51 * time.Hour, Leased: 3, Watching: 214,
			Heard: 2 * time.Second,
			State: operate.ReplicaState{Busy: 3, Listening: new(true), OnDuty: duty, StartsPerSecond: 45.2}}
	}
	row := func(name, plan string, limit int, running, waiting int64, oldest time.Duration) operate.WorkspaceRow {
		w := operate.WorkspaceRow{Name: name, Plan: plan, Limit: limit, Running: running, Waiting: waiting,
			WaitingExact: true, ScheduledExact: true}
		if waiting > 0 {
			w.OldestWaiting = &oldest
		}
		return w
	}
	workspaces := []operate.WorkspaceRow{row("Acme Lima", "PRO", 5, 0, 118, 9*time.Minute),
		row("Hooli Oslo", "PRO", 5, 5, 37, 42*time.Second), row("Globex Cork", "ENTERPRISE", 20, 16, 0, 0),
		row("Initech Nice", "FREE", 1, 1, 0, 0), row("Dunder Graz", "PRO", 5, 3, 0, 0)}
	workspaces[0].Paused = true
	return view.Screen{At: at, Sort: operate.ByOldest, Workspaces: workspaces, Overview: operate.Overview{
		Depth: operate.Depth{Pending: 155, Scheduled: 12, ScheduledExact: true, Claimed: 6, Dispatched: 428, DeadLetters: 3,
			DeadLettersExact: true, OldestWaiting: new(9 * time.Minute), Replicas: 2, MaxClaims: 100},
		Replicas: []operate.Replica{replica("shop-7c9f_1_k2m4qa", true), replica("shop-7c9f_1_x8t1zb", false)},
		Minutes: []operate.Minute{{At: at.Add(-time.Minute), Passed: time.Minute, Started: 5400, Completed: 324_180,
			Failed: 17, Waits: waits, StartableWaits: waits}},
	}}
}
