package temporal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

func TestTemporalSaysWhetherAQueueIsPolledAndHowOftenATaskWasTried(t *testing.T) {
	t.Parallel()
	service := &fakeService{newest: described("run-1", "e1", true), attempt: 7}
	waiter := &Client{Service: service, Namespace: "shop"}
	for queue, want := range map[string]bool{"orders": true, "typo": false} {
		polled, err := waiter.Polled(t.Context(), TaskQueue{Name: queue})
		require.NoError(t, err)
		require.Equal(t, want, polled)
	}
	for execution, want := range map[string]int{"e1": 7, "an unrelated workflow": 0} {
		attempt, err := waiter.TaskAttempt(t.Context(), Execution{ID: execution})
		require.NoError(t, err)
		require.Equal(t, want, attempt)
	}
	service.describe = serviceerror.NewUnavailable("connection refused")
	_, err := waiter.Polled(t.Context(), TaskQueue{Name: "orders"})
	require.ErrorIs(t, err, ErrAway)
	_, err = waiter.TaskAttempt(t.Context(), Execution{ID: "e1"})
	require.ErrorIs(t, err, ErrAway)
	attempt, err := (&Client{Service: &fakeService{}}).TaskAttempt(t.Context(), Execution{ID: "e1"})
	require.NoError(t, err)
	require.Zero(t, attempt, "a deleted workflow")
}
