package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/stretchr/testify/require"
)

func (f *fakeReader) DeadOfKind(_ context.Context, kind string, after *operate.DeadKey, atMost int) ([]int64, error) {
	f.kind, f.deadFilter.After = kind, after
	return f.letters[:min(len(f.letters), atMost)], f.err
}

func (f *fakeReader) FindDeadLetters(_ context.Context, filter operate.DeadFilter, atMost int) ([]int64, error) {
	f.deadFilter = filter
	return f.letters[:min(len(f.letters), atMost)], f.err
}

func (f *fakeReader) DeadLetters(context.Context, []int64, []string) ([]operate.DeadLetter, error) {
	state := f.state
	if state == "" {
		state = "OPEN"
	}
	return []operate.DeadLetter{{ID: 8, State: state}}, f.err
}

func (f *fakeReader) WorkspaceDetail(_ context.Context, asked string) (operate.WorkspaceDetail, bool, error) {
	limit, rate := 7, 2.5
	return operate.WorkspaceDetail{Workspace: operate.Workspace{ID: asked, Name: hostile, Plan: "FREE", Limit: 7,
			Unanswered: 7, MaxConcurrentWorkflows: &limit, MaxStartsPerSecond: &rate}},
		asked == id, f.err
}

func (f *fakeReader) Definitions(context.Context, string) ([]operate.Definition, error) {
	return []operate.Definition{{ID: id, Name: hostile, WorkflowType: hostile, Namespace: hostile, TaskQueue: hostile}}, f.err
}

func (f *fakeReader) FindDefinitions(_ context.Context, name string, workspaces []string, atMost int) ([]string, error) {
	switch name {
	case "nobody":
		return nil, f.err
	case "all":
		return make([]string, atMost), f.err
	}
	return append([]string{id}, workspaces...), f.err
}

func (f *fakeReader) Plans(context.Context) ([]operate.Plan, error) {
	return []operate.Plan{{Name: "FREE", MaxConcurrentWorkflows: 1}, {Name: "PRO", MaxConcurrentWorkflows: 5}}, f.err
}

func (f *fakeReader) Settings(context.Context) (operate.Settings, error) {
	return operate.Settings{MaxClaims: 100, Paused: f.paused}, f.err
}

func (f *fakeReader) Audit(_ context.Context, filter operate.AuditFilter, _ int) ([]operate.Administered, error) {
	f.subject = filter.Subject
	name, _ := json.Marshal(hostile)
	return []operate.Administered{{At: time.Unix(1, 0), Who: hostile, Action: hostile, Details: fmt.Appendf(nil, `{"name": [null, %s]}`, name)}}, f.err
}

// fakeChanger records who changed what, one line per call.
type fakeChanger struct {
	calls   []string
	err     error
	failsAt int  // the call that fails, 1 the first; 0: each, where err is set
	late    bool // nothing is as it was when the page was made
	long    bool // calls are written without their items
}

func (f *fakeChanger) call(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	if f.failsAt == 0 || f.failsAt == len(f.calls) {
		return f.err
	}
	return nil
}

func (f *fakeChanger) ChangeWorkspace(_ context.Context, id, who, command string, c operate.WorkspaceChange) (operate.Change, error) {
	asked, _ := json.Marshal(c)
	err := f.call("%s by %s: %s", command, who, asked)
	if f.late {
		return nil, err
	}
	return operate.Change{"plan": {1, 2}}, err
}

func (f *fakeChanger) SetSettings(_ context.Context, maxClaims *int, paused *bool, _ *int, who string) (operate.SettingsChange, error) {
	if paused != nil {
		return operate.SettingsChange{}, f.call("settings paused %t by %s", *paused, who)
	}
	return operate.SettingsChange{}, f.call("settings max-claims %d by %s", *maxClaims, who)
}

func (f *fakeChanger) items(verb string, items []int64, who string) ([]int64, error) {
	err := f.call("%s %v by %s", verb, items, who)
	if f.long {
		f.calls[len(f.calls)-1] = fmt.Sprintf("%s %d by %s", verb, len(items), who)
	}
	if f.late || err != nil {
		items = nil
	}
	return items, err
}

func (f *fakeChanger) CancelItems(_ context.Context, items []int64, who string) ([]int64, error) {
	return f.items("cancel", items, who)
}

func (f *fakeChanger) RetryItems(_ context.Context, items []int64, who string) ([]int64, error) {
	return f.items("retry", items, who)
}

func (f *fakeChanger) RequestStop(_ context.Context, stop temporal.Stop) (string, error) {
	answer := "REQUESTED"
	if f.late {
		answer = "ALREADY_ENDED"
	}
	return answer, f.call("%s %q by %s", stop.How, stop.Reason, stop.RequestedBy)
}

func (f *fakeChanger) Replay(_ context.Context, _, who string) (operate.Replay, error) {
	return operate.Replay{ID: 9, Replayed: !f.late}, f.call("replay by %s", who)
}

func (f *fakeChanger) ReplayAll(_ context.Context, items []int64, who string) ([]operate.Replayed, error) {
	done, err := f.items("replay", items, who)
	return make([]operate.Replayed, len(done)), err
}

func (f *fakeChanger) Discard(_ context.Context, items []int64, who string) ([]int64, error) {
	return f.items("discard", items, who)
}

var (
	errForbidden = fmt.Errorf("change: %w", &pgconn.PgError{Code: "42501", Message: "permission denied for table workspaces"})
	errAway      = errors.New("password of user bob")
)

// browser is a signed-in user.
type browser struct {
	t      *testing.T
	read   *fakeReader
	change *fakeChanger
	header nethttp.Header
}

func newBrowser(t *testing.T) *browser {
	return &browser{t, &fakeReader{rows: 1, letters: []int64{8}}, &fakeChanger{}, nethttp.Header{"Sec-Fetch-Site": {"same-origin"}}}
}

// as returns a user with this name and the admin token.
func (b *browser) as(name string) *browser {
	var signed nethttp.Request
	signed.Header = b.header
	signed.SetBasicAuth(name, "0123456789abcdef")
	return b
}

func (b *browser) site() *Site {
	return &Site{Read: b.read, Change: b.change, Log: slog.New(slog.DiscardHandler)}
}

// ask asks for a page, and posts a form where there is one.
func (b *browser) ask(handler nethttp.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	b.t.Helper()
	request := httptest.NewRequest("GET", "http://localhost"+path, nil)
	if form != nil {
		request = httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(form.Encode()))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, values := range b.header {
		request.Header[name] = values
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	require.Contains(b.t, answer.Header().Get("Content-Security-Policy"), "form-action 'self'")
	return answer
}

func (b *browser) get(path string) (int, string) {
	b.t.Helper()
	answer := b.ask(b.site().Acting(), path, nil)
	return answer.Code, answer.Body.String()
}

func (b *browser) post(path string, form url.Values) (int, string) {
	b.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	answer := b.ask(b.site().Acting(), path, form)
	if answer.Code == nethttp.StatusSeeOther {
		return answer.Code, answer.Header().Get("Location")
	}
	return answer.Code, answer.Body.String()
}
