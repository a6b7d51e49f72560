package dispatch

import (
	"errors"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
)

func TestSettlementSaysHowAnOutcomeEndsAClaim(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		outcome  engine.Outcome
		err      error
		failures int
		verb     claim.Verb
		unknown  bool
		delay    time.Duration // before jitter
	}{
		"started":                     {engine.Started, nil, 0, claim.Dispatched, false, 0},
		"started after failures":      {engine.Started, nil, 9, claim.Dispatched, false, 0},
		"permanent":                   {engine.Permanent, boom, 0, claim.Fail, false, 0},
		"first failure":               {engine.Retryable, boom, 0, claim.Retry, false, time.Second},
		"second":                      {engine.Retryable, boom, 1, claim.Retry, false, 2 * time.Second},
		"third failure, the last":     {engine.Retryable, boom, 2, claim.Fail, false, 4 * time.Second},
		"beyond the last":             {engine.Retryable, boom, 7, claim.Fail, false, 128 * time.Second},
		"a panic":                     {engine.Panicked, boom, 0, claim.Retry, true, time.Second},
		"the last panic":              {engine.Panicked, boom, 2, claim.Fail, true, 4 * time.Second},
		"busy":                        {engine.Busy, boom, 2, claim.Release, true, time.Second},
		"not sent":                    {engine.NotSent, boom, 2, claim.Release, false, 0},
		"blocked":                     {engine.Blocked, boom, 2, claim.Release, false, 0},
		"unreached":                   {engine.Unreached, boom, 2, claim.Release, false, 0},
		"throttled":                   {engine.Throttled, boom, 2, claim.Release, true, 0},
		"unanswered":                  {engine.Unanswered, boom, 0, claim.Release, true, 0},
		"unanswered at the last try":  {engine.Unanswered, boom, 2, claim.Release, true, 0},
		"unanswered beyond the limit": {engine.Unanswered, boom, 100, claim.Release, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
