package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

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

func (a *App) watch(ctx context.Context, store *operate.Store, interval time.Duration, sort operate.WorkspaceOrder,
	limit int) error {
	w := &watcher{Store: store, Interval: interval, Sort: sort, Limit: limit}
	if in, out, is := a.terminals(); is {
		return w.Draw(ctx, in, out, a.Environment)
	}
	return w.Append(ctx, a.Stdout)
}
