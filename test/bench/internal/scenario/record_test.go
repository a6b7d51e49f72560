package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestArgumentsAreWrittenAsText(t *testing.T) {
	t.Parallel()
	var nobody *string
	somebody := "it's"
	at := time.Date(2026, 11, 22, 1, 2, 3, 4005000, time.UTC)
	require.Equal(t,
		`null, 'it''s', '1500000 microseconds', '7', 'true', '{}', '{"1","2"}', '{"2026-11-22 01:02:03.004005Z"}'`,
		literals([]any{nobody, &somebody, 1500 * time.Millisecond, 7, true, []string{}, []int64{1, 2}, []time.Time{at}}))
}
