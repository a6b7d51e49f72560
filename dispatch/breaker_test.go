package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBreakerTripsProbesOneAtATimeAndCloses(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	require.False(t, b.open())
	require.Equal(t, 5, b.allows(now, 5, 3), "closed: all free workers")

	b.trip(now)
	require.True(t, b.open())
	require.Zero(t, b.allows(now, 5, 0), "open: it pauses first")
	require.Zero(t, b.allows(b.until.Add(-1), 5, 0))
	require.Equal(t, 1, b.allows(b.until, 5, 0), "then it allows one probe")
	require.Zero(t, b.allows(b.until, 5, 1), "no second probe while one is in flight")
	require.Zero(t, b.allows(b.until, 0, 0))

	b.close()
	require.False(t, b.open())
	require.Equal(t, 5, b.allows(now, 5, 0))
}

func TestBreakerIgnoresFailuresThatWereUnderWay(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	b.trip(now)
	until := b.until
	for range 50 {
		b.trip(now.Add(time.Millisecond))
	}
	require.Equal(t, until, b.until)
}

func TestBreakerPausesLongerUpToItsCap(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	for n := range 20 {
		b.trip(now)
		nominal := min(probeBase<<n, probeCap)
		require.GreaterOrEqual(t, b.until.Sub(now), nominal*8/10)
		require.LessOrEqual(t, b.until.Sub(now), nominal*12/10)
		now = b.until
	}
	b.close()
	b.trip(now)
	require.LessOrEqual(t, b.until.Sub(now), probeBase*12/10, "after an outage the first pause is short again")
}
