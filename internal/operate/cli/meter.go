package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

const (
	// meterInterval is how often a terminal's progress is drawn, and plainInterval how often a line is written otherwise.
	meterInterval = 100 * time.Millisecond
	plainInterval = 5 * time.Second
	meterWidth    = 30
)

// meter shows the progress through a file.
type meter struct {
	out      io.Writer
	terminal bool
	size     int64 // of the file; zero if that is not known
	read     atomic.Int64
	started  time.Time
	shown    time.Time
}

func (a *App) newMeter(size int64) *meter {
	now := time.Now()
	return &meter{out: a.Stderr, terminal: a.onTerminal(), size: size, started: now, shown: now}
}

// onTerminal reports whether standard error is a terminal: somebody watches.
func (a *App) onTerminal() bool {
	file, is := a.Stderr.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// reads counts what is read.
func (m *meter) reads(from io.Reader) io.Reader { return countingReader{from, &m.read} }

type countingReader struct {
	io.Reader
	read *atomic.Int64
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read.Add(int64(n))
	return n, err
}

// show prints the progress, at limited intervals.
func (m *meter) show(done int) {
	interval := plainInterval
	if m.terminal {
		interval = meterInterval
	}
	if now := time.Now(); now.Sub(m.shown) < interval {
		return
	} else {
		m.shown = now
	}
	text := fmt.Sprintf("%s items, %.0f/s", view.Number(int64(done)), float64(done)/max(time.Since(m.started).Seconds(),
		0.001))
	if !m.terminal {
		fmt.Fprintln(m.out, text)
		return
	}
	fmt.Fprint(m.out, "\r"+m.bar()+text+"\x1b[K")
}

// bar draws how much of the file was read.
func (m *meter) bar() string {
	if m.size <= 0 {
		return ""
	}
	share := min(float64(m.read.Load())/float64(m.size), 1)
	full := int(share * meterWidth)
	return fmt.Sprintf("%s%s %3.0f %%  ", strings.Repeat("█", full), strings.Repeat("░", meterWidth-full), share*100)
}

// clear removes the bar, before something else is written.
func (m *meter) clear() {
	if m.terminal {
		fmt.Fprint(m.out, "\r\x1b[K")
	}
}
