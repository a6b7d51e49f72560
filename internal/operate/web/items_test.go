package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func (f *fakeReader) CompleteWorkspaces(_ context.Context, beginning string, _ int) ([]operate.WorkspaceName, error) {
	return []operate.WorkspaceName{{ID: id, Name: beginning + "me"}, {ID: id, Name: hostile}}, f.err
}

func (f *fakeReader) CompleteErrors(_ context.Context, part string, _ int) ([]string, error) {
	return []string{part + " the connection", hostile, strings.Repeat("é", 150)}, f.err
}

func (f *fakeReader) EndedItems(_ context.Context, workspaces []string) ([]operate.EndedCount, error) {
	if workspaces != nil {
		return []operate.EndedCount{{Status: "FAILED", Items: 12}, {Status: "CANCELLED"}}, f.slow()
	}
	return []operate.EndedCount{{Status: "COMPLETED", Items: 7, About: new(int64(5_000_000))},
		{Status: "FAILED", Items: 3, Exact: true, About: new(int64(9))}}, f.slow()
}

func (f *fakeReader) Ahead(context.Context, int64) (int64, error) { return 12, f.err }

func (f *fakeReader) ChangesOf(ctx context.Context, _ int64) ([]operate.Administered, error) {
	return f.Audit(ctx, operate.AuditFilter{}, 1)
}

func TestSelectedItemsAreChangedOnceThatIsConfirmed(t *testing.T) {
	t.Parallel()
	b := newBrowser(t).as("anna")
	b.get("/ui/items").shows(`name="item" value="8"`)
	for verb, want := range map[string]string{"cancel": "Cancel 2 items?", "retry": "Retry now 2 items?",
		"replay": "Replay 2 items?", "discard": "Discard 2 items?"} {
		b.change.calls = nil
		b.get("/ui/items/selected?item=9&item=8&back=items%3Fstatus%3DFAILED&do="+verb).is(200).
			shows(want, `action="/ui/items/selected/`+verb+`"`, `name="items" value="8,9"`,
				`name="back" value="items?status=FAILED"`)
		require.Empty(t, b.change.calls, "nothing changes before the confirmation")
		to := b.post("/ui/items/selected/"+verb, url.Values{"items": {"8,9"}, "back": {"items?status=FAILED"}}).is(303).to()
		require.Equal(t, "/ui/items?count=2&done="+verb+"&left=0&status=FAILED", to, "back to the filtered list")
		done := b.get(to).shows("2 items ").text()
		require.NotContains(t, strings.Split(done, "</header>")[1], "done=", "no link repeats the notice")
		b.changed(verb + " [8 9] by anna (web)")
	}
	for query, want := range map[string]int{"do=drop&item=1": 400, "do=cancel": 422, "do=cancel&item=x": 400,
		"do=cancel&item=0": 400} {
		b.get("/ui/items/selected?" + query).is(want)
	}
	b.look("/ui/items").is(200).hides(`name="item"`) // readers have no checkboxes
}

func TestTheListOfItemsShowsItsFiltersAndHowManyThereAreOfEachStatus(t *testing.T) {
	t.Parallel()
	get(t, &fakeReader{}, "/ui/items?workspace=acme&status=FAILED").
		shows(`href="/ui/items?status=FAILED" aria-label="Remove the filter workspace: acme"`,
						`<input type="hidden" name="workspace" value="acme">`, // what is typed adds to it
						`data-query="status=FAILED&amp;workspace=acme"`,       // what is saved
						`Unanswered <small>7</small>`, `Failed <small>12&#43;</small>`).
		hides(`Cancelled <small>`) // not one was found, and there may be some
	get(t, &fakeReader{}, "/ui/items").shows(`Waiting <small>about 1,000,000</small>`,
		`Completed <small>about 5,000,000</small>`, `Failed <small>3</small>`)
	get(t, &fakeReader{}, "/ui/items?error=refused").hides(`Waiting <small>`) // the counts would ignore the filter
}

func TestAFilterByAnUnknownNameSuggestsOthers(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"workspace", "definition", "key"} {
		near := get(t, &fakeReader{empty: true}, "/ui/items?error=x&"+filter+"=nobody").text()
		require.Regexp(t, `Did you mean <a href="/ui/items\?(error=x&amp;)?`+filter+
			`=somebody(&amp;error=x)?">somebody</a>\?`, near)
		get(t, &fakeReader{empty: true}, "/ui/items?"+filter+"=known").hides("Did you mean")
	}
	get(t, &fakeReader{}, "/ui/dead/letters?definition=nobody").
		shows(`Did you mean <a href="/ui/dead/letters?definition=somebody">somebody</a>?`)
}

