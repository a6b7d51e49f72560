package replica

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStartsAreReportedWithinASecondAndNoMoreOftenThanThat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		started, ended, count := make(chan struct{}, 1), make(chan error, 1), 0
		go func() { ended <- reports(ctx, started, time.Minute, func() { count++ }) }()
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, 2, count, "the first precedes listening")
		time.Sleep(30 * time.Second)
		require.Equal(t, 5, count, "nothing is started")

		started <- struct{}{}
		time.Sleep(startsDelay + time.Millisecond)
		require.Equal(t, 6, count)
		for range 1000 { // a start every 10 ms
			select {
			case started <- struct{}{}:
			default:
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, count, 16)
		require.GreaterOrEqual(t, count, 15)
		stop()
		require.NoError(t, <-ended)
	})
}
