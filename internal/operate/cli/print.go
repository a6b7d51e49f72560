package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// maxShownError is the maximum length of an error in a table, in characters.
const maxShownError = 80

// list is a page of a list.
type list[T any] struct {
	rows []T
	// more says how to see the rows that follow a full page.
	more  func(last T) string
	none  string // instead of a table without rows
	heads string
	cells func(T) string
}

// print prints the rows as JSON, or as a table.
func (l list[T]) print(a *App) error {
	out := a.Stdout
	switch {
	case a.output == "json":
		return a.printJSON(l.rows)
	case len(l.rows) == 0:
		_, err := fmt.Fprintln(out, l.none)
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, l.heads)
	for _, row := range l.rows {
		fmt.Fprintln(table, l.cells(row))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(l.rows) == a.limit && l.more != nil {
		fmt.Fprintln(out, "there may be more; "+l.more(l.rows[a.limit-1]))
	}
	return nil
}

// printJSON also escapes control characters beyond the first 32, which JSON allows but terminals may interpret.
func (a *App) printJSON(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	lines, _ := view.IndentJSON(string(text), 0)
	var safe strings.Builder
	for _, r := range lines {
		if r == '\n' || unicode.IsPrint(r) {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	_, err = fmt.Fprintln(a.Stdout, safe.String())
	return err
}

// show prints what a command has found: as JSON, or as text prints it.
func (a *App) show(value any, text func() error) error {
	if a.output == "json" {
		return a.printJSON(value)
	}
	return text()
}

// say prints what a command has done: as JSON, or as a line.
func (a *App) say(value any, format string, args ...any) error {
	return a.show(value, func() error {
		_, err := fmt.Fprintf(a.Stdout, format+"\n", args...)
		return err
	})
}

func named(name, id string) string {
	if name == "" {
		return id
	}
	return view.Printable(name)
}

func cut(text string) string {
	if runes := []rune(view.Printable(text)); len(runes) > maxShownError {
		return string(runes[:maxShownError-1]) + "…"
	}
	return view.Printable(text)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// lines returns a function that prints a name and a value as a line of table.
func lines(table io.Writer) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
}

// confirm asks on standard error. Anything but yes cancels.
func (a *App) confirm(answers io.Reader, what string) error {
	fmt.Fprintf(a.Stderr, "%s? [y/N] ", what)
	answer, err := bufio.NewReader(answers).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed: answer y, or repeat the command with --yes")
}

// defaultWho returns the user and machine that this process runs as, as far as they can be determined.
func defaultWho() string {
	who := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		who = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		who += "@" + host
	}
	return postgres.Clean(who)
}
