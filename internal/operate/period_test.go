package operate_test

import (
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

func TestMinutesAreJoinedForALongerPeriod(t *testing.T) {
	t.Parallel()
	minutes := make([]operate.Minute, 7)
	for n := range minutes {
		minutes[n] = operate.Minute{At: time.Unix(int64(60*n), 0), Started: 60, Completed: 2, Failed: int64(n % 2),
			Passed: time.Minute}
		minutes[n].Waits.Add(time.Second)
	}
	minutes[3].Waiting, minutes[4].Waiting = new(int64(9)), new(int64(4))
	joined := operate.Condense(minutes, 3)
	require.Len(t, joined, 3)
	require.Equal(t, []time.Time{time.Unix(0, 0), time.Unix(60, 0), time.Unix(240, 0)},
		[]time.Time{joined[0].At, joined[1].At, joined[2].At}, "the last groups are complete")
	require.EqualValues(t, 180, joined[1].Started)
	require.InDelta(t, 1, joined[1].StartsPerSecond(), 1e-9)
	require.EqualValues(t, []int64{2, 1}, []int64{joined[1].Completed, joined[1].Failed}, "per minute, rounded up")
	require.EqualValues(t, 9, *joined[1].Waiting)
	require.EqualValues(t, 4, *joined[2].Waiting)
	require.Nil(t, joined[0].Waiting)
	require.EqualValues(t, 3, joined[2].Waits.Total())
	require.Empty(t, operate.Condense(nil, 5))
}
