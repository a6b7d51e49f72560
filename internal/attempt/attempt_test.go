package attempt

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABackoffDoublesUpToItsCap(t *testing.T) {
	t.Parallel()
	b := Backoff(time.Second, 4*time.Second)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		pause, stop := b.Next()
		require.False(t, stop)
		require.InDelta(t, want.Seconds(), pause.Seconds(), want.Seconds()*jitterPercent/100)
	}
}

func TestAPanicBecomesAnErrorThatKnowsWhere(t *testing.T) {
	t.Parallel()
	err := Contain(t.Context(), func(context.Context) error { panic("boom") })
	require.EqualError(t, err, "panic: boom")
	var panicked *PanicError
	require.ErrorAs(t, err, &panicked)
	require.Contains(t, panicked.Stack, "attempt_test.go")
	require.ErrorIs(t, Contain(t.Context(), func(ctx context.Context) error { return context.Canceled }), context.Canceled)
}

func TestAComplaintIsNewUntilItIsRepeated(t *testing.T) {
	t.Parallel()
	var c Complaint
	require.True(t, c.IsNew(errors.New("a")))
	require.False(t, c.IsNew(errors.New("a")))
	require.True(t, c.IsNew(errors.New("b")))
	c.Over()
	require.True(t, c.IsNew(errors.New("b")))
}
