package logging

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// outageAfter is how long Postgres must be unavailable before an outage is logged.
	outageAfter = time.Second
	// sayAgain is the minimum time between two lines about the same trouble.
	sayAgain = time.Minute
)

// Outages is a slog.Handler that keeps repeated trouble from flooding the log. While Postgres is unavailable, it logs
// that once a minute instead of each part's own error. An error of a lost connection and any other warning that parts
// repeat in their loops are logged once a minute, with the number of those left out. Lines about an item or an
// execution are never left out.
type Outages struct {
	slog.Handler
	component string
	log       *troubles
}

// troubles is shared by all handlers of a log.
type troubles struct {
	mu     sync.Mutex
	since  time.Time // of the first error of the outage; zero if Postgres answers
	saidAt time.Time // when the outage was last logged
	said   map[said]*repeats
}

type said struct{ component, message string }

type repeats struct {
	at   time.Time
	left int
}

// NewOutages returns a handler that passes records on to next.
func NewOutages(next slog.Handler) *Outages {
	return &Outages{Handler: next, log: &troubles{said: map[said]*repeats{}}}
}

// Handle implements slog.Handler.
func (o *Outages) Handle(ctx context.Context, record slog.Record) error {
	aboutOne, err := trouble(record)
	switch {
	case record.Level < slog.LevelWarn || err == nil || aboutOne:
		return o.Handler.Handle(ctx, record)
	// The listener and the gate log when their own outages begin and end.
	case postgres.IsUnavailable(err) && o.component != "listener" && o.component != "gate":
		return o.unavailable(ctx, record, err)
	}
	return o.onceAMinute(ctx, record, said{o.component, record.Message})
}

// onceAMinute drops a record if the same component logged the same message in the last minute.
func (o *Outages) onceAMinute(ctx context.Context, record slog.Record, what said) error {
	left, pass := o.log.repeat(what, record.Time)
	if !pass {
		return nil
	}
	if left > 0 {
		record = record.Clone()
		record.AddAttrs(slog.Int("repeated", left))
	}
	return o.Handler.Handle(ctx, record)
}

// unavailable passes the first error on, which may be of one connection, and then logs the outage. A server that goes
// away answers on some connections after it has dropped others, so first errors are those of all parts together.
func (o *Outages) unavailable(ctx context.Context, record slog.Record, err error) error {
	t, now := o.log, record.Time
	t.mu.Lock()
	first, say := t.since.IsZero(), false
	if first {
		t.since = now
	} else if say = now.Sub(t.since) >= outageAfter && now.Sub(t.saidAt) >= sayAgain; say {
		t.saidAt = now
	}
	since := t.since
	t.mu.Unlock()
	switch {
	case first:
		return o.onceAMinute(ctx, record, said{message: "connection lost"})
	case say:
		outage := slog.NewRecord(now, slog.LevelError, "Postgres does not answer; work continues when it does", record.PC)
		outage.AddAttrs(slog.Any("error", err), slog.Int64("for_ms", now.Sub(since).Milliseconds()))
		return o.Handler.Handle(ctx, outage)
	}
	return nil
}

// Answered logs the end of an outage. Call it after each statement that Postgres has answered.
func (o *Outages) Answered(ctx context.Context) {
	t, now := o.log, time.Now()
	t.mu.Lock()
	since, said := t.since, !t.saidAt.IsZero()
	t.since, t.saidAt = time.Time{}, time.Time{}
	t.mu.Unlock()
	if said {
		over := slog.NewRecord(now, slog.LevelInfo, "Postgres answers again", 0)
		over.AddAttrs(slog.Int64("after_ms", now.Sub(since).Milliseconds()))
		_ = o.Handler.Handle(ctx, over)
	}
}

// WithAttrs implements slog.Handler.
func (o *Outages) WithAttrs(attrs []slog.Attr) slog.Handler {
	component := o.component
	for _, attr := range attrs {
		if attr.Key == "component" {
			component = attr.Value.String()
		}
	}
	return &Outages{o.Handler.WithAttrs(attrs), component, o.log}
}

// WithGroup implements slog.Handler.
func (o *Outages) WithGroup(name string) slog.Handler {
	return &Outages{o.Handler.WithGroup(name), o.component, o.log}
}

// trouble returns the error of a record, and whether the record is about an item or an execution.
func trouble(record slog.Record) (aboutOne bool, err error) {
	record.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "error":
			err, _ = attr.Value.Any().(error)
		case "queue_item_id", "execution_id":
			aboutOne = true
		}
		return true
	})
	return aboutOne, err
}

// repeat reports whether a message is due, and how many were left out since it last was.
func (t *troubles) repeat(what said, now time.Time) (left int, pass bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.said[what]
	if before != nil && now.Sub(before.at) < sayAgain {
		before.left++
		return 0, false
	}
	if before != nil {
		left = before.left
	}
	t.said[what] = &repeats{at: now}
	return left, true
}
