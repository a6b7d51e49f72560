package web

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func (f *fakeReader) Activity(_ context.Context, back time.Duration) ([]operate.Minute, error) {
	minutes := make([]operate.Minute, back/time.Minute)
	for n := range minutes {
		minutes[n] = operate.Minute{At: time.Unix(int64(60*n), 0), Completed: 3, Passed: time.Minute}
	}
	return minutes, f.err
}

func TestThePlotsAreOfTheChosenPeriod(t *testing.T) {
	t.Parallel()
	for query, c := range map[string]struct {
		bars             int
		words, completed string
	}{"6h": {72, "Last 6 hours", "1,080 completed"}, "24h": {96, "Last 24 hours", "4,320 completed"}} {
		code, text := get(t, &fakeReader{}, "/ui/?period="+query)
		require.Equal(t, 200, code)
		require.Contains(t, text, c.words)
		require.Contains(t, text, c.completed)
		require.Contains(t, text, `data-stream="/ui/live?period=`+query+`"`)
		require.Contains(t, text, `href="/ui/?period=`+query+`" aria-current="true"`)
		require.Equal(t, 7*c.bars, strings.Count(text, `class="hover"`))
	}
	code, text := get(t, &fakeReader{}, "/ui/")
	require.Equal(t, 200, code)
	require.Contains(t, text, "Last hour")
	code, _ = get(t, &fakeReader{}, "/ui/?period=7d")
	require.Equal(t, 400, code)
}
