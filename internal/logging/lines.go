// Package logging writes the log of a replica: in batches, with clean texts, and repeated trouble once a minute.
package logging

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// lineDelay is how long a line may be buffered.
	lineDelay = 100 * time.Millisecond
	// linesSize is the size of the buffer, in bytes.
	linesSize = 64 << 10
)

// Lines buffers log lines and writes them in batches, because a busy replica logs thousands per second. While Run is
// running, a line is delayed by up to lineDelay. A line of level WARN or above is written at once, together with all
// buffered lines. Before and after Run, every line is written at once. Lines stay whole and in order. Lines that could
// not be written are retried with the next write.
type Lines struct {
	// out receives the lines. Loggers block while it writes, as with direct writes.
	out io.Writer
	// arrived signals the first buffered line.
	arrived chan struct{}

	mu      sync.Mutex
	waiting []byte
	delays  bool // whether Run is running
}

// NewLines returns log lines that are written to out.
func NewLines(out io.Writer) *Lines {
	return &Lines{out: out, arrived: make(chan struct{}, 1)}
}

// Logger returns a logger that writes JSON lines.
func (l *Lines) Logger(level slog.Leveler) *slog.Logger {
	return slog.New(urgentHandler{slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level}), l})
}

// Run enables buffering until ctx is cancelled, then writes the remaining lines.
func (l *Lines) Run(ctx context.Context) error {
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
			l.arrive() // retry
		}
	}
}

// During runs do with buffering enabled, until ctx is cancelled or do returns or panics.
func (l *Lines) During(ctx context.Context, do func() error) error {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	defer func() { stop(); <-done }()
	return do()
}

func (l *Lines) delay(delays bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delays = delays
	_ = l.write()
}

// Write buffers one line. If the buffer is full and cannot be written, the line is lost, as it would be without
// buffering.
func (l *Lines) Write(line []byte) (int, error) {
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

// Flush writes the buffered lines.
func (l *Lines) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write()
}

// write writes the buffered lines and keeps what was not written. The caller holds mu.
func (l *Lines) write() error {
	if len(l.waiting) == 0 {
		return nil
	}
	written, err := l.out.Write(l.waiting)
	l.waiting = append(l.waiting[:0], l.waiting[written:]...)
	return err
}

func (l *Lines) arrive() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// urgentHandler cleans the texts of errors, which may come from a workflow, and flushes the buffer after each record of
// level WARN or above.
type urgentHandler struct {
	slog.Handler
	lines *Lines
}

// Handle implements slog.Handler.
func (h urgentHandler) Handle(ctx context.Context, record slog.Record) error {
	err := h.Handler.Handle(ctx, cleaned(record))
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

// cleaned returns a record whose errors are safe to display. HandlerOptions.ReplaceAttr would slow down every line.
func cleaned(record slog.Record) slog.Record {
	if _, err := trouble(record); err == nil {
		return record
	}
	clean := slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		if err, is := attr.Value.Any().(error); is {
			attr.Value = slog.StringValue(postgres.Clean(err.Error()))
		}
		clean.AddAttrs(attr)
		return true
	})
	return clean
}
