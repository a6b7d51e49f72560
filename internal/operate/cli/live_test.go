package cli

import (
	"errors"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// person types at a live status of many workspaces on a terminal.
type person struct {
	t *testing.T
	live
}

func newPerson(t *testing.T, width, height int) *person {
	look := func(filter string, by operate.WorkspaceOrder) (view.Screen, error) {
		rows := []operate.WorkspaceRow{{Name: fmt.Sprintf("asked for %q by %s", filter, by), Plan: "THE LAST IS →"}}
		for n := range 40 {
			rows = append(rows, operate.WorkspaceRow{Name: fmt.Sprintf("workspace-%02d", n), Paused: true})
		}
		return view.Screen{Workspaces: rows}, nil
	}
	screen := must.Get(look("", operate.ByOldest)).In(t)
	p := &person{t, live{look: look, interval: time.Hour, sort: operate.ByOldest, screen: screen}}
	p.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return p
}

// Update hands a message over and, if a read begins, its answer.
func (p *person) Update(message tea.Msg) tea.Cmd {
	before := p.looks
	model, command := p.live.Update(message)
	p.live = model.(live)
	if p.looks != before {
		model, _ = p.live.Update(command())
		p.live = model.(live)
	}
	return command
}

// types presses keys, which are named or characters, and returns what is shown then.
func (p *person) types(keys ...string) string {
	codes := map[string]rune{"esc": tea.KeyEscape, "enter": tea.KeyEnter, "backspace": tea.KeyBackspace, "up": tea.KeyUp,
		"down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown}
	for _, key := range keys {
		if code, named := codes[key]; named {
			p.Update(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range key {
			p.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return ansi.Strip(p.View().Content)
}

func TestTheKeysOfTheWatchSortFilterScrollAndExplainThemselves(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 90, 20)
	for _, step := range []struct {
		keys          []string
		want, without string
	}{
		{[]string{"x"}, `asked for "" by oldest`, ""},
		{[]string{"s"}, `asked for "" by running`, ""}, {[]string{"ss"}, `asked for "" by name`, ""},
		{[]string{"s"}, `asked for "" by oldest`, ""},
		{[]string{"/sqé東x"}, "part of the name (Enter, Esc): sqé東x_", `asked for "sq`},
		{[]string{"backspace", "backspace"}, "part of the name (Enter, Esc): sqé_", ""},
		{[]string{"enter"}, `asked for "sqé" by oldest`, ""},
		{[]string{"s"}, `names with "sqé"; ? shows the keys`, ""},
		{[]string{"/z", "esc"}, `asked for "sqé" by running`, "Enter"},
		{[]string{"esc"}, `asked for "" by running`, "names with"},
		{[]string{"?"}, "scroll by a line", "asked for"}, {[]string{"?"}, "asked for", "scroll by a line"},
		{[]string{"?j"}, "asked for", "scroll by a line"},
		{[]string{"kkkk"}, "waiting 0", ""}, {[]string{"jjjj"}, "REPLICA", "waiting 0"},
		{[]string{"up", "up", "up", "up"}, "waiting 0", ""},
		{[]string{"down", "down", "down", "down"}, "REPLICA", "waiting 0"},
		{[]string{"pgdown", "pgdown", "pgdown", "pgdown"}, "workspace-39", "workspace-10"},
		{[]string{"k"}, "2 more lines", "workspace-39"},
		{[]string{"pgup", "pgup", "pgup", "up", "tab"}, "waiting 0", "workspace-39"},
	} {
		frame := p.types(step.keys...)
		require.Contains(t, frame, step.want, "%q", step.keys)
		if step.without != "" {
			require.NotContains(t, frame, step.without, "%q", step.keys)
		}
	}
	p.Update(tea.KeyPressMsg{Code: '/', Text: "/"})
	quit := p.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	require.IsType(t, tea.QuitMsg{}, quit(), "Ctrl-C quits even while a filter is typed")
	p.Update(tea.PasteMsg{Content: strings.Repeat("ü", 2*maxFilter)})
	require.Len(t, []rune(p.typed), maxFilter)
}

func TestAt80By24EveryColumnIsReadBesideItsWorkspace(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 80, 24)
	line := func(frame, with string) string {
		for line := range strings.Lines(frame) {
			if strings.Contains(line, with) {
				return strings.TrimRight(line, "\n")
			}
		}
		require.Fail(t, "no line has "+with, frame)
		return ""
	}
	read := ""
	for range 10 {
		frame := p.types("right")
		require.True(t, strings.HasPrefix(line(frame, "WORKSPACE"), "WORKSPACE"))
		read += line(frame, "WORKSPACE")
		for one := range strings.Lines(frame) {
			require.LessOrEqual(t, ansi.StringWidth(strings.TrimRight(one, "\n")), 80)
		}
	}
	for _, head := range []string{"WAITING", "OLDEST WAITING", "UNANSWERED", "FAILED LAST DAY"} {
		require.Contains(t, read, head)
	}
	require.True(t, strings.HasSuffix(line(p.types("l"), "workspace-03"), "PAUSED"), "the end of the table is shown")
	require.Contains(t, line(p.types("l"), "asked for"), "…", "and that something is hidden to the left")
	require.True(t, strings.HasSuffix(line(p.types("left"), "workspace-03"), "…"), "and to the right")
	for range 10 {
		p.types("h")
	}
	require.Contains(t, line(p.types("h"), "asked for"), "THE LAST IS →")
}

func TestAnAnswerIsShownUntilTheNextAndOldOnesAreIgnored(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 80, 24)
	p.Update(seen{p.looks, view.Screen{}, errors.New("the database is away")})
	frame := p.types()
	require.Contains(t, frame, "the database is away")
	require.Contains(t, frame, "workspace-03", "the previous answer is still shown")
	p.Update(seen{looks: p.looks - 1})
	require.Contains(t, p.types(), "the database is away")
	p.types("right")
	p.Update(due{p.looks})
	frame = p.types()
	require.NotContains(t, frame, "the database is away")
	require.Equal(t, 1, p.looks)
	require.Equal(t, acrossStep, p.screen.Across, "it stays scrolled")
	p.Update(due{p.looks - 1})
	require.Equal(t, 1, p.looks, "the timer of an earlier read")
	p.Update(tea.WindowSizeMsg{Width: 20, Height: 10})
	require.Len(t, strings.Split(p.types(), "\n"), 10, "a resize needs no read")
}

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
