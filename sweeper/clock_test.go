package sweeper

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

func TestAJumpOfTheDatabasesClockIsAnAlarmOnce(t *testing.T) {
	for want, set := range map[string]time.Duration{"3600000": time.Hour, "-3600000": -time.Hour,
		"1100": 1100 * time.Millisecond} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *broom) {
				b.withClock(set)
				b.runFor(35 * time.Second)
				require.Len(t, b.seen().sweeps, 4)
				require.Equal(t, []string{jump + want}, b.log.lines())
			})
		})
	}
}

func TestAClockThatIsDisciplinedIsNoAlarm(t *testing.T) {
	for _, set := range []time.Duration{900 * time.Millisecond, -900 * time.Millisecond, 0} {
		t.Run(set.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, b *broom) {
				b.withClock(set)
				b.runFor(35 * time.Second)
				require.Empty(t, b.log.lines())
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
		require.Equal(t, []string{"ERROR Cannot sweep error=connection refused"}, b.log.lines())
	})
}

func TestShortenedLeasesAreSaid(t *testing.T) {
	bubble(t, func(t *testing.T, b *broom) {
		b.onSweep = func(int) (Swept, error) { return Swept{Shortened: 3}, nil }
		b.runFor(5 * time.Second)
		require.Equal(t, []string{"WARN Shortened leases because the database clock was set back leases=3"}, b.log.lines())
		require.Empty(t, b.seen().found, "no item is due yet")
	})
}
