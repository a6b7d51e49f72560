package sweeper

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

const jump = "ERROR Database clock jumped; leases, run_at and rate limits depend on it jumped_ms="

// withClock sets the database's clock forward by this much before the second sweep.
func (b *broom) withClock(set time.Duration) {
	b.onSweep = func(int) (Swept, error) {
		now := time.Now().Add(72 * time.Hour) // any time works: only the difference matters
		if len(b.seen().sweeps) > 1 {
			now = now.Add(set)
		}
		return Swept{Now: now}, nil
	}
}

func TestAJumpOfTheDatabasesClockIsAnAlarmOnceUnlessTheClockIsDisciplined(t *testing.T) {
	for set, said := range map[time.Duration][]string{
		time.Hour: {jump + "3600000"}, -time.Hour: {jump + "-3600000"}, 1100 * time.Millisecond: {jump + "1100"},
		900 * time.Millisecond: nil, -900 * time.Millisecond: nil, 0: nil,
	} {
		t.Run(set.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, b *broom) {
				b.withClock(set)
				b.runFor(35 * time.Second)
				require.Len(t, b.seen().sweeps, 4)
				require.Equal(t, said, b.log.Lines())
			})
		})
	}
}

// Failed and slow statements are not evidence of a clock jump.
func TestASlowSweepIsNoJump(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (Swept, error) {
			switch n := len(b.seen().sweeps); n {
			case 2, 3:
				time.Sleep(4 * time.Second)
				return Swept{Now: time.Now().Add(-time.Duration(n-2) * 4 * time.Second)}, nil
			case 4:
				return Swept{}, errors.New("connection refused")
			}
			return Swept{Now: time.Now()}, nil
		}
		b.runFor(55 * time.Second)
		require.Equal(t, []string{"ERROR Cannot sweep error=connection refused"}, b.log.Lines())
	})
}

const brought = "WARN Brought back stored times because the database clock was set back times="

// sees has the sweeps see these transaction IDs as the oldest open ones, the last one from then on.
func (b *broom) sees(oldestOpen ...int64) {
	b.onSweep = func(int) (Swept, error) {
		n := min(len(b.seen().sweeps), len(oldestOpen))
		return Swept{Now: time.Now(), OldestOpen: oldestOpen[n-1]}, nil
	}
}

// The clock may have been set back while no replica was running.
func TestTheFirstSweepBringsBackStoredTimes(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.sees(100)
		b.onBringBack = func() (Brought, error) { return Brought{OpenTo: 100}, nil }
		b.runFor(45 * time.Second)
		require.Equal(t, []time.Duration{0, 10 * time.Second}, b.seen().brought)
		require.Empty(t, b.log.Lines(), "there were none")
		require.Empty(t, b.seen().found)
	})
}

// A transaction that was open then may yet store times from before, and one that came later may have locked some.
func TestStoredTimesAreBroughtBackAgainWhenAllOpenTransactionsHaveEnded(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.sees(90, 95, 99, 107)
		b.onBringBack = func() (Brought, error) { return Brought{Times: max(3-len(b.seen().brought), 0), OpenTo: 100}, nil }
		b.runFor(65 * time.Second)
		require.Equal(t, []time.Duration{0, 20 * time.Second, 20 * time.Second}, b.seen().brought)
	})
}

func TestAJumpOfTheClockOrAFailoverBringsBackStoredTimes(t *testing.T) {
	must.Each(t, map[string]func(*Swept){
		"set back":   func(s *Swept) { s.Now = s.Now.Add(-time.Hour) },
		"forward":    func(s *Swept) { s.Now = s.Now.Add(time.Hour) }, // this machine may have been suspended
		"a failover": func(s *Swept) { s.Epoch = "another" },          // which may have forgotten what was brought back
	}, func(t *testing.T, jumps func(*Swept)) {
		bubble(t, func(t *testing.T, b *broom) {
			b.withClock(0)
			began := time.Now()
			sweep := b.onSweep
			b.onSweep = func(atMost int) (Swept, error) {
				swept, err := sweep(atMost)
				if time.Since(began) > 35*time.Second {
					jumps(&swept)
				}
				swept.OldestOpen = 5
				return swept, err
			}
			b.runFor(75 * time.Second)
			require.Equal(t, []time.Duration{0, 10 * time.Second, 40 * time.Second, 50 * time.Second}, b.seen().brought)
		})
	})
}

func TestStoredTimesAreBroughtBackUntilNoneIsLeftAndThenSweptAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.sees(100)
		answers := []Brought{{Times: 500, More: true, OpenTo: 100}, {Times: 7, OpenTo: 101}}
		b.onBringBack = func() (Brought, error) {
			if n := len(b.seen().brought); n <= len(answers) {
				return answers[n-1], nil
			}
			return Brought{OpenTo: 101}, nil
		}
		b.runFor(5 * time.Second)
		require.Len(t, b.seen().brought, 2, "a transaction with ID 100 may still be open")
		require.Equal(t, []time.Duration{0, 0}, b.seen().sweeps, "signals and stop requests are seen at once")
		require.Equal(t, []time.Duration{0}, b.seen().found)
		require.Equal(t, []string{brought + "507"}, b.log.Lines())
	})
}
