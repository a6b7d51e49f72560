package sweeper

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/troubletest"

	"github.com/stretchr/testify/require"
)

// shredder is a retention for a synctest bubble. Its store gives preset answers, and then empty ones.
type shredder struct {
	*Retention
	log     logtest.Book
	answers []any // Deleted or error
	calls   []time.Duration
	asked   []int
	began   time.Time
}

func (s *shredder) DeleteFinished(_ context.Context, atMost int) (Deleted, error) {
	s.calls, s.asked = append(s.calls, time.Since(s.began)), append(s.asked, atMost)
	if n := len(s.calls); n <= len(s.answers) {
		if err, failed := s.answers[n-1].(error); failed {
			return Deleted{More: true}, err
		}
		return s.answers[n-1].(Deleted), nil
	}
	return Deleted{}, nil
}

func retaining(t *testing.T, wanted func() bool, d time.Duration, answers ...any) *shredder {
	t.Helper()
	s := &shredder{answers: answers}
	synctest.Test(t, func(t *testing.T) {
		s.began = time.Now()
		s.Retention = &Retention{Store: s, Interval: 10 * time.Second, Wanted: wanted, Log: slog.New(&s.log)}
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		require.NoError(t, s.Run(ctx))
		require.Equal(t, d, time.Since(s.began), "it stops promptly")
	})
	return s
}

func TestRetentionLooksAtOnceAndOnItsInterval(t *testing.T) {
	t.Parallel()
	s := retaining(t, nil, 25*time.Second, Deleted{}, troubletest.Err)
	require.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second}, s.calls)
	require.Equal(t, []int{deleteBatch, deleteBatch, deleteBatch}, s.asked)
	require.Equal(t, []string{"ERROR Cannot delete finished items error=connection reset"}, s.log.Lines(),
		"an empty pass is not logged")
}

func TestRetentionGoesOnAfterAPauseWhileThereIsMore(t *testing.T) {
	t.Parallel()
	s := retaining(t, nil, 5*time.Second,
		Deleted{Items: 499, DeadLetters: 1, Executions: 500, More: true}, Deleted{More: true},
		Deleted{Items: 7, Executions: 6})
	require.Equal(t, []time.Duration{0, deletePause, 2 * deletePause}, s.calls,
		"after a batch that deletes nothing there may be more")
	require.Equal(t, []string{"INFO Deleted finished items items=506 dead_letters=1 executions=506"}, s.log.Lines(),
		"one record per pass")
}

func TestRetentionStopsBetweenTwoBatches(t *testing.T) {
	t.Parallel()
	endless := make([]any, 1000)
	for n := range endless {
		endless[n] = Deleted{Items: 1, More: true}
	}
	// The count is not exact: of two timers due at the same instant either may fire first.
	s := retaining(t, nil, time.Second-deletePause/2, endless...)
	require.Len(t, s.calls, 20)
}

func TestRetentionThatIsOffAsksForNothing(t *testing.T) {
	t.Parallel()
	require.Empty(t, retaining(t, func() bool { return false }, time.Hour).calls)
	require.Len(t, retaining(t, func() bool { return true }, time.Second).calls, 1)
}
