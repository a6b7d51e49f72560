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
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// settlesIn has settles take this long.
func (d *desk) settlesIn(takes time.Duration) {
	d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
		time.Sleep(takes)
		return fakeStore{d}.putBack(verb, batch), nil
	}
}

// claimsIn has claims take this long.
func (d *desk) claimsIn(takes time.Duration) {
	d.onClaim = func(atMost int) (claim.Batch, error) {
		time.Sleep(takes)
		return fakeStore{d}.take(claim.Wanted{AtMost: atMost}), nil
	}
}

// said is how a settlement ends a claim: its verb, whether a start may have been sent, and the error.
func said(s claim.Settlement) string {
	answered := ""
	if s.Unanswered {
		answered = " unanswered"
	}
	return string(s.Verb) + answered + ": " + s.Error
}

func TestSettleIsGivenUpWhenTheLeaseCannotLastAnyLonger(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueue(1)
		d.onSettle = func(claim.Verb, []claim.Settlement) ([]int64, error) { return nil, errors.New("connection refused") }
		d.run()
		looptest.Pass(d.Lease + settleCap*2)
		require.Equal(t, []string{"Lease lost"}, d.log.At(slog.LevelWarn))
		require.Equal(t, "connection refused", d.log.Value("Lease lost", "error"))
		require.Empty(t, d.seen().reported)
		settles := len(d.seen().settles)
		require.InDelta(t, d.Lease/settleCap, settles, 10, "retries back off to settleCap")
		require.Empty(t, d.log.At(slog.LevelError))
		d.enqueue(1)
		d.rings(WakeNotification)
		looptest.Pass(time.Second)
		require.Greater(t, len(d.seen().settles), settles, "its worker continues")
	})
}

func TestItemsBesideOneWhoseSettleIsRefusedAreNotLost(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(4)
		d.onStart = startsByID(time.Millisecond)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			time.Sleep(10 * time.Millisecond) // so that the first item's neighbours are settled together
			kept := slices.DeleteFunc(slices.Clone(batch), func(s claim.Settlement) bool { return s.ID == 2 })
			settled := fakeStore{d}.putBack(verb, kept)
			if len(kept) < len(batch) {
				return settled, fmt.Errorf("settle: %w", &pgconn.PgError{Code: "P0001", Message: "audit says no"})
			}
			return settled, nil
		}
		d.run()
		looptest.Pass(time.Second)
		require.ElementsMatch(t, []string{"e1=run-e1", "e3=run-e3", "e4=run-e4"}, d.seen().reported)
		require.Equal(t, []string{"Lease lost"}, d.log.At(slog.LevelWarn))
	})
}

func TestWhatASettleThatWasRepeatedHadMovedIsNotLost(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.enqueue(4)
		d.onStart = startsByID(time.Millisecond)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			time.Sleep(10 * time.Millisecond) // so that the first item's neighbours are settled together
			store := fakeStore{d}
			settled := store.putBack(verb, batch[:1])
			if len(batch) > 1 && len(settled) > 0 {
				return settled, errors.New("connection refused")
			}
			return append(settled, store.putBack(verb, batch)...), nil
		}
		d.run()
		looptest.Pass(time.Second)
		require.ElementsMatch(t, []string{"e1=run-e1", "e2=run-e2", "e3=run-e3", "e4=run-e4"}, d.seen().reported)
	})
}

func TestASettleThatMovesNothingAfterOneWithoutAnAnswerIsNoWarning(t *testing.T) {
	bubbles(t, 0, map[string]int{"by itself": 3, "in a claim": 1}, func(t *testing.T, d *desk, workers int) {
		d.Workers = workers
		d.enqueue(1)
		answers := errors.New("connection reset by peer")
		d.onSettle = func(claim.Verb, []claim.Settlement) (settled []int64, err error) {
			err, answers = answers, nil
			return nil, err
		}
		d.run()
		looptest.Pass(2 * time.Second)
		require.Contains(t, d.log.At(slog.LevelInfo), "Lease lost")
		require.NotContains(t, d.log.At(slog.LevelWarn), "Lease lost")
	})
}

