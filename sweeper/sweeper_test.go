package sweeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/notify"
)

// broom is a sweeper for a synctest bubble. By default a sweep finds nothing.
// All times count from the creation of the broom.
type broom struct {
	*Sweeper
	t     *testing.T
	log   logtest.Book
	began time.Time

	onSweep     func(atMost int) (Swept, error)
	onBringBack func() (Brought, error)
	holder      *notify.Holder
	onHousekeep func() (map[string]string, error)

	mu   sync.Mutex
	book record
}

// record holds the times of the fakes' calls.
type record struct{ sweeps, found, brought []time.Duration }

func bubble(t *testing.T, test func(t *testing.T, b *broom)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &broom{t: t, began: time.Now()}
		b.Sweeper = &Sweeper{
			Store: fakeStore{b}, Interval: 10 * time.Second,
			Found: func() { b.note(&b.book.found) },
			Log:   slog.New(&b.log),
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
	return record{slices.Clone(b.book.sweeps), slices.Clone(b.book.found), slices.Clone(b.book.brought)}
}

// runFor runs the sweeper for this long, and waits for its return.
func (b *broom) runFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	require.NoError(b.t, b.Run(ctx))
	require.Equal(b.t, d, b.now(), "it stops promptly")
}

type fakeStore struct{ *broom }

func (f fakeStore) Sweep(ctx context.Context, atMost int) (Swept, error) {
	f.note(&f.book.sweeps)
	if err := ctx.Err(); err != nil {
		return Swept{}, err
	}
	if f.onSweep != nil {
		return f.onSweep(atMost)
	}
	return Swept{}, nil
}

func (f fakeStore) Housekeep(context.Context) (map[string]string, error) {
	if f.onHousekeep != nil {
		return f.onHousekeep()
	}
	return nil, nil
}

func (f fakeStore) BringBack(context.Context, int) (Brought, error) {
	f.note(&f.book.brought)
	if f.onBringBack != nil {
		return f.onBringBack()
	}
	return Brought{OpenTo: 1}, nil
}

func (f fakeStore) QueueHolder(context.Context) (*notify.Holder, error) {
	return f.holder, nil
}

func TestSweepsAtOnceAndOnItsInterval(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (Swept, error) {
			if next := time.Hour; b.now() > 0 {
				return Swept{NextExpiryIn: &next}, nil // it never waits longer
			}
			return Swept{}, nil
		}
		b.runFor(25 * time.Second)
		require.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second}, b.seen().sweeps)
		require.Empty(t, b.seen().found)
		require.Empty(t, b.log.Lines(), "an empty sweep is not logged")
	})
}

func TestWaitsForTheLeaseThatRunsOutNext(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (Swept, error) {
			if len(b.seen().sweeps) == 1 {
				next := 3 * time.Second
				return Swept{NextExpiryIn: &next, Requeued: 1}, nil // after a requeue as well
			}
			return Swept{}, nil
		}
		b.runFor(5 * time.Second)
		sweeps := b.seen().sweeps
		require.Len(t, sweeps, 2)
		require.GreaterOrEqual(t, sweeps[1], 3*time.Second)
		require.Less(t, sweeps[1], 3*time.Second+maxJitter)
	})
}

func TestGoesOnWhileItemsAreLateAndThenWaitsForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (Swept, error) {
			if len(b.seen().sweeps) == 1 {
				return Swept{Late: 2}, nil
			}
			next := 2 * time.Second
			return Swept{NextExpiryIn: &next}, nil
		}
		b.runFor(time.Second)
		require.Equal(t, []time.Duration{0, 0}, b.seen().sweeps)
		require.Equal(t, []string{"Cancelled items that were not claimed before their start_before"},
			b.log.At(slog.LevelWarn))
		require.Empty(t, b.seen().found, "no slot is free")
	})
}

func TestAWakeUpIsFollowedByASweepButManyAreNot(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		wake := make(chan struct{}, 1)
		b.Wake = wake
		go func() {
			time.Sleep(3 * time.Second)
			for range 30 {
				select {
				case wake <- struct{}{}:
				default:
				}
				time.Sleep(time.Second / 30)
			}
		}()
		b.runFor(9 * time.Second)
		sweeps := b.seen().sweeps
		require.Equal(t, []time.Duration{0, 3 * time.Second}, sweeps[:2])
		require.InDelta(t, 2+5, len(sweeps), 1, "one each wakePause")
	})
}