func TestNamesAreSuggestedAsText(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"of=workspace&q=Ac":               "Acme\n" + hostile,
		"of=definition&workspace=acme&q=": hostile,
		"of=error&q=reset":                "reset the connection", // not what the filter would refuse
		"of=status&q=c":                   "CLAIMED\nCOMPLETED\nCANCELLED",
		"of=until&q=1":                    "15m\n1h\n168h",
	} {
		require.Equal(t, want, get(t, &fakeReader{}, "/ui/suggest?"+query).is(200).text(), query)
	}
	for _, of := range []string{"workspace", "error", "status"} {
		get(t, &fakeReader{}, "/ui/suggest?q=%00&of="+of).is(400)
	}
}

func TestAnItemsPageSaysWhyItWaitsAndWhatWasDone(t *testing.T) {
	t.Parallel()
	item := operate.Item{ID: 8, ExecutionID: id, Status: "PENDING", WorkspaceID: id, Params: []byte(`{}`),
		Result: []byte(`{"total":3}`)}
	get(t, &fakeReader{item: &item}, "/ui/items/8").shows("Why it waits:", "runs 7 of 7; 12 before it.",
		"&#34;total&#34;: 3", ">Changes</h2>", `data-copy="the workflow ID"`)
}

func TestEveryPageSaysThatNothingIsStarted(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/ui/items", "/ui/workspaces", "/ui/settings", "/ui/nothing"} {
		get(t, &fakeReader{}, path).shows("Temporal accepts no workflows from any replica", `outage"`)
	}
}

func TestTheItemPageShowsTheItemsKeys(t *testing.T) {
	t.Parallel()
	item := dead
	item.EnqueueKey, item.LimitKey = "sync-17", "smtp"
	get(t, &fakeReader{item: &item}, "/ui/items/8").shows("<dt>Enqueue key</dt><dd>sync-17</dd>",
		`<dt>Limit key</dt><dd><a href="/ui/items?key=smtp">smtp</a></dd>`)
	item.IdempotencyKey, item.EnqueueKey, item.LimitKey = "", "", ""
	get(t, &fakeReader{item: &item}, "/ui/items/8").hides("key</dt>")
}

func TestAGivenUpSignalHasAButtonWhereItMayArrive(t *testing.T) {
	t.Parallel()
	const button = `<form method="post" action="/ui/items/8/resend"><button name="signal" value="5">`
	for state, want := range map[string]bool{"PENDING": true, "CLAIMED": true, "DISPATCHED": true,
		"FAILED REPLAYED": true, "FAILED": false, "FAILED DISCARDED": false, "COMPLETED": false, "CANCELLED": false} {
		b := newBrowser(t)
		b.read.item, b.read.givenUp = &operate.Item{ID: 8}, 5
		b.read.item.Status, b.read.item.Mark, _ = strings.Cut(state, " ")
		text := b.get("/ui/items/8").text()
		require.Equal(t, want, strings.Contains(text, button), state)
		require.Equal(t, want, strings.Contains(text, "/resend"), state)
		b.look("/ui/items/8").hides("/resend")
	}
}

func TestAResendThatIsNotPossibleChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	for _, signal := range []string{"", "0", "-1", "x", "99999999999999999999"} {
		b.post("/ui/items/8/resend", url.Values{"signal": {signal}}).is(400).
			shows("signal must be the number of a signal.")
	}
	require.Empty(t, b.change.calls)
	b.change.late = true // the signal is of another item
	b.post("/ui/items/8/resend", url.Values{"signal": {"5"}}).is(409).shows("Nothing was changed")
}

func TestAnItemOfDeepParamsHasASmallPageAndAllOfThemAsAFile(t *testing.T) {
	t.Parallel()
	const cut = "The first 64 KiB are shown."
	item := dead
	for params, isCut := range map[string]bool{
		`{"ms":1,"a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`: false,
		`{"a":"` + strings.Repeat("x", 1<<20) + `"}`:                                 true,
	} {
		item.Params = json.RawMessage(params)
		text := get(t, &fakeReader{item: &item}, "/ui/items/8").text()
		require.Less(t, len(text), 200_000)
		require.Equal(t, isCut, strings.Contains(text, cut))
		require.Equal(t, params, get(t, &fakeReader{item: &item}, "/ui/items/8/params").text())
	}
}

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
