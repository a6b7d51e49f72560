package web

import (
	"fmt"
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
	dry := b.get("/ui/dead/replay?workspace=Acme&error=card&since=24h").is(200).shows(
		"This would replay 1,234 dead letters of 1 workspace.",
		"/ui/dead/letters?error=card&amp;since=24h&amp;workspace=Acme") // the link back keeps the filter
	require.Equal(t, operate.Filter{Workspace: "Acme", Error: "card", Since: operate.Moment{Ago: new(24 * time.Hour)}},
		b.read.deadFilter.Filter)
	_, items, _ := strings.Cut(dry.text(), `name="items" value="`)
	items, _, _ = strings.Cut(items, `"`)

	b.read.letters = append([]int64{2001}, b.read.letters...) // failed since the page was made
	b.change.long = true
	to := b.post("/ui/dead/replay", url.Values{"items": {items}, "back": {"dead/letters?error=card"}}).is(303).to()
	b.get(to).shows("1,234 items replayed.")
	b.changed("replay 500 by web", "replay 500 by web", "replay 234 by web") // in batches, without the later one

	b = newBrowser(t)
	b.read.letters = make([]int64, bulkMost+1)
	b.get("/ui/dead/discard").shows("This would discard 5,000 dead letters", "There are more")
	b.get("/ui/dead/discard?kind=" + url.QueryEscape(hostile))
	require.Equal(t, hostile, b.read.kind)
	b.get("/ui/dead/discard?kind=card").shows("among the newest 2,000 failures")
	b.read.letters = nil
	b.get("/ui/dead/discard").shows("there is nothing to discard").hides(`method="post"`)
}

func TestDeadLettersAreListedPageByPage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.read.letters = nil
	for n := range pageSize + 1 {
		b.read.letters = append(b.read.letters, int64(2000-n))
	}
	for _, path := range []string{"/ui/dead/letters?error=card", "/ui/dead/letters?kind=card"} {
		next := nextOf(b.get(path))
		require.Nil(t, b.read.deadFilter.After)
		b.get(next).is(200)
		require.Equal(t, &operate.DeadKey{FailedAt: time.Unix(3, 123456000).UTC(), ID: 2000 - pageSize + 1},
			b.read.deadFilter.After)
		require.True(t, b.read.deadFilter.Error == "card" || b.read.kind == "card", "the filter is kept")
	}
	b.read.letters = nil
	b.get("/ui/dead/letters?error=card&after=2026-11-20T12:00:00Z,7").shows("There are no more")
	for _, after := range []string{"7", "2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z,0", "2026-11-20T12:00:00Z,x",
		"0000-01-01T00:00:00Z,7", "%00,7"} {
		b.get("/ui/dead/letters?after=" + after).is(400).
			shows("after is not a valid position in the list of dead letters")
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
	b.post("/ui/dead/discard", url.Values{"items": {strings.Join(ids, ",")}}).is(503).
		shows("500 of 1,200 dead letters discarded").hides("bob")
	require.Len(t, b.change.calls, 2)

	b = newBrowser(t)
	b.change.late = true
	b.get(b.post("/ui/dead/discard", url.Values{"items": {"7,8"}}).to()).
		shows("0 items discarded.", "2 others unchanged")
}

func TestASearchOfDeadLettersThatStoppedSaysSoAndGoesOn(t *testing.T) {
	t.Parallel()
	f := &fakeReader{horizon: &operate.DeadKey{FailedAt: time.Unix(3, 0), ID: 9}}
	get(t, f, "/ui/dead/letters?error=rare").is(200).
		shows("No open dead letter matches.", "10,000 failures were examined.",
			`href="/ui/dead/letters?after=1970-01-01T00%3A00%3A03Z%2C9&amp;error=rare"`)
	require.Equal(t, lettersLooked, f.newest)
	f.letters = []int64{8}
	get(t, f, "/ui/dead/letters").shows("10,000 failures were examined.")
	f.horizon = nil
	get(t, f, "/ui/dead/letters").hides("were examined")

	b := newBrowser(t)
	b.read.letters, b.read.horizon = nil, &operate.DeadKey{FailedAt: time.Unix(3, 0), ID: 9}
	b.get("/ui/dead/replay?error=rare").shows("None of the newest 100,000 failures matches.")
	b.read.letters = []int64{8}
	b.get("/ui/dead/replay?error=rare").shows("They are among the newest 100,000 failures.")
	require.Equal(t, bulkLooked, b.read.newest)
}