// One worker settles in its next claim.
func TestSettleThatMovesNothingIsALostLease(t *testing.T) {
	bubbles(t, 0, map[string]int{"by itself": 3, "in a claim": 1}, func(t *testing.T, d *desk, workers int) {
		d.Workers = workers
		d.enqueue(2)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			fakeStore{d}.putBack(verb, batch)
			return []int64{2}, nil
		}
		d.run()
		looptest.Pass(time.Second)
		require.Equal(t, []string{"e2=run-e2"}, d.seen().reported)
		require.Equal(t, []string{"Lease lost"}, d.log.At(slog.LevelWarn))
		require.Equal(t, claim.ErrLost.Error(), d.log.Value("Lease lost", "error"))
	})
}

// With one worker more than items a worker stays free, so no claim carries the settlements of the settler.
func TestWhatEndsDuringASettleGoesIntoTheNextOne(t *testing.T) {
	bubble(t, 11, func(t *testing.T, d *desk) {
		d.enqueue(10)
		d.onStart = startsByID(time.Millisecond)
		d.settlesIn(50 * time.Millisecond)
		d.run()
		looptest.Pass(3 * time.Second)
		settles := d.seen().settles
		require.Len(t, settles, 2)
		require.Len(t, settles[0].batch, 1, "the first settlement does not wait for others")
		require.Len(t, settles[1].batch, 9)
		require.Equal(t, 51*time.Millisecond, settles[1].at)
		require.Len(t, d.seen().reported, 10)
	})
}

