package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// resizeInterval is how often the terminal's size is checked.
	resizeInterval = 200 * time.Millisecond
	// enterScreen switches to the terminal's alternate screen, without cursor and line wrapping. leaveScreen switches
	// back.
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// watcher redraws the status periodically until it is stopped.
type watcher struct {
	Store interface {
		Overview(ctx context.Context) (operate.Overview, error)
		ListWorkspaces(ctx context.Context, search string, by operate.WorkspaceOrder, after *operate.WorkspaceKey,
			atMost int) ([]operate.WorkspaceRow, error)
	}
	Interval time.Duration
	Sort     operate.WorkspaceOrder
	Limit    int
	Out      io.Writer
	Colour   bool
	// Size returns the terminal's size. If nil, the output is not a terminal and each status is appended.
	Size func() (width, height int)
	// Keys receives typed keys. Nil disables input.
	Keys <-chan key

	filter string // part of the names of the workspaces shown
	typing bool   // whether typed is being typed, as the next filter
	typed  string
	help   bool // whether the keys are shown
	scroll int
}

// Run draws until ctx is cancelled or q is typed. The first read must succeed. Later errors are shown on the screen.
func (w *watcher) Run(ctx context.Context) error {
	var screen view.Screen
	if err := w.look(ctx, &screen); err != nil {
		return err
	}
	looks, sizes := time.NewTicker(w.Interval), time.NewTicker(resizeInterval)
	defer looks.Stop()
	defer sizes.Stop()
	w.draw(screen)
	width, height := w.size()
	for {
		select {
		case <-ctx.Done():
			return nil
		case key := <-w.Keys:
			switch w.press(key, screen) {
			case endWatch:
				return nil
			case lookAgain:
				if screen.Err = w.look(ctx, &screen); ctx.Err() != nil {
					return nil
				}
			}
		case <-sizes.C:
			nowWidth, nowHeight := w.size()
			if nowWidth == width && nowHeight == height {
				continue
			}
			width, height = nowWidth, nowHeight
		case <-looks.C:
			if screen.Err = w.look(ctx, &screen); ctx.Err() != nil {
				return nil
			}
		}
		w.draw(screen)
	}
}

func (w *watcher) size() (width, height int) {
	if w.Size == nil {
		return 0, 0
	}
	return w.Size()
}

// look reads everything again. On an error the screen keeps its contents.
func (w *watcher) look(ctx context.Context, screen *view.Screen) error {
	overview, err := w.Store.Overview(ctx)
	if err != nil {
		return postgres.Redact(err)
	}
	workspaces, err := w.Store.ListWorkspaces(ctx, w.filter, w.Sort, nil, w.Limit)
	if err != nil {
		return postgres.Redact(err)
	}
	*screen = view.Screen{Overview: overview, Workspaces: workspaces, At: time.Now().UTC()}
	return nil
}

func (w *watcher) draw(screen view.Screen) {
	if w.Size == nil {
		fmt.Fprintln(w.Out, strings.Join(screen.Lines(view.Style{}), "\n")+"\n")
		return
	}
	width, height := w.Size()
	w.arrange(&screen)
	var text strings.Builder
	text.WriteString("\x1b[H")
	for n, line := range screen.Lines(view.Style{Width: width, Height: height, Colour: w.Colour}) {
		if n > 0 {
			text.WriteString("\r\n")
		}
		text.WriteString(line + "\x1b[K")
	}
	text.WriteString("\x1b[J")
	fmt.Fprint(w.Out, text.String()) // in one write, to avoid flicker
}

// onTerminal runs the watcher on a terminal and restores the terminal afterwards.
func (w *watcher) onTerminal(ctx context.Context, in, out *os.File) (err error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	fmt.Fprint(out, enterScreen)
	defer func() {
		fmt.Fprint(out, leaveScreen)
		if restoreErr := term.Restore(int(in.Fd()), state); restoreErr != nil {
			err = errors.Join(err, fmt.Errorf("restore the terminal: %w", restoreErr))
		}
	}()
	keys := make(chan key)
	go readKeys(in, keys, ctx.Done())
	w.Keys = keys
	w.Size = func() (int, int) {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return 80, 24
		}
		return width, height
	}
	return w.Run(ctx)
}

// terminals returns the input and output files, and whether both are interactive terminals.
func (a *App) terminals() (in, out *os.File, is bool) {
	out, isFile := a.Stdout.(*os.File)
	dumb, _ := a.LookupEnv("TERM")
	return os.Stdin, out, isFile && dumb != "dumb" && term.IsTerminal(int(out.Fd())) && term.IsTerminal(int(os.Stdin.Fd()))
}

func (a *App) watch(ctx context.Context, store *operate.Store, interval time.Duration, sort operate.WorkspaceOrder,
	limit int) error {
	noColour, _ := a.LookupEnv("NO_COLOR")
	w := &watcher{Store: store, Interval: interval, Sort: sort, Limit: limit, Out: a.Stdout, Colour: noColour == ""}
	if in, out, is := a.terminals(); is {
		return w.onTerminal(ctx, in, out)
	}
	return w.Run(ctx)
}
