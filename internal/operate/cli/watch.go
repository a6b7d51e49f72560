package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// watcher reads the status periodically until it is stopped.
type watcher struct {
	Store interface {
		Overview(ctx context.Context) (operate.Overview, error)
		ListWorkspaces(ctx context.Context, search string, by operate.WorkspaceOrder, after *operate.WorkspaceKey,
			atMost int) ([]operate.WorkspaceRow, error)
	}
	Interval time.Duration
	Sort     operate.WorkspaceOrder
	Limit    int
}

// look reads everything.
func (w *watcher) look(ctx context.Context, filter string, by operate.WorkspaceOrder) (view.Screen, error) {
	overview, err := w.Store.Overview(ctx)
	if err != nil {
		return view.Screen{}, postgres.Redact(err)
	}
	workspaces, err := w.Store.ListWorkspaces(ctx, filter, by, nil, w.Limit)
	if err != nil {
		return view.Screen{}, postgres.Redact(err)
	}
	return view.Screen{Overview: overview, Workspaces: workspaces, At: time.Now().UTC()}, nil
}

// Append writes each status below the one before, until ctx is cancelled. The first read must succeed. Later errors are
// part of the status.
func (w *watcher) Append(ctx context.Context, out io.Writer) error {
	screen, err := w.look(ctx, "", w.Sort)
	if err != nil {
		return err
	}
	for looks := time.Tick(w.Interval); ; {
		fmt.Fprintln(out, strings.Join(screen.Lines(view.Style{}), "\n")+"\n")
		select {
		case <-ctx.Done():
			return nil
		case <-looks:
			if next, err := w.look(ctx, "", w.Sort); err == nil {
				screen = next
			} else if screen.Err = err; ctx.Err() != nil {
				return nil
			}
		}
	}
}

// Draw redraws the status on a terminal until ctx is cancelled or a key ends it, and then restores the terminal. The
// first read must succeed.
func (w *watcher) Draw(ctx context.Context, in, out *os.File, environment []string) error {
	screen, err := w.look(ctx, "", w.Sort)
	if err != nil {
		return err
	}
	drawn := live{sort: w.Sort, interval: w.Interval, screen: screen, look: func(filter string,
		by operate.WorkspaceOrder) (view.Screen, error) {
		return w.look(ctx, filter, by)
	}}
	program := tea.NewProgram(drawn, tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(environment),
		tea.WithoutSignalHandler())
	// Quit lets the reader of the input end before the terminal is closed; tea.WithContext does not.
	defer context.AfterFunc(ctx, program.Quit)()
	_, err = program.Run()
	if err != nil {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

// terminals returns the input and output files, and whether both are interactive terminals.
func (a *App) terminals() (in, out *os.File, is bool) {
	out, isFile := a.Stdout.(*os.File)
	dumb, _ := a.LookupEnv("TERM")
	return os.Stdin, out, isFile && dumb != "dumb" && term.IsTerminal(int(out.Fd())) && term.IsTerminal(int(os.Stdin.Fd()))
}

func (a *App) watch(ctx context.Context, store *operate.Store, interval time.Duration,
	sort operate.WorkspaceOrder) error {
	w := &watcher{Store: store, Interval: interval, Sort: sort, Limit: a.limit}
	if in, out, is := a.terminals(); is {
		return w.Draw(ctx, in, out, a.Environment)
	}
	return w.Append(ctx, a.Stdout)
}

const (
	// maxFilter is the longest filter, in characters.
	maxFilter = 100
	// acrossStep is how many columns a key scrolls.
	acrossStep = 10
)

// orders are the orders of workspaces, in which s goes through them.
var orders = []operate.WorkspaceOrder{operate.ByOldest, operate.ByRunning, operate.ByFailures, operate.ByName}

var keyHelp = []string{
	"",
	"s             sort by the next: oldest, running, failures, name",
	"/             show workspaces with a part of the name; Enter shows, Esc leaves",
	"Esc           show all workspaces again",
	"up, down      scroll by a line; also k, j",
	"left, right   scroll the tables across; also h, l",
	"PgUp, PgDn    scroll by a page",
	"?             show these keys, and leave them",
	"q, Ctrl-C     end",
}

// live is what `status --watch` shows on a terminal, and what the keys have asked for.
type live struct {
	look     func(filter string, by operate.WorkspaceOrder) (view.Screen, error)
	interval time.Duration
	screen   view.Screen
	style    view.Style

	sort   operate.WorkspaceOrder
	filter string // part of the names of the workspaces shown
	typing bool   // whether typed is being typed, as the next filter
	typed  string
	help   bool // whether the keys are shown
	// looks counts the reads begun. Answers and timers of earlier ones are ignored.
	looks int
}

// due says that it is time for the next read, and seen is what a read has found.
type (
	due  struct{ after int }
	seen struct {
		looks  int
		screen view.Screen
		err    error
	}
)

// Init implements tea.Model. The first read was made before.
func (l live) Init() tea.Cmd { return l.later() }

func (l live) later() tea.Cmd {
	return tea.Tick(l.interval, func(time.Time) tea.Msg { return due{l.looks} })
}

// again begins a read.
func (l live) again() (tea.Model, tea.Cmd) {
	l.looks++
	return l, func() tea.Msg {
		screen, err := l.look(l.filter, l.sort)
		return seen{l.looks, screen, err}
	}
}

// Update implements tea.Model.
func (l live) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		l.style = view.Style{Width: m.Width, Height: m.Height, Colour: true}
	case due:
		if m.after == l.looks {
			return l.again()
		}
	case seen:
		if m.looks != l.looks {
			return l, nil
		}
		if l.screen.Err = m.err; m.err == nil { // otherwise it shows what was read before
			m.screen.Scroll, m.screen.Across = l.screen.Scroll, l.screen.Across
			l.screen = m.screen
		}
		return l, l.later()
	case tea.KeyPressMsg:
		if m.String() == "ctrl+c" || m.String() == "ctrl+d" {
			return l, tea.Quit
		}
		if l.typing {
			return l.write(m)
		}
		return l.press(m.String())
	case tea.PasteMsg:
		if l.typing {
			l.typed = cutTo(l.typed+view.Printable(m.Content), maxFilter)
		}
	}
	return l, nil
}

