package complete

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

// post is a watcher for a synctest bubble. Nothing is adopted and everything completes after a second, unless a test says
// otherwise. All times are counted from the post's making.
type post struct {
	*Watcher
	t     *testing.T
	log   logBook
	began time.Time

	onAdopt  func(atMost int, watching []string) ([]claim.Execution, error)
	onFinish func(executionID string) (bool, error)
	onWait   func(ctx context.Context, execution claim.Execution) (End, error)

	mu   sync.Mutex
	book record
}

// record is what the fakes saw.
type record struct {
	adopts   []adoptCall
	finished []string // execution=outcome
	waits    int
	now      int // waits under way
	most     int // the most of them at once
	freed    int
}

type adoptCall struct {
	at       time.Duration
	atMost   int
	watching []string
}

func bubble(t *testing.T, test func(t *testing.T, p *post)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &post{t: t, began: time.Now()}
		p.Watcher = &Watcher{
			Store: fakeStore{p}, Waiter: fakeWaiter{p}, MaxWatches: 10, AdoptInterval: 10 * time.Second,
			Freed: func() { p.note(func(r *record) { r.freed++ }) },
			Log:   slog.New(&p.log),
		}
		test(t, p)
	})
}

// run runs the watcher, and returns a function that cancels it and waits for its return.
func (p *post) run() (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		require.NoError(p.t, <-ended)
	}
}

// pass lets so much time pass, and everybody do what is due by then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (p *post) now() time.Duration { return time.Since(p.began) }

func (p *post) note(change func(*record)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.book)
}

func (p *post) seen() record {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.book
	seen.adopts, seen.finished = slices.Clone(seen.adopts), slices.Clone(seen.finished)
	return seen
}

type fakeStore struct{ *post }

func (f fakeStore) Adopt(_ context.Context, atMost int, watching []string) ([]claim.Execution, error) {
	slices.Sort(watching)
	f.note(func(r *record) { r.adopts = append(r.adopts, adoptCall{f.now(), atMost, watching}) })
	if f.onAdopt != nil {
		return f.onAdopt(atMost, watching)
	}
	return nil, nil
}

func (f fakeStore) Finish(_ context.Context, executionID, outcome, _ string) (bool, error) {
	f.note(func(r *record) { r.finished = append(r.finished, executionID+"="+outcome) })
	if f.onFinish != nil {
		return f.onFinish(executionID)
	}
	return true, nil
}

type fakeWaiter struct{ *post }

func (f fakeWaiter) Wait(ctx context.Context, execution claim.Execution) (End, error) {
	f.note(func(r *record) { r.waits++; r.now++; r.most = max(r.most, r.now) })
	defer f.note(func(r *record) { r.now-- })
	if f.onWait != nil {
		return f.onWait(ctx, execution)
	}
	select {
	case <-ctx.Done():
		return End{}, ctx.Err()
	case <-time.After(time.Second):
		return End{Outcome: "COMPLETED"}, nil
	}
}

// logBook is a slog handler that keeps what is logged.
type logBook struct {
	mu      sync.Mutex
	records []slog.Record
}

func (l *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logBook) WithGroup(string) slog.Handler            { return l }

func (l *logBook) Handle(_ context.Context, record slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, record)
	return nil
}

// at are the errors of a level's records, in order.
func (l *logBook) at(level slog.Level) (messages, errors []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, record := range l.records {
		if record.Level != level {
			continue
		}
		messages = append(messages, record.Message)
		record.Attrs(func(attr slog.Attr) bool {
			if attr.Key == "error" {
				errors = append(errors, attr.Value.String())
			}
			return true
		})
	}
	return messages, errors
}
