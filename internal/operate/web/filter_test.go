package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// typed sends a line of a filter, and returns the status, and where it leads or the page.
func typed(t *testing.T, path, line, inForce string) (int, string) {
	t.Helper()
	site := &Site{Read: &fakeReader{}, Log: slog.New(slog.DiscardHandler)}
	answer := httptest.NewRecorder()
	query := "?filter=" + url.QueryEscape(line) + "&" + inForce
	site.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost"+path+query, nil))
	if answer.Code == http.StatusSeeOther {
		return answer.Code, answer.Header().Get("Location")
	}
	return answer.Code, answer.Body.String()
}

func TestATypedFilterLeadsToTheAddressThatSaysIt(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"status:FAILED workspace:acme":                 "?status=FAILED&workspace=acme",
		" Status:failed  since:1h until:15m ":          "?since=1h&status=FAILED&until=15m",
		`workspace:"Acme Lima" definition:a:b`:         "?definition=a%3Ab&workspace=Acme+Lima",
		`workspace:"say ""hi"""definition:x`:           "?definition=x&workspace=say+%22hi%22",
		`card status:FAILED refused`:                   "?error=card+refused&status=FAILED",
		`error:card refused`:                           "?error=card+refused",
		`"start workflow: reset" 10:30 by 5" or a"b"c`: "?error=start+workflow%3A+reset+10%3A30+by+5%22+or+a%22b%22c",
		"":              "",
		` "" `:          "",
		"before:8":      "",
		"workspace:é":   "?workspace=%C3%A9",
		"status:\u3000": "",
	} {
		code, to := typed(t, "/ui/items", line, "")
		if want == "" && strings.TrimSpace(line) != "" && line != ` "" ` {
			require.Equal(t, 422, code, line)
			continue
		}
		require.Equal(t, 303, code, line)
		require.Equal(t, "/ui/items"+want, to, line)
	}
	_, to := typed(t, "/ui/items", "status:PENDING reset", "status=FAILED&workspace=acme&before=7&done=changed&q=x")
	require.Equal(t, "/ui/items?error=reset&status=PENDING&workspace=acme", to,
		"it replaces and adds, from the first page")
	_, to = typed(t, "/ui/dead/letters", `since:24h "no postcode"`, "workspace=acme&after=x")
	require.Equal(t, "/ui/dead/letters?error=no+postcode&since=24h&workspace=acme", to)
}

func TestAWrongTokenIsNamedBesideTheListAsItWas(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"statsu:FAILED": "there is no filter statsu; use status, key, priority, params, workspace, definition, error, " +
			"since, until; put a text with a colon in double quotes.",
		"http://a": "there is no filter http;", "status:": "status has no value; write it after the colon, without a space.",
		`workspace:""`: "workspace has no value;", "status:DONE": "status must be one of PENDING, SCHEDULED,",
		"since:1h since:2h": "since is there twice.",
		"since:soon":        "since must be how long ago, such as 15m or 24h.",
		"since:1h until:2h": "since must be longer ago than until.", `workspace:"Acme`: "a double quote is not closed.",
		"a\x00b":                  "error must be text of up to 200 characters,",
		strings.Repeat("é ", 150): "error must be text of up to 200",
		strings.Repeat(" ", 2001): "it is longer than 2000 bytes.", "workspace:\xff": "workspace must be text",
	} {
		code, text := typed(t, "/ui/items", line, "workspace=acme")
		require.Equal(t, 422, code, line)
		require.Contains(t, text, `role="alert" id="filter-wrong">The filter was not changed: `+want, line)
		require.Contains(t, text, `aria-label="Remove the filter workspace: acme"`)
		require.Contains(t, text, `aria-label="Table of items"`, "the list is there")
		require.NotContains(t, text, "filter=", "no link has the line")
	}
	code, text := typed(t, "/ui/items", `"><script>alert(1)</script> x:y`, "")
	require.Equal(t, 422, code)
	require.NotContains(t, text, "<script>alert")
	code, text = typed(t, "/ui/dead/letters", "status:FAILED", "")
	require.Equal(t, 422, code)
	require.Contains(t, text, "there is no filter status; use workspace, definition, error, since, until;")
}

func TestUntilBoundsTheTime(t *testing.T) {
	t.Parallel()
	f := &fakeReader{}
	_, _ = get(t, f, "/ui/items?since=24h&until=90m")
	require.Equal(t, 24*time.Hour, *f.filter.Since.Ago)
	require.Equal(t, 90*time.Minute, *f.filter.Until.Ago)
	f = &fakeReader{letters: []int64{8}}
	_, text := (&browser{t, f, &fakeChanger{}, http.Header{}}).get("/ui/dead/letters?until=90m")
	require.Equal(t, 90*time.Minute, *f.deadFilter.Until.Ago)
	require.Contains(t, text, "/ui/dead/replay?until=90m", "a bulk action has the same filter")
}
