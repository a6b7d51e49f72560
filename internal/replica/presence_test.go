package replica

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStartsAreReportedWithinASecondAndNoMoreOftenThanThat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		started, ended := make(chan struct{}, 1), make(chan error, 1)
		var count atomic.Int64
		var changes atomic.Bool
		go func() { ended <- reports(ctx, started, time.Minute, changes.Load, func() { count.Add(1) }) }()
		time.Sleep(1500 * time.Millisecond)
		require.EqualValues(t, 2, count.Load(), "the first report precedes listening")
		time.Sleep(30 * time.Second)
		require.EqualValues(t, 5, count.Load(), "no starts")

		started <- struct{}{}
		time.Sleep(startsDelay + time.Millisecond)
		require.EqualValues(t, 6, count.Load())
		for range 1000 { // a start every 10 ms
			select {
			case started <- struct{}{}:
			default:
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, count.Load(), int64(16))
		require.GreaterOrEqual(t, count.Load(), int64(15))

		changes.Store(true)
		before := count.Load()
		time.Sleep(10 * time.Second)
		require.InDelta(t, before+10, count.Load(), 1, "what changes is at most two seconds old")
		stop()
		require.NoError(t, <-ended)
	})
}
