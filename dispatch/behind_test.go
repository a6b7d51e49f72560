package dispatch

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

func TestAnItemBehindAnotherOfItsWorkflowIDIsSentLaterAndCountsNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueueItem(claim.Item{MaxAttempts: 3, NamedID: "order-17"})
		asked := 0
		d.onBehind = func(int64) (bool, error) {
			asked++
			if asked == 2 {
				return false, errors.New("connection refused")
			}
			return asked == 1, nil
		}
		stop := d.run()
		pass(3 * time.Second)
		require.Equal(t, []claim.Verb{claim.Release, claim.Release, claim.Dispatched}, d.verbs())
		first := d.settlements()[0]
		require.Equal(t, behindDelay, first.Delay)
		require.False(t, first.Unanswered)
		stop()
	})
}