// press carries out a key.
func (l live) press(key string) (tea.Model, tea.Cmd) {
	shown := l.help
	l.help = false
	switch key {
	case "q", "Q":
		return l, tea.Quit
	case "?":
		l.help = !shown
	case "s":
		l.sort = orders[(slices.Index(orders, l.sort)+1)%len(orders)]
		return l.again()
	case "/":
		l.typing, l.typed = true, l.filter
	case "esc":
		if l.filter != "" {
			l.filter = ""
			return l.again()
		}
	case "j", "down":
		l.scroll(1, 0)
	case "k", "up":
		l.scroll(-1, 0)
	case "pgdown":
		l.scroll(l.page(), 0)
	case "pgup":
		l.scroll(-l.page(), 0)
	case "l", "right":
		l.scroll(0, acrossStep)
	case "h", "left":
		l.scroll(0, -acrossStep)
	}
	return l, nil
}

// write carries out a key while the filter is being typed.
func (l live) write(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch key.String() {
	case "enter":
		l.typing, l.filter, l.screen.Scroll = false, strings.TrimSpace(l.typed), 0
		return l.again()
	case "esc":
		l.typing = false
	case "backspace", "ctrl+h":
		_, size := utf8.DecodeLastRuneInString(l.typed)
		l.typed = l.typed[:len(l.typed)-size]
	default:
		l.typed = cutTo(l.typed+key.Text, maxFilter)
	}
	return l, nil
}

func cutTo(text string, characters int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), characters)])
}

// page returns how many lines a page has: all but the first line, the footer, and one to go on from.
func (l live) page() int { return max(l.style.Height-3, 1) }

func (l *live) scroll(down, right int) {
	all, within := l.arranged(), func(at, most int) int { return min(max(at, 0), most) }
	most := all.MaxScroll(l.style)
	l.screen.Scroll = within(min(l.screen.Scroll, most)+down, most)
	most = all.MaxAcross(l.style)
	l.screen.Across = within(min(l.screen.Across, most)+right, most)
}

// arranged returns the screen with what the keys have asked for.
func (l live) arranged() view.Screen {
	screen := l.screen
	if l.help {
		screen.Instead, screen.Scroll = keyHelp, 0
	}
	screen.Footer = fmt.Sprintf("every %s; by %s", l.interval, l.sort)
	if l.filter != "" {
		screen.Footer += fmt.Sprintf("; names with %q", view.Printable(l.filter))
	}
	screen.Footer += "; ? shows the keys; q ends"
	if l.typing {
		screen.Footer = "part of the name (Enter, Esc): " + view.Printable(l.typed) + "_"
	}
	return screen
}

// View implements tea.Model.
func (l live) View() tea.View {
	if l.style.Width == 0 {
		return tea.View{AltScreen: true} // the terminal's size is not known yet
	}
	drawn := tea.NewView(strings.Join(l.arranged().Lines(l.style), "\n"))
	drawn.AltScreen = true
	return drawn
}
