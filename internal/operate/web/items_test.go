package web

import (
	"context"
	"net/url"
	"strings"
	"testing"

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
		return []operate.EndedCount{{Status: "FAILED", Items: 12}, {Status: "CANCELLED"}}, f.err
	}
	return []operate.EndedCount{{Status: "COMPLETED", Items: 7, About: new(int64(5_000_000))},
		{Status: "FAILED", Items: 3, Exact: true, About: new(int64(9))}}, f.err
}

func (f *fakeReader) Ahead(context.Context, int64) (int64, error) { return 12, f.err }

func (f *fakeReader) ChangesOf(ctx context.Context, _ int64) ([]operate.Administered, error) {
	return f.Audit(ctx, operate.AuditFilter{}, 1)
}

func TestSelectedItemsAreChangedOnceThatIsConfirmed(t *testing.T) {
	t.Parallel()
	b := newBrowser(t).as("anna")
	_, list := b.get("/ui/items")
	require.Contains(t, list, `name="item" value="8"`)
	for verb, want := range map[string]string{"cancel": "Cancel 2 items?", "retry": "Retry now 2 items?",
		"replay": "Replay 2 items?", "discard": "Discard 2 items?"} {
		code, asked := b.get("/ui/items/selected?item=9&item=8&back=items%3Fstatus%3DFAILED&do=" + verb)
		require.Equal(t, 200, code)
		require.Contains(t, asked, want)
		require.Contains(t, asked, `action="/ui/items/selected/`+verb+`"`)
		require.Contains(t, asked, `name="items" value="8,9"`)
		require.Empty(t, b.change.calls, "nothing changes before the confirmation")
		require.Contains(t, asked, `name="back" value="items?status=FAILED"`)
		code, to := b.post("/ui/items/selected/"+verb, url.Values{"items": {"8,9"}, "back": {"items?status=FAILED"}})
		require.Equal(t, 303, code)
		require.Equal(t, "/ui/items?count=2&done="+verb+"&left=0&status=FAILED", to, "back to the filtered list")
		_, done := b.get(to)
		require.Contains(t, done, "2 items ")
		require.NotContains(t, strings.Split(done, "</header>")[1], "done=", "no link repeats the notice")
		require.Equal(t, []string{verb + " [8 9] by anna (web)"}, b.change.calls)
		b.change.calls = nil
	}
	for query, want := range map[string]int{"do=drop&item=1": 400, "do=cancel": 422, "do=cancel&item=x": 400,
		"do=cancel&item=0": 400} {
		code, _ := b.get("/ui/items/selected?" + query)
		require.Equal(t, want, code, query)
	}
	code, list := get(t, &fakeReader{}, "/ui/items")
	require.Equal(t, 200, code)
	require.NotContains(t, list, `name="item"`, "readers have no checkboxes")
}

func TestTheListOfItemsShowsItsFiltersAndHowManyThereAreOfEachStatus(t *testing.T) {
	t.Parallel()
	_, text := get(t, &fakeReader{}, "/ui/items?workspace=acme&status=FAILED")
	require.Contains(t, text, `href="/ui/items?status=FAILED" aria-label="Remove the filter workspace: acme"`)
	require.Contains(t, text, `<input type="hidden" name="workspace" value="acme">`, "what is typed adds to it")
	require.Contains(t, text, `data-query="status=FAILED&amp;workspace=acme"`, "what is saved")
	require.Contains(t, text, `Unanswered <small>7</small>`)
	require.Contains(t, text, `Failed <small>12&#43;</small>`)
	require.NotContains(t, text, `Cancelled <small>`, "not one was found, and there may be some")
	_, text = get(t, &fakeReader{}, "/ui/items")
	require.Contains(t, text, `Waiting <small>about 1,000,000</small>`)
	require.Contains(t, text, `Completed <small>about 5,000,000</small>`)
	require.Contains(t, text, `Failed <small>3</small>`)
	_, text = get(t, &fakeReader{}, "/ui/items?error=refused")
	require.NotContains(t, text, `Waiting <small>`, "the counts would ignore the filter")
}

func TestAFilterByAnUnknownNameSuggestsOthers(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"workspace", "definition", "key"} {
		_, text := get(t, &fakeReader{empty: true}, "/ui/items?error=x&"+filter+"=nobody")
		require.Regexp(t, `Did you mean <a href="/ui/items\?(error=x&amp;)?`+filter+
			`=somebody(&amp;error=x)?">somebody</a>\?`, text)
		_, text = get(t, &fakeReader{empty: true}, "/ui/items?"+filter+"=known")
		require.NotContains(t, text, "Did you mean", filter)
	}
	_, text := get(t, &fakeReader{}, "/ui/dead/letters?definition=nobody")
	require.Contains(t, text, `Did you mean <a href="/ui/dead/letters?definition=somebody">somebody</a>?`)
}

func TestNamesAreSuggestedAsText(t *testing.T) {
	t.Parallel()
	code, text := get(t, &fakeReader{}, "/ui/suggest?of=workspace&q=Ac")
	require.Equal(t, 200, code)
	require.Equal(t, "Acme\n"+hostile, text)
	_, text = get(t, &fakeReader{}, "/ui/suggest?of=definition&workspace=acme&q=")
	require.Equal(t, hostile, text)
	_, text = get(t, &fakeReader{}, "/ui/suggest?of=error&q=reset")
	require.Equal(t, "reset the connection", text, "what the filter would refuse is not suggested")
	_, text = get(t, &fakeReader{}, "/ui/suggest?of=status&q=c")
	require.Equal(t, "CLAIMED\nCOMPLETED\nCANCELLED", text)
	_, text = get(t, &fakeReader{}, "/ui/suggest?of=until&q=1")
	require.Equal(t, "15m\n1h\n168h", text)
	for _, of := range []string{"workspace", "error", "status"} {
		code, _ = get(t, &fakeReader{}, "/ui/suggest?q=%00&of="+of)
		require.Equal(t, 400, code)
	}
}

func TestAnItemsPageSaysWhyItWaitsAndWhatWasDone(t *testing.T) {
	t.Parallel()
	item := operate.Item{ID: 8, ExecutionID: id, Status: "PENDING", WorkspaceID: id, Params: []byte(`{}`),
		Result: []byte(`{"total":3}`)}
	_, text := get(t, &fakeReader{item: &item}, "/ui/items/8")
	require.Contains(t, text, "Why it waits:")
	require.Contains(t, text, "runs 7 of 7; 12 before it.")
	require.Contains(t, text, "&#34;total&#34;: 3")
	require.Contains(t, text, ">Changes</h2>")
	require.Contains(t, text, `data-copy="the workflow ID"`)
}

func TestEveryPageSaysThatNothingIsStarted(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/ui/items", "/ui/workspaces", "/ui/settings", "/ui/nothing"} {
		_, text := get(t, &fakeReader{}, path)
		require.Contains(t, text, "Temporal accepts no workflows from any replica", path)
		require.Contains(t, text, `outage"`, path)
	}
}
