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

// WorkspaceActivity has ends in each stretch but the first, which is from before anything was recorded.
func (f *fakeReader) WorkspaceActivity(_ context.Context, id string, back time.Duration) ([]operate.Stretch, error) {
	stretches := make([]operate.Stretch, back/(operate.StretchMinutes*time.Minute))
	for n := range stretches {
		stretches[n] = operate.Stretch{At: time.Unix(int64(300*n), 0), Known: n > 0}
		if !f.empty && n > 0 {
			stretches[n].Started, stretches[n].Completed, stretches[n].Failed = 4, 2, 1
			stretches[n].Waited, stretches[n].Longest = 8*time.Second, 7*time.Second
		}
	}
	return stretches, f.slow()
}

func TestTheActivityOfAWorkspaceIsOfTheChosenPeriod(t *testing.T) {
	t.Parallel()
	for query, c := range map[string]struct {
		bars                int
		totals, first, ends string
	}{
		"1h": {12, "44 started, 22 completed, 11 failed, 0 cancelled. A bar is 5 minutes.", "00:00 UTC: –",
			"4 started, 2 completed, 1"},
		"6h": {72, "284 started, 142 completed, 71 failed, 0 cancelled. A bar is 5 minutes.", "00:00 UTC: –",
			"2 completed, 1"},
		"24h": {96, "1,148 started, 574 completed, 287 failed, 0 cancelled. A bar is 15 minutes.",
			"00:00 UTC: 8 started, 4 completed, 2 failed, 0 cancelled",
			"6 completed, 3"},
	} {
		text := get(t, &fakeReader{}, "/ui/workspaces/"+id+"?period="+query).is(200).
			shows(c.totals, "<title>"+c.first+"</title>", c.ends+" failed, 0 cancelled</title>",
				"mean 2.0 s, longest 7.0 s</title>",
				`href="/ui/workspaces/`+id+`?period=`+query+`#activity" aria-current="true"`).text()
		require.Equal(t, 2*c.bars, strings.Count(text, `class="hover"`))
	}
	get(t, &fakeReader{empty: true}, "/ui/workspaces/"+id).shows("Nothing was started or ended.").hides("<svg")
	get(t, &fakeReader{}, "/ui/workspaces/"+id+"?period=7d").is(400)
}

func TestThePlotsAreOfTheChosenPeriod(t *testing.T) {
	t.Parallel()
	for query, c := range map[string]struct {
		bars             int
		words, completed string
	}{"6h": {72, "Last 6 hours", "1,080 completed"}, "24h": {96, "Last 24 hours", "4,320 completed"}} {
		text := get(t, &fakeReader{}, "/ui/?period="+query).is(200).
			shows(c.words, c.completed, `data-stream="/ui/live?period=`+query+`"`,
				`href="/ui/?period=`+query+`" aria-current="true"`).text()
		require.Equal(t, 5*c.bars, strings.Count(text, `class="hover"`))
	}
	get(t, &fakeReader{}, "/ui/").is(200).shows("Last hour")
	get(t, &fakeReader{}, "/ui/?period=7d").is(400)
}
