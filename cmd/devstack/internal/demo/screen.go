package demo

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

const (
	// liveInterval is how often the table is redrawn in place on a terminal.
	liveInterval = 200 * time.Millisecond
	// plainInterval is how often the table is written elsewhere, one below the other.
	plainInterval = 2 * time.Second
)

// screen writes progress line by line, and a table that is redrawn in place on a terminal.
type screen struct {
	out io.Writer
	// terminal is the file descriptor of the terminal, or negative if there is none.
	terminal int
	// started is the zero point of the times in progress lines.
	started time.Time

	drawn     int
	lastPlain time.Time
}

// newScreen detects whether out is a terminal that supports cursor movement.
func newScreen(out io.Writer) *screen {
	s := &screen{out: out, terminal: -1, started: time.Now()}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.terminal = int(f.Fd())
	}
	return s
}

// printf writes a line below the existing output.
func (s *screen) printf(format string, args ...any) {
	s.drawn = 0
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// step runs f and prints its duration and result.
func (s *screen) step(what string, f func() (string, error)) error {
	s.drawn = 0
	begun := time.Now()
	_, _ = fmt.Fprintf(s.out, "[%5.1fs] %-34s ", time.Since(s.started).Seconds(), what)
	result, err := f()
	took := time.Since(begun).Seconds()
	if err != nil {
		_, _ = fmt.Fprintf(s.out, "FAILED after %.1f s\n", took)
		return err
	}
	_, _ = fmt.Fprintf(s.out, "%5.1f s  %s\n", took, result)
	return nil
}

// table shows lines. On a terminal it redraws the last table in place, with the notes below it. Elsewhere it writes
// the table at most once per plainInterval, and the notes only with the last table. If last is set, the table is
// always shown.
func (s *screen) table(lines, notes []string, last bool) {
	if s.terminal < 0 {
		if !last && time.Since(s.lastPlain) < plainInterval {
			return
		}
		s.lastPlain = time.Now()
		if last {
			lines = slices.Concat(lines, notes)
		}
		_, _ = fmt.Fprintf(s.out, "[%5.1fs]\n%s\n", time.Since(s.started).Seconds(), strings.Join(lines, "\n"))
		return
	}
	var text strings.Builder
	if s.drawn > 0 {
		_, _ = fmt.Fprintf(&text, "\x1b[%dA", s.drawn)
	}
	width := s.width()
	_, _ = fmt.Fprintf(&text, "\x1b[2K[%5.1fs]\n", time.Since(s.started).Seconds())
	lines = slices.Concat(lines, notes)
	for _, line := range lines {
		text.WriteString("\x1b[2K" + shorten(line, width) + "\n")
	}
	text.WriteString("\x1b[J")
	s.drawn = len(lines) + 1
	_, _ = io.WriteString(s.out, text.String())
}

// width returns how many characters fit on a line. A wrapped line would break the next redraw.
func (s *screen) width() int {
	width, _, err := term.GetSize(s.terminal)
	if err != nil || width <= 0 {
		return 80
	}
	return width
}