// A settlement may wait for a locked row.
func TestASettleThatTakesLongHoldsUpTheNextForAMoment(t *testing.T) {
	bubble(t, 11, func(t *testing.T, d *desk) {
		d.enqueue(10)
		d.onStart = startsByID(time.Millisecond)
		d.onSettle = func(verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
			if batch[0].ID == 1 {
				time.Sleep(time.Second)
			}
			return fakeStore{d}.putBack(verb, batch), nil
		}
		d.run()
		looptest.Pass(500 * time.Millisecond)
		settles := d.seen().settles
		require.Len(t, settles, 2)
		require.Equal(t, time.Millisecond+settlePatience, settles[1].at)
		require.Len(t, d.seen().reported, 9)
		looptest.Pass(time.Second)
		require.Len(t, d.seen().reported, 10)
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
		d.settlesIn(50 * time.Millisecond)
		d.run()
		looptest.Pass(time.Second)
		settles := d.seen().settles
		sizes := map[claim.Verb]int{}
		for _, s := range settles[1:4] {
			sizes[s.verb] = len(s.batch)
		}
		require.Equal(t, map[claim.Verb]int{claim.Dispatched: 2, claim.Fail: 3, claim.Release: 1}, sizes)
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
	_, _, err := s.persist(ctx, claim.Dispatched, []claim.Settlement{{ID: 1}})
	require.EqualError(t, err, "settle timeout of 3s has expired: connection refused")
	_, _, err = s.persist(ctx, claim.Dispatched, []claim.Settlement{{ID: 1}})
	require.Equal(t, expired, err, "it was not tried any more")
}

func TestSettlementSaysHowAnOutcomeEndsAClaim(t *testing.T) {
	boom := errors.New("boom")
	type given struct {
		outcome  engine.Outcome
		err      error
		failures int
		verb     claim.Verb
		unknown  bool
		delay    time.Duration // before jitter
	}
	must.Each(t, map[string]given{
		"started":                     {engine.Started, nil, 0, claim.Dispatched, false, 0},
		"started after failures":      {engine.Started, nil, 9, claim.Dispatched, false, 0},
		"permanent":                   {engine.Permanent, boom, 0, claim.Fail, false, 0},
		"first failure":               {engine.Retryable, boom, 0, claim.Retry, false, time.Second},
		"second":                      {engine.Retryable, boom, 1, claim.Retry, false, 2 * time.Second},
		"third failure, the last":     {engine.Retryable, boom, 2, claim.Fail, false, 4 * time.Second},
		"beyond the last":             {engine.Retryable, boom, 7, claim.Fail, false, 128 * time.Second},
		"unregistered":                {engine.Unregistered, boom, 2, claim.Retry, false, 4 * time.Second},
		"unregistered at last":        {engine.Unregistered, boom, 8, claim.Fail, false, 256 * time.Second},
		"a panic":                     {engine.Panicked, boom, 0, claim.Retry, true, time.Second},
		"the last panic":              {engine.Panicked, boom, 2, claim.Fail, true, 4 * time.Second},
		"busy":                        {engine.Busy, boom, 2, claim.Release, true, time.Second},
		"not sent":                    {engine.NotSent, boom, 2, claim.Release, false, 0},
		"blocked":                     {engine.Blocked, boom, 2, claim.Release, false, aloneBase},
		"unreached":                   {engine.Unreached, boom, 2, claim.Release, false, aloneBase},
		"throttled":                   {engine.Throttled, boom, 2, claim.Release, true, 0},
		"unanswered":                  {engine.Unanswered, boom, 0, claim.Release, true, aloneBase},
		"unanswered at the last try":  {engine.Unanswered, boom, 2, claim.Release, true, aloneBase},
		"unanswered beyond the limit": {engine.Unanswered, boom, 100, claim.Release, true, aloneBase},
	}, func(t *testing.T, c given) {
		item := claim.Item{ID: 7, Token: 3, MaxAttempts: 3, FailureCount: c.failures}
		s := (&run{}).settlement(item, c.outcome, "run", c.err)
		require.EqualValues(t, 7, s.ID)
		require.EqualValues(t, 3, s.Token)
		require.Equal(t, c.verb, s.Verb)
		require.Equal(t, c.unknown, s.Unanswered)
		require.Equal(t, c.outcome == engine.Started, s.RunID == "run")
		require.Equal(t, c.err == nil, s.Error == "")
		require.GreaterOrEqual(t, s.Delay, c.delay*8/10)
		require.LessOrEqual(t, s.Delay, c.delay*12/10)
	})
}

func TestSettlement_KeepsTheSlotOfWhatMayHaveBeenSent(t *testing.T) {
	t.Parallel()
	for _, outcome := range []engine.Outcome{engine.NotSent, engine.Behind, engine.Blocked, engine.Unreached,
		engine.Retryable} {
		item := claim.Item{ID: 7, MaxAttempts: 3, Unanswered: true, UnansweredFor: time.Minute}
		require.True(t, (&run{}).settlement(item, outcome, "", errors.New("boom")).Unanswered, outcome.String())
		item.UnansweredFor = 0
		require.False(t, (&run{}).settlement(item, outcome, "", errors.New("boom")).Unanswered, outcome.String())
	}
}

func TestSettlementKeepsAnErrorThatPostgresTakes(t *testing.T) {
	t.Parallel()
	s := (&run{}).settlement(claim.Item{}, engine.Permanent, "", errors.New("bad \x00 \xff text\nin two lines"))
	require.Equal(t, "bad \uFFFD \uFFFD text in two lines", s.Error)
}

func TestRetryDelayDoublesWithJitterUpToItsCap(t *testing.T) {
	t.Parallel()
	for failures, nominal := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 5: 16 * time.Second, 8: 128 * time.Second,
		9: 256 * time.Second, 10: retryCap, 32: retryCap, 1000: retryCap,
	} {
		seen := map[time.Duration]bool{}
		for range 50 {
			delay := retryDelay(failures)
			require.GreaterOrEqual(t, delay, nominal*8/10, "after %d failures", failures)
			require.LessOrEqual(t, delay, nominal*12/10, "after %d failures", failures)
			seen[delay] = true
		}
		require.Greater(t, len(seen), 1, "items that failed together retry at different times")
	}
}
