package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// lineDelay is how long a line may wait for others to be written with it.
	lineDelay = 100 * time.Millisecond
	// linesSize is how many bytes of lines may wait.
	linesSize = 64 << 10
)

// logLines writes the lines of a log, many at once, because a busy replica would write thousands a second. While Run runs, a line
// waits for others for up to lineDelay; one of level WARN or above is written at once, with all that wait. Before and after, every
// line is written at once. Lines stay whole and in order. Where a write fails, what waits is written with the next.
type logLines struct {
	// out takes the lines. Who logs waits while it does, as for a direct write.
	out io.Writer
	// arrived says that a first line waits.
	arrived chan struct{}

	mu      sync.Mutex
	waiting []byte
	delays  bool // Run runs
}

func newLogLines(out io.Writer) *logLines {
	return &logLines{out: out, arrived: make(chan struct{}, 1)}
}

// Logger returns a logger of JSON lines.
func (l *logLines) Logger(level slog.Leveler) *slog.Logger {
	return slog.New(urgentHandler{slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level}), l})
}

// Run lets lines wait until ctx is cancelled. What waits then is written.
func (l *logLines) Run(ctx context.Context) error {
	l.delay(true)
	defer l.delay(false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.arrived:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lineDelay):
		}
		if err := l.Flush(); err != nil {
			l.arrive() // what waits is tried again
		}
	}
}

// During runs do, and lets lines wait until ctx is cancelled or do returns or panics.
func (l *logLines) During(ctx context.Context, do func() error) error {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	defer func() { stop(); <-done }()
	return do()
}

func (l *logLines) delay(delays bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delays = delays
	_ = l.write()
}

// Write takes one line. One that has no room and cannot be written is lost, as it would be without waiting.
func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting)+len(line) > linesSize {
		if err := l.write(); err != nil {
			return 0, err
		}
	}
	first := len(l.waiting) == 0
	l.waiting = append(l.waiting, line...)
	if !l.delays || len(l.waiting) >= linesSize {
		return len(line), l.write()
	}
	if first {
		l.arrive()
	}
	return len(line), nil
}

// Flush writes what waits.
func (l *logLines) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write()
}

// write writes what waits, and keeps what was not written. l.mu is held.
func (l *logLines) write() error {
	if len(l.waiting) == 0 {
		return nil
	}
	written, err := l.out.Write(l.waiting)
	l.waiting = append(l.waiting[:0], l.waiting[written:]...)
	return err
}

func (l *logLines) arrive() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// urgentHandler has a warning written at once.
type urgentHandler struct {
	slog.Handler
	lines *logLines
}

// Handle implements slog.Handler.
func (h urgentHandler) Handle(ctx context.Context, record slog.Record) error {
	err := h.Handler.Handle(ctx, record)
	if record.Level >= slog.LevelWarn {
		err = errors.Join(err, h.lines.Flush())
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h urgentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgentHandler{h.Handler.WithAttrs(attrs), h.lines}
}

// WithGroup implements slog.Handler.
func (h urgentHandler) WithGroup(name string) slog.Handler {
	return urgentHandler{h.Handler.WithGroup(name), h.lines}
}