func TestGoesOnAfterAFullBatch(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		var asked []int
		b.onSweep = func(atMost int) (Swept, error) {
			asked = append(asked, atMost)
			switch len(asked) {
			case 1, 2:
				return Swept{Requeued: atMost}, nil
			case 3:
				return Swept{Requeued: 7}, nil
			}
			return Swept{}, nil
		}
		b.runFor(5 * time.Second)
		require.Equal(t, []int{batch, batch, batch}, asked)
		require.Equal(t, []time.Duration{0, 0, 0}, b.seen().sweeps)
		require.Equal(t, []time.Duration{0}, b.seen().found, "the dispatcher is notified once")
		require.Equal(t,
			[]string{"WARN Recovering stale queue items count=1007 timeout=0s",
				"INFO Recovered stale queue items recovered_count=1007"}, b.log.Lines())
	})
}

func TestANotificationQueueThatFillsIsLoggedAtItsBeginningAndItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (Swept, error) {
			switch at := b.now(); {
			case at < 10*time.Second:
				return Swept{NotifyQueue: 0.09}, nil
			case at < 50*time.Second:
				return Swept{NotifyQueue: 0.1}, nil
			case at < 55*time.Second:
				return Swept{}, errors.New("away") // without the queue's usage
			case at < 100*time.Second:
				b.holder = &notify.Holder{PID: 7, Role: "stranger", Database: "shop", Application: "psql", Age: time.Hour}
				return Swept{NotifyQueue: 0.9}, nil
			}
			return Swept{}, nil
		}
		b.runFor(125 * time.Second)
		fills := "WARN Postgres notification queue is filling up; polling until it is drained. Terminate the session that " +
			"holds it percent=%d session=%s"
		require.Equal(t, []string{
			fmt.Sprintf(fills, 10, "unknown; as an administrator, run `"+notify.FindHolder+"`"),
			"ERROR Cannot sweep error=away",
			fmt.Sprintf(fills, 90, `pid 7, role "stranger", database "shop", application "psql", `+
				"in one transaction for 1h0m0s: `select pg_terminate_backend(7)`"),
			"INFO Postgres notification queue has room again after_ms=90000"}, b.log.Lines())
	})
}

func TestCancellationIsNoError(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		ctx, cancel := context.WithCancel(t.Context())
		b.onSweep = func(int) (Swept, error) {
			cancel()
			return Swept{}, context.Canceled
		}
		require.NoError(t, b.Run(ctx))
		require.Len(t, b.seen().sweeps, 1)
		require.Empty(t, b.log.Lines())
	})
}

func TestOthersHearWhatASweepSaw(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		failed := errors.New("connection refused")
		b.Found = nil
		b.onSweep = func(int) (Swept, error) {
			if b.now() == 0 {
				return Swept{}, failed
			}
			return Swept{Open: 3, Unwatched: true, Requeued: 1}, nil
		}
		var saw []Swept
		var errs []error
		b.Saw = func(swept Swept, err error) {
			if err != nil {
				errs = append(errs, err)
				return
			}
			saw = append(saw, swept)
		}
		b.runFor(15 * time.Second)
		require.Equal(t, []Swept{{Open: 3, Unwatched: true, Requeued: 1}}, saw)
		require.Equal(t, []error{failed}, errs)
	})
}

func TestSweeper_LogsEachFailingPartOnceAndReportsAllOfThem(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		reported := []string{}
		b.Failing = func(failing map[string]string) { reported = append(reported, fmt.Sprint(failing)) }
		b.onSweep = func(int) (Swept, error) {
			switch at := b.now(); {
			case at < 25*time.Second:
				return Swept{Housework: true, Failing: map[string]string{PartLeases: "no"}}, nil
			case at < 35*time.Second:
				return Swept{}, errors.New("away")
			case at < 45*time.Second:
				return Swept{Housework: true}, nil
			}
			return Swept{}, nil
		}
		b.onHousekeep = func() (map[string]string, error) {
			if b.now() > 25*time.Second {
				return nil, errors.New("slow")
			}
			return map[string]string{"marks": "never"}, nil
		}
		b.runFor(55 * time.Second)
		require.Equal(t, []string{"map[leases:no marks:never]", "map[leases:no marks:never]", "map[leases:no marks:never]",
			"map[sweep:away]", "map[housekeeping:slow]", "map[]"}, reported)
		require.Equal(t, []string{
			"ERROR Part of the upkeep fails part=leases error=no",
			"ERROR Part of the upkeep fails part=marks error=never",
			"ERROR Cannot sweep error=away",
			"INFO Part of the upkeep works again part=leases", "INFO Part of the upkeep works again part=marks",
			"ERROR Part of the upkeep fails part=housekeeping error=slow",
			"INFO Part of the upkeep works again part=housekeeping"}, b.log.Lines())
	})
}

func TestSweeper_LeavesAnOutageToWhoeverLogsIt(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (Swept, error) { return Swept{Housework: true}, nil }
		b.onHousekeep = func() (map[string]string, error) { return nil, io.ErrUnexpectedEOF }
		b.runFor(15 * time.Second)
		require.Empty(t, b.log.Lines())
	})
}
