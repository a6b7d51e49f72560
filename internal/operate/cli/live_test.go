package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

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
