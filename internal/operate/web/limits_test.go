package web

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func (f *fakeReader) KeyLimitsOf(_ context.Context, _, key string) ([]operate.KeyLimit, error) {
	return []operate.KeyLimit{{Key: key + hostile, MaxConcurrent: new(int)}}[:min(len(key), 1)], f.err
}

func (f *fakeReader) KeyLimits(_ context.Context, filter operate.KeyLimitFilter, _ int) ([]operate.KeyLimit, error) {
	return []operate.KeyLimit{{ID: filter.ID, Key: "smtp", WorkspaceID: id}}[:min(max(9-filter.ID, 0), 1)], f.err
}

func (f *fakeReader) Limits(context.Context, operate.KeyLimitFilter, int) ([]operate.KeyLimit, int64, error) {
	return []operate.KeyLimit{
		{ID: 1, Key: hostile, MaxConcurrent: new(2), Active: 2, Waiting: 1000, OldestWaiting: new(time.Hour),
			FullFor: new(7 * time.Minute),
			History: []operate.LimitMinute{{At: time.Now().Add(-time.Minute), Active: 2}}},
		{ID: 2, Key: "smtp", WorkspaceID: id, Workspace: hostile, Paused: true, Waiting: 3, WaitingExact: true,
			Rates: operate.Rates{{Starts: 5, Per: time.Second}}, StartsLeft: new(4)},
	}, 2, f.err
}

func (f *fakeReader) FullLimits(context.Context, []string, []string) ([]operate.KeyLimit, error) {
	return fullLimit.Full(), f.err
}

func (f *fakeReader) UnlimitedKeys(context.Context, int) ([]operate.LimitKey, error) {
	return []operate.LimitKey{{Key: hostile}}, f.slow()
}

func (f *fakeChanger) SetKeyLimit(_ context.Context, workspace, key string, patch operate.Patch, command,
	who string) (operate.Change, error) {
	asked, _ := json.Marshal(patch)
	return operate.Change{"paused": {false, true}}, f.call("%s %s of %.4s by %s: %s", command, key, workspace, who, asked)
}

func (f *fakeChanger) RemoveKeyLimit(_ context.Context, workspace, key, who string) (bool, error) {
	return true, f.call("limits remove %s of %.4s by %s", key, workspace, who)
}

// limitForms are the forms of the page of limits: see forms.
var limitForms = []struct {
	path string
	form url.Values
	call string
}{
	{"/ui/limits/7/pause", nil, `limits pause smtp of ` + id[:4] + ` by web: {"paused":true}`},
	{"/ui/limits/7/resume", nil, `limits resume smtp of ` + id[:4] + ` by web: {"paused":false}`},
	{"/ui/limits/7/remove", nil, `limits remove smtp of ` + id[:4] + ` by web`},
	{"/ui/limits/set", url.Values{"key": {"k"}, "max": {"3"}, "rates": {"5/s"}},
		`limits set k of  by web: {"max_concurrent":3,"max_starts":[5],"per":["1s"]}`},
	{"/ui/limits/set", url.Values{"key": {"k"}, "max": {""}}, `limits set k of  by web: {"max_concurrent":null}`},
}

func TestLimitsAreChangedAsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, form := range limitForms {
		b := newBrowser(t)
		require.Contains(t, b.post(form.path, form.form).is(303).to(), "/ui/limits?done=")
		b.changed(form.call)
		b.ask(b.site().Handler(), form.path, url.Values{"key": {"k"}}).is(403) // for those who only look
		require.Len(t, b.change.calls, 1)
	}
	b := newBrowser(t)
	for _, wrong := range []url.Values{{"key": {""}}, {"key": {"k"}, "max": {"-1"}}, {"key": {"k"}, "rates": {"fast"}}} {
		b.post("/ui/limits/set", wrong).is(422).shows(`role="alert">Nothing was changed: `)
	}
	b.post("/ui/limits/9/pause", nil).is(404)
	require.Empty(t, b.change.calls)
}

func TestLimitsAreListedWithTheirUse(t *testing.T) {
	t.Parallel()
	get(t, &fakeReader{}, "/ui/limits").hides(`method="post"`).shows("</svg>2/2</td>", ">1,000&#43;</td>", "1 h 0 min",
		">paused<", ">full<", "<td>5/1s</td>", "full</span> <small>for 7 min 0 s</small>",
		`aria-label="Running over the last hour, at most 2"`, `href="/ui/limits?after=2"`)
	answer := get(t, &fakeReader{}, "/ui/limits.json")
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	var read struct {
		Limits    []map[string]any
		NextAfter int64 `json:"next_after"`
	}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &read))
	for name, want := range map[string]any{"key": hostile, "full": true, "waiting_exact": false} {
		require.Equal(t, want, read.Limits[0][name], name)
	}
	require.Equal(t, true, read.Limits[1]["paused"])
	require.EqualValues(t, 2, read.NextAfter)
}
