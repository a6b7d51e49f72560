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

// outageRemedy is what an operator can do about an outage of Postgres.
const outageRemedy = "see whether the server runs and this machine reaches it: `pgdispatch doctor`"

// Outages is a slog.Handler that keeps repeated trouble from flooding the log. An outage of Postgres is one line when
// it has lasted a second, repeated every minute, and one at its end, in place of each part's own errors. An error of a
// lost connection and any other warning that parts repeat in their loops are logged once a minute, with the number of
// those left out. Other lines about an item or an execution are never left out.
type Outages struct {
	slog.Handler
	component string
	log       *troubles
}

// troubles is shared by all handlers of a log.
type troubles struct {
	mu sync.Mutex
	// answered is whether Postgres has ever answered.
	answered bool
	// since is the time of the first error of the outage; zero if Postgres answers. cause is its last error. saidAt is
	// when the outage was last logged.
	since, saidAt time.Time
	cause         error
	// held logs the errors of the time before an outage, if there is no outage after all. heldAt is when the first of
	// them came.
	held   []held
	heldAt time.Time
	said   map[said]*repeats
}

type said struct{ component, message string }

type held struct {
	what said
	log  func(context.Context) error
}

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
	case record.Level < slog.LevelWarn || err == nil:
		return o.Handler.Handle(ctx, record)
	case postgres.IsUnavailable(err):
		return o.unavailable(ctx, record, err, said{message: "connection lost"})
	case postgres.IsSilent(err): // perhaps of one statement only
		return o.unavailable(ctx, record, err, said{o.component, record.Message})
	case aboutOne:
		return o.Handler.Handle(ctx, record)
	}
	return o.onceAMinute(ctx, record, said{o.component, record.Message})
}

// onceAMinute drops a record if the same component logged the same message in the last minute.
func (o *Outages) onceAMinute(ctx context.Context, record slog.Record, what said) error {
	o.log.mu.Lock()
	left, pass := o.log.repeat(what, record.Time)
	o.log.mu.Unlock()
	if !pass {
		return nil
	}
	return o.Handler.Handle(ctx, repeated(record, left))
}

// repeated returns a record that says how many like it were left out.
func repeated(record slog.Record, left int) slog.Record {
	record = record.Clone()
	if left > 0 {
		record.AddAttrs(slog.Int("repeated", left))
	}
	return record
}

// unavailable holds errors back, which may be of one connection, until Postgres has been unavailable for outageAfter,
// and then logs the outage instead of them. If Postgres answers after that time, they are logged: a server that goes
// away answers on some connections after it has dropped others.
func (o *Outages) unavailable(ctx context.Context, record slog.Record, err error, what said) error {
	t, now := o.log, record.Time
	t.mu.Lock()
	t.cause = err
	if t.since.IsZero() {
		t.since = now
	}
	since := t.since
	if now.Sub(since) >= outageAfter && now.Sub(t.saidAt) >= sayAgain {
		for _, unsaid := range t.held {
			delete(t.said, unsaid.what)
		}
		t.saidAt, t.held = now, nil
		t.mu.Unlock()
		outage := slog.NewRecord(now, slog.LevelError, "Postgres does not answer; work continues when it does", record.PC)
		outage.AddAttrs(slog.Any("error", err), slog.Time("since", since),
			slog.Int64("for_ms", now.Sub(since).Milliseconds()), slog.String("remedy", outageRemedy))
		return o.Handler.Handle(ctx, outage)
	}
	defer t.mu.Unlock()
	if !t.saidAt.IsZero() {
		return nil
	}
	left, pass := t.repeat(what, now)
	if !pass {
		return nil
	}
	record = repeated(record, left)
	if !t.answered { // as after a start with a wrong address
		return o.Handler.Handle(ctx, record)
	}
	if len(t.held) == 0 {
		t.heldAt = now
	}
	t.held = append(t.held, held{what, func(ctx context.Context) error { return o.Handler.Handle(ctx, record) }})
	return nil
}

// Answered logs the end of an outage. Call it after each statement that Postgres has answered.
func (o *Outages) Answered(ctx context.Context) {
	t, now := o.log, time.Now()
	t.mu.Lock()
	since, said, cause := t.since, !t.saidAt.IsZero(), t.cause
	t.since, t.saidAt, t.answered = time.Time{}, time.Time{}, true
	var due []held
	if len(t.held) > 0 && now.Sub(t.heldAt) >= outageAfter {
		due, t.held = t.held, nil
	}
	t.mu.Unlock()
	for _, unsaid := range due {
		_ = unsaid.log(ctx)
	}
	if said {
		over := slog.NewRecord(now, slog.LevelInfo, "Postgres answers again", 0)
		over.AddAttrs(slog.Int64("after_ms", now.Sub(since).Milliseconds()), slog.Any("error", cause),
			slog.String("remedy", outageRemedy))
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

// repeat reports whether a message is due, and how many were left out since it last was. The caller holds mu.
func (t *troubles) repeat(what said, now time.Time) (left int, pass bool) {
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
