package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/claim"
)

// With one worker more than items a worker stays free, so no claim carries the settlements of the settler.

func TestSettleIsRepeatedUntilTheDatabaseAnswers(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			if d.now() < 8*time.Second {
				return nil, errors.New("connection refused")
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		stop := d.run()
		pass(8*time.Second - 1)
		require.Empty(t, d.seen().reported)
		require.Less(t, len(d.seen().settles), 20, "retries back off while the database does not answer")
		pass(settleCap*12/10 + 1)
		require.Equal(t, []string{"e1=run-e1"}, d.seen().reported)
		require.Empty(t, d.log.At(slog.LevelError))
		stop()
	})
}

func TestSettleIsGivenUpWhenTheLeaseCannotLastAnyLonger(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onSettle = func(claim.Verb, []claim.Settlement) ([]int64, error) { return nil, errors.New("connection refused") }
		stop := d.run()
		pass(d.Lease + settleCap*2)
		require.Equal(t, []string{"Lease lost"}, d.log.At(slog.LevelWarn))
		require.Equal(t, "connection refused", d.log.Value("Lease lost", "error"))
		require.Empty(t, d.seen().reported)
		settles := len(d.seen().settles)
		d.enqueue(1)
		d.wake <- "notification"
		pass(time.Second)
		require.Greater(t, len(d.seen().settles), settles, "its worker continues")
		stop()
	})
}

func TestItemsBesideOneWhoseSettleIsRefusedAreNotLost(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(4)
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			return starts(time.Duration(item.ID)*time.Millisecond)(ctx, item)
		}
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			time.Sleep(10 * time.Millisecond) // so that the first item's neighbours are settled together
			kept := slices.DeleteFunc(slices.Clone(batch), func(s claim.Settlement) bool { return s.ID == 2 })
			settled := fakeStore{d}.putBack(verb, kept)
			if len(kept) < len(batch) {
				return settled, fmt.Errorf("settle: %w", &pgconn.PgError{Code: "P0001", Message: "audit says no"})
			}
			return settled, nil
		}
		stop := d.run()
		pass(time.Second)
		require.ElementsMatch(t, []string{"e1=run-e1", "e3=run-e3", "e4=run-e4"}, d.seen().reported)
		require.Equal(t, []string{"Lease lost"}, d.log.At(slog.LevelWarn))
		stop()
	})
}

// One worker settles in its next claim.
func TestSettleThatMovesNothingIsALostLease(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string]int{"by itself": 3, "in a claim": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, workers, func(t *testing.T, d *desk) {
				d.enqueue(2)
				d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
					fakeStore{d}.putBack(verb, batch)
					return []int64{2}, nil
				}
				stop := d.run()
				pass(time.Second)
				require.Equal(t, []string{"e2=run-e2"}, d.seen().reported)
				require.Equal(t, []string{"Lease lost"}, d.log.At(slog.LevelWarn))
				require.Equal(t, claim.ErrLost.Error(), d.log.Value("Lease lost", "error"))
				stop()
			})
		})
	}
}

func TestWhatEndsDuringASettleGoesIntoTheNextOne(t *testing.T) {
	bubble(t, 11, func(t *testing.T, d *desk) {
		d.enqueue(10)
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			return starts(time.Duration(item.ID)*time.Millisecond)(ctx, item)
		}
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			time.Sleep(50 * time.Millisecond)
			return fakeStore{d}.putBack(verb, batch), nil
		}
		stop := d.run()
		pass(3 * time.Second)
		settles := d.seen().settles
		require.Len(t, settles, 2)
		require.Len(t, settles[0].batch, 1, "the first settlement does not wait for others")
		require.Len(t, settles[1].batch, 9)
		require.Equal(t, 51*time.Millisecond, settles[1].at)
		require.Len(t, d.seen().reported, 10)
		stop()
	})
}

// A settlement may wait for a locked row.
func TestASettleThatTakesLongHoldsUpTheNextForAMoment(t *testing.T) {
	bubble(t, 11, func(t *testing.T, d *desk) {
		d.enqueue(10)
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			return starts(time.Duration(item.ID)*time.Millisecond)(ctx, item)
		}
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			if batch[0].ID == 1 {
				time.Sleep(time.Second)
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		stop := d.run()
		pass(500 * time.Millisecond)
		settles := d.seen().settles
		require.Len(t, settles, 2)
		require.Equal(t, time.Millisecond+settlePatience, settles[1].at)
		require.Len(t, d.seen().reported, 9)
		pass(time.Second)
		require.Len(t, d.seen().reported, 10)
		stop()
	})
}

func TestBatchOfSeveralVerbsIsOneStatementEach(t *testing.T) {
	bubble(t, 8, func(t *testing.T, d *desk) {
		d.enqueue(7)
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			time.Sleep(time.Duration(item.ID) * time.Millisecond)
			switch {
			case item.ID == 7:
				return "", serviceerror.NewUnavailable("connection refused")
			case item.ID%2 == 0:
				return "", serviceerror.NewInvalidArgument("no such thing")
			}
			return "run", nil
		}
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			time.Sleep(50 * time.Millisecond)
			return fakeStore{d}.putBack(verb, batch), nil
		}
		stop := d.run()
		pass(time.Second)
		settles := d.seen().settles
		sizes := map[claim.Verb]int{}
		for _, s := range settles[1:4] {
			sizes[s.verb] = len(s.batch)
		}
		require.Equal(t, map[claim.Verb]int{claim.Dispatched: 2, claim.Fail: 3, claim.Release: 1}, sizes)
		stop()
	})
}

func TestSettleThatRunsOutOfTimeSaysSoAndWhatTheLastTryMet(t *testing.T) {
	t.Parallel()
	expired := errors.New("settle timeout of 3s has expired")
	ctx, cancel := context.WithCancelCause(t.Context())
	d := newDesk(t, 1)
	s := &settler{observer: noObserver{}, store: fakeStore{d}, lease: time.Second}
	d.onSettle = func(claim.Verb, []claim.Settlement) ([]int64, error) {
		cancel(expired)
		return nil, errors.New("connection refused")
	}
	_, err := s.persist(ctx, claim.Dispatched, []claim.Settlement{{ID: 1}})
	require.EqualError(t, err, "settle timeout of 3s has expired: connection refused")
	_, err = s.persist(ctx, claim.Dispatched, []claim.Settlement{{ID: 1}})
	require.Equal(t, expired, err, "it was not tried any more")
}
