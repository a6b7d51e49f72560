package web

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

func TestADryRunNamesExactlyWhatTheFormDoes(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.read.letters = nil
	for n := range 1234 {
		b.read.letters = append(b.read.letters, int64(2000-n))
	}
	code, text := b.get("/ui/dead/replay?workspace=Acme&error=card&since=24h")
	require.Equal(t, 200, code)
	require.Equal(t, "Acme", b.read.deadFilter.Workspace)
	require.Equal(t, "card", b.read.deadFilter.Error)
	require.Equal(t, 24*time.Hour, *b.read.deadFilter.Since.Ago)
	require.Contains(t, text, "This would replay 1,234 dead letters of 1 workspace.")
	require.Contains(t, text, "/ui/dead/letters?error=card&amp;since=24h&amp;workspace=Acme",
		"the link back keeps the filter")
	_, items, _ := strings.Cut(text, `name="items" value="`)
	items, _, _ = strings.Cut(items, `"`)

	b.read.letters = append([]int64{2001}, b.read.letters...) // failed since the page was made
	b.change.long = true
	code, to := b.post("/ui/dead/replay", url.Values{"items": {items}, "back": {"dead/letters?error=card"}})
	require.Equal(t, 303, code)
	_, text = b.get(to)
	require.Equal(t, []string{"replay 500 by web", "replay 500 by web", "replay 234 by web"}, b.change.calls,
		"in batches, without the later one")
	require.Contains(t, text, "1,234 items replayed.")

	b = newBrowser(t)
	b.read.letters = make([]int64, bulkMost+1)
	_, text = b.get("/ui/dead/discard")
	require.Contains(t, text, "This would discard 5,000 dead letters")
	require.Contains(t, text, "There are more")
	_, _ = b.get("/ui/dead/discard?kind=" + url.QueryEscape(hostile))
	require.Equal(t, hostile, b.read.kind)
	_, text = b.get("/ui/dead/discard?kind=card")
	require.Contains(t, text, "among the newest 2,000 failures")
	b.read.letters = nil
	_, text = b.get("/ui/dead/discard")
	require.Contains(t, text, "there is nothing to discard")
	require.NotContains(t, text, `method="post"`)
}

func TestDeadLettersAreListedPageByPage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.read.letters = nil
	for n := range pageSize + 1 {
		b.read.letters = append(b.read.letters, int64(2000-n))
	}
	for _, path := range []string{"/ui/dead/letters?error=card", "/ui/dead/letters?kind=card"} {
		_, text := b.get(path)
		require.Nil(t, b.read.deadFilter.After)
		_, next, _ := strings.Cut(text, `rel="next" href="`)
		next, _, _ = strings.Cut(next, `"`)
		code, _ := b.get(html.UnescapeString(next))
		require.Equal(t, 200, code)
		require.Equal(t, &operate.DeadKey{FailedAt: time.Unix(3, 123456000).UTC(), ID: 2000 - pageSize + 1},
			b.read.deadFilter.After)
		require.True(t, b.read.deadFilter.Error == "card" || b.read.kind == "card", "the filter is kept")
	}
	b.read.letters = nil
	_, text := b.get("/ui/dead/letters?error=card&after=2026-11-20T12:00:00Z,7")
	require.Contains(t, text, "There are no more")
	for _, after := range []string{"7", "2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z,0", "2026-11-20T12:00:00Z,x",
		"0000-01-01T00:00:00Z,7", "%00,7"} {
		code, text := b.get("/ui/dead/letters?after=" + after)
		require.Equal(t, 400, code, after)
		require.Contains(t, text, "after is not a valid position in the list of dead letters", after)
	}
}

func TestABulkThatStopsHalfWaySaysHowFarItCame(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	ids := []string{}
	for n := range 1200 {
		ids = append(ids, fmt.Sprint(n+1))
	}
	b.change.err, b.change.failsAt = errAway, 2
	code, text := b.post("/ui/dead/discard", url.Values{"items": {strings.Join(ids, ",")}})
	require.Equal(t, 503, code)
	require.Contains(t, text, "500 of 1,200 dead letters discarded")
	require.NotContains(t, text, "bob")
	require.Len(t, b.change.calls, 2)

	b = newBrowser(t)
	b.change.late = true
	_, to := b.post("/ui/dead/discard", url.Values{"items": {"7,8"}})
	_, text = b.get(to)
	require.Contains(t, text, "0 items discarded.")
	require.Contains(t, text, "2 others unchanged")
}

func TestASearchOfDeadLettersThatStoppedSaysSoAndGoesOn(t *testing.T) {
	t.Parallel()
	f := &fakeReader{horizon: &operate.DeadKey{FailedAt: time.Unix(3, 0), ID: 9}}
	code, text := get(t, f, "/ui/dead/letters?error=rare")
	require.Equal(t, 200, code)
	require.Equal(t, lettersLooked, f.newest)
	require.Contains(t, text, "No open dead letter matches.")
	require.Contains(t, text, "10,000 failures were examined.")
	require.Contains(t, text, `href="/ui/dead/letters?after=1970-01-01T00%3A00%3A03Z%2C9&amp;error=rare"`)
	f.letters = []int64{8}
	_, text = get(t, f, "/ui/dead/letters")
	require.Contains(t, text, "10,000 failures were examined.")
	f.horizon = nil
	_, text = get(t, f, "/ui/dead/letters")
	require.NotContains(t, text, "were examined")

	b := newBrowser(t)
	b.read.letters, b.read.horizon = nil, &operate.DeadKey{FailedAt: time.Unix(3, 0), ID: 9}
	_, text = b.get("/ui/dead/replay?error=rare")
	require.Contains(t, text, "None of the newest 100,000 failures matches.")
	b.read.letters = []int64{8}
	_, text = b.get("/ui/dead/replay?error=rare")
	require.Contains(t, text, "They are among the newest 100,000 failures.")
	require.Equal(t, bulkLooked, b.read.newest)
}
