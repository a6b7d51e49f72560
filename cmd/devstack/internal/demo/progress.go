package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

const (
	// countInterval is how often counts are printed at most.
	countInterval = 3 * time.Second
	// liveStopTimeout is how long the live view may take to leave the terminal.
	liveStopTimeout = 5 * time.Second
)

// progress prints what happens, a line each.
type progress struct {
	out io.Writer
	// started is the zero point of the times.
	started time.Time

	lastCounts   counts
	lastCountsAt time.Time
}

func (p *progress) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// step runs f and prints its duration and result.
func (p *progress) step(what string, f func() (string, error)) error {
	begun := time.Now()
	_, _ = fmt.Fprintf(p.out, "[%5.1fs] %-34s ", time.Since(p.started).Seconds(), what)
	result, err := f()
	took := time.Since(begun).Seconds()
	if err != nil {
		p.printf("FAILED after %.1f s", took)
		return err
	}
	p.printf("%5.1f s  %s", took, result)
	return nil
}

// counts prints the counts if they have changed, and at most every countInterval.
func (p *progress) counts(c counts) {
	if c == p.lastCounts || time.Since(p.lastCountsAt) < countInterval {
		return
	}
	p.lastCounts, p.lastCountsAt = c, time.Now()
	p.printf("[%5.1fs] %s", time.Since(p.started).Seconds(), c)
}

// terminal returns the terminal on which pgdispatch can draw, or nil.
func terminal(out io.Writer) *process.Terminal {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &process.Terminal{In: os.Stdin, Out: file}
}

// errLeft means that the user closed the live view with q or Ctrl-C.
var errLeft = errors.New("the live view was closed")

// live is pgdispatch's own live view, or nil without a terminal.
type live struct{ *process.Process }

// open returns an error once the view has ended.
func (l *live) open() error {
	switch {
	case l == nil || l.Running():
		return nil
	case l.ExitCode() == 0:
		return errLeft
	}
	return l.Alive()
}

func (l *live) stop() error {
	if l == nil {
		return nil
	}
	return l.Stop(liveStopTimeout)
}
