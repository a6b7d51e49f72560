package sweeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

// broom is a sweeper for a synctest bubble. A sweep finds nothing and a recount nothing wrong, unless a test says otherwise.
// All times are counted from the broom's making.
type broom struct {
	*Sweeper
	t     *testing.T
	log   logBook
	began time.Time

	onSweep   func(atMost int) (claim.Swept, error)
	onRecount func() (int, error)

	still bool // no lane changes

	mu   sync.Mutex
	book record
}

// record is when the fakes were called.
type record struct{ sweeps, recounts, found, due []time.Duration }

func bubble(t *testing.T, test func(t *testing.T, b *broom)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &broom{t: t, began: time.Now()}
		b.Sweeper = &Sweeper{
			Store: fakeStore{b}, Interval: 10 * time.Second, RecountInterval: time.Minute,
			Found: func() { b.note(&b.book.found) },
			Saw: func(swept claim.Swept) {
				if swept.Due {
					b.note(&b.book.due)
				}
			},
			Log: slog.New(&b.log),
		}
		test(t, b)
	})
}

func (b *broom) now() time.Duration { return time.Since(b.began) }

func (b *broom) note(into *[]time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*into = append(*into, b.now())
}

func (b *broom) seen() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return record{slices.Clone(b.book.sweeps), slices.Clone(b.book.recounts), slices.Clone(b.book.found), slices.Clone(b.book.due)}
}

// runFor runs the sweeper for so long, and waits for its return.
func (b *broom) runFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	require.NoError(b.t, b.Run(ctx))
	require.Equal(b.t, d, b.now(), "it stops promptly")
}

type fakeStore struct{ *broom }

func (f fakeStore) Sweep(ctx context.Context, atMost int) (claim.Swept, error) {
	f.note(&f.book.sweeps)
	if err := ctx.Err(); err != nil {
		return claim.Swept{}, err
	}
	var swept claim.Swept
	var err error
	if f.onSweep != nil {
		swept, err = f.onSweep(atMost)
	}
	if !f.still {
		swept.LanesChanged = int64(len(f.seen().sweeps))
	}
	return swept, err
}

func (f fakeStore) RecountLanes(context.Context) (int, error) {
	f.note(&f.book.recounts)
	if f.onRecount != nil {
		return f.onRecount()
	}
	return 0, nil
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

// lines are level, message and attributes of each record.
func (l *logBook) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, record := range l.records {
		line := record.Level.String() + " " + record.Message
		record.Attrs(func(attr slog.Attr) bool {
			line += " " + attr.String()
			return true
		})
		lines = append(lines, line)
	}
	return lines
}

func TestSweepsAtOnceAndOnItsInterval(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.runFor(25 * time.Second)
		require.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second}, b.seen().sweeps)
		require.Empty(t, b.seen().found)
		require.Empty(t, b.log.lines(), "nothing to do is nothing to say")
	})
}

func TestWaitsForTheLeaseThatRunsOutNext(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (claim.Swept, error) {
			if len(b.seen().sweeps) == 1 {
				next := 3 * time.Second
				return claim.Swept{NextExpiryIn: &next}, nil
			}
			return claim.Swept{}, nil
		}
		b.runFor(5 * time.Second)
		sweeps := b.seen().sweeps
		require.Len(t, sweeps, 2)
		require.GreaterOrEqual(t, sweeps[1], 3*time.Second)
		require.Less(t, sweeps[1], 3*time.Second+maxJitter)
	})
}

func TestNeverWaitsLongerThanItsInterval(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (claim.Swept, error) {
			next := time.Hour
			return claim.Swept{NextExpiryIn: &next}, nil
		}
		b.runFor(25 * time.Second)
		require.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second}, b.seen().sweeps)
	})
}

func TestGoesOnAfterAFullBatch(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		var asked []int
		b.onSweep = func(atMost int) (claim.Swept, error) {
			asked = append(asked, atMost)
			switch len(asked) {
			case 1, 2:
				return claim.Swept{Requeued: atMost}, nil
			case 3:
				return claim.Swept{Requeued: 7}, nil
			}
			return claim.Swept{}, nil
		}
		b.runFor(5 * time.Second)
		require.Equal(t, []int{batch, batch, batch}, asked)
		require.Equal(t, []time.Duration{0, 0, 0}, b.seen().sweeps)
		require.Equal(t, []time.Duration{0}, b.seen().found, "the dispatcher is told once")
		require.Equal(t, []string{"WARN Recovering stale queue items count=1007 timeout=0s", "INFO Recovered stale queue items recovered_count=1007"}, b.log.lines())
	})
}

func TestTellsOfItemsThatNobodyAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (claim.Swept, error) { return claim.Swept{Unnoticed: 2}, nil }
		b.runFor(time.Second)
		require.Equal(t, []time.Duration{0}, b.seen().found)
		require.Equal(t, []string{"WARN Found due items that no insert trigger announced: is it disabled? workspaces=2"}, b.log.lines())
	})
}

func TestSweepThatFailsIsLoggedAndRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (claim.Swept, error) {
			if b.now() < 20*time.Second {
				return claim.Swept{}, errors.New("connection refused")
			}
			return claim.Swept{Requeued: 1}, nil
		}
		b.runFor(25 * time.Second)
		require.Equal(t, []string{
			"ERROR Cannot sweep error=connection refused",
			"ERROR Cannot sweep error=connection refused",
			"WARN Recovering stale queue items count=1 timeout=0s", "INFO Recovered stale queue items recovered_count=1",
		}, b.log.lines())
	})
}

func TestFailureAfterAFullBatchDoesNotHideWhatWasFound(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(atMost int) (claim.Swept, error) {
			if len(b.seen().sweeps) == 1 {
				return claim.Swept{Requeued: atMost}, nil
			}
			return claim.Swept{}, errors.New("connection refused")
		}
		b.runFor(5 * time.Second)
		require.Equal(t, []time.Duration{0}, b.seen().found)
		require.Equal(t, []string{
			"ERROR Cannot sweep error=connection refused",
			"WARN Recovering stale queue items count=500 timeout=0s", "INFO Recovered stale queue items recovered_count=500",
		}, b.log.lines())
	})
}

func TestRecountsOnItsIntervalAndNotAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.runFor(10*time.Minute + time.Second)
		recounts := b.seen().recounts
		require.GreaterOrEqual(t, len(recounts), 8)
		require.LessOrEqual(t, len(recounts), 10)
		require.Positive(t, recounts[0])
		for n := 1; n < len(recounts); n++ {
			require.GreaterOrEqual(t, recounts[n]-recounts[n-1], time.Minute)
			require.LessOrEqual(t, recounts[n]-recounts[n-1], time.Minute+b.Interval)
		}
	})
}

func TestWrongCountsAreCorrectedLoudly(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onRecount = func() (int, error) { return 3, nil }
		b.runFor(70*time.Second + time.Millisecond)
		require.NotEmpty(t, b.seen().recounts)
		require.Equal(t, b.seen().recounts, b.seen().found, "a slot may be free")
		require.Contains(t, b.log.lines()[0], "ERROR Corrected lanes")
		require.Contains(t, b.log.lines()[0], "lanes=3")
	})
}

func TestRecountThatFailsIsLoggedAndSurvived(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onRecount = func() (int, error) { return 0, errors.New("connection refused") }
		b.runFor(3 * time.Minute)
		require.Greater(t, len(b.seen().recounts), 1)
		require.Contains(t, b.log.lines(), "ERROR Cannot recount lanes error=connection refused")
		require.Empty(t, b.seen().found)
	})
}

func TestSweeperWithoutFoundTellsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.Found = nil
		b.onSweep = func(int) (claim.Swept, error) { return claim.Swept{Requeued: 1, Unnoticed: 1}, nil }
		b.onRecount = func() (int, error) { return 1, nil }
		b.runFor(3 * time.Minute)
	})
}

func TestCancellationIsNoError(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		ctx, cancel := context.WithCancel(t.Context())
		b.onSweep = func(int) (claim.Swept, error) {
			cancel()
			return claim.Swept{}, context.Canceled
		}
		require.NoError(t, b.Run(ctx))
		require.Len(t, b.seen().sweeps, 1)
		require.Empty(t, b.log.lines())
	})
}

func TestASweepThatSeesWorkThatNobodyClaimedSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (claim.Swept, error) { return claim.Swept{Due: b.now() > 15*time.Second}, nil }
		b.runFor(35 * time.Second)
		require.Equal(t, []time.Duration{20 * time.Second, 30 * time.Second}, b.seen().due)
		require.Empty(t, b.seen().found)
	})
}

func TestLanesThatHaveNotChangedAreNotCountedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (claim.Swept, error) { return claim.Swept{LanesChanged: 7}, nil }
		b.still = true
		b.runFor(time.Hour)
		require.Len(t, b.seen().recounts, 1)
	})
}

func TestOthersHearWhatASweepSaw(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		failed := errors.New("connection refused")
		b.onSweep = func(int) (claim.Swept, error) {
			if b.now() == 0 {
				return claim.Swept{}, failed
			}
			return claim.Swept{Open: 3, Unwatched: true}, nil
		}
		b.still = true
		var saw []claim.Swept
		b.Saw = func(swept claim.Swept) { saw = append(saw, swept) }
		b.runFor(15 * time.Second)
		require.Equal(t, []claim.Swept{{Open: 3, Unwatched: true}}, saw, "and nothing of one that failed")
	})
}
