package telemetry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheRateIsOfTheLastSecondsOrIfLittleWasStartedOfTheLastMinute(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	r := rate{began: began}
	require.Zero(t, r.perSecond(at(0)))
	r.add(at(0.2))
	require.InDelta(t, 1, r.perSecond(at(0.2)), 1e-9, "a start right after the beginning is not a burst")
	r.add(at(30))
	require.InDelta(t, 2./40, r.perSecond(at(40)), 1e-9)
	require.InDelta(t, 1./60, r.perSecond(at(80)), 1e-9, "the first is more than a minute ago")
	for n := range 100 {
		r.add(at(200 + float64(n)/10))
	}
	require.InDelta(t, 10, r.perSecond(at(209.95)), 1e-9)
	require.Zero(t, r.perSecond(at(225)), "they have stopped")
	require.Zero(t, r.perSecond(at(100_000)))
}
