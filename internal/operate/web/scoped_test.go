package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/signin"
)

// namesReader knows some workspaces by name, and counts how often it is asked.
type namesReader struct {
	fakeReader
	known      []operate.WorkspaceName
	asked      int
	ids, names []string
}

func (n *namesReader) WorkspacesNamed(_ context.Context, ids, names []string,
	atMost int) ([]operate.WorkspaceName, error) {
	n.asked++
	n.ids, n.names = ids, names
	return n.known[:min(len(n.known), atMost)], n.err
}

// newScoped is a site on which visitors of some workspaces read the same as all others.
func newScoped(read *namesReader) *Site {
	return &Site{Read: read, Within: func([]string, []string) (Reader, Changer) { return read, nil },
		Log: slog.New(slog.DiscardHandler)}
}

func visits(t *testing.T, pages http.Handler, v signin.Visitor, path string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	answer := httptest.NewRecorder()
	pages.ServeHTTP(answer, request.WithContext(signin.With(t.Context(), v)))
	return answer
}

func rolesIn(workspaces ...string) signin.Visitor {
	v := signin.Visitor{Name: "anna", Via: "oidc", Rights: signin.Rights{Confined: true}}
	for _, w := range workspaces {
		v.Grants = append(v.Grants, signin.Grant{Workspace: w})
	}
	return v
}

func TestAVisitorWhoseWorkspacesDoNotExistIsToldSo(t *testing.T) {
	t.Parallel()
	read := &namesReader{}
	pages := newScoped(read).Handler()
	answer := visits(t, pages, rolesIn("Nobody", "a\x00b", "\xff", "AAAAAAAA-0000-4000-8000-000000000001"), "/ui/items")
	require.Equal(t, http.StatusForbidden, answer.Code)
	require.Contains(t, answer.Body.String(), "None of the workspaces that you have a role in exists.")
	require.NotEmpty(t, answer.Header().Get("Content-Security-Policy"))
	require.Equal(t, []string{"Nobody"}, read.names, "others are no names in Postgres")
	require.Equal(t, []string{"aaaaaaaa-0000-4000-8000-000000000001"}, read.ids)
	require.Zero(t, read.lists)
	require.Equal(t, http.StatusOK, visits(t, pages, rolesIn("Nobody"), staticPath+"style.css").Code)

	read.known = make([]operate.WorkspaceName, mostWorkspaces+1)
	answer = visits(t, pages, rolesIn("team"), "/ui/")
	require.Equal(t, http.StatusForbidden, answer.Code)
	require.Contains(t, answer.Body.String(), "You have roles in more than 1,000 workspaces.")
	read.err = errAway
	answer = visits(t, pages, rolesIn("other"), "/ui/")
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.NotContains(t, answer.Body.String(), "bob")
}

func TestTheTopOfEachPageSaysWhoLooksAndWhatTheyMayDo(t *testing.T) {
	t.Parallel()
	for words, c := range map[string]struct {
		rights signin.Rights
		known  []operate.WorkspaceName
	}{
		"operator":       {rights: signin.Rights{Operator: true}},
		"viewer":         {},
		"viewer of a, b": {rolesIn("a, b").Rights, []operate.WorkspaceName{{ID: id, Name: "a, b"}}},
		"viewer of 2 workspaces": {rolesIn("北京", id).Rights, []operate.WorkspaceName{{ID: id},
			{Name: "北京"}}},
		"operator of ö, viewer of 2 workspaces": {granted("ö", true), []operate.WorkspaceName{{ID: "1", Name: "ö"},
			{ID: "2"}, {ID: "3"}}},
		"operator of ö, viewer": {granted("ö", false), []operate.WorkspaceName{{Name: "ö"}}},
		"operator of 2 workspaces, viewer of \ufffd": {granted("ö", true), []operate.WorkspaceName{{ID: "1", Name: "ö"},
			{ID: "2", Name: "ö"}, {Name: "\x1b"}}},
	} {
		read := &namesReader{known: c.known}
		pages := newScoped(read).Handler()
		answer := visits(t, pages, signin.Visitor{Name: "anna", Via: "oidc", Rights: c.rights}, "/ui/dead")
		require.Contains(t, answer.Body.String(), "<span>anna</span> <small>"+words+"</small> <button>Sign out")
	}
}

func granted(workspace string, confined bool) signin.Rights {
	return signin.Rights{Confined: confined, Grants: []signin.Grant{{Workspace: workspace, Operator: true}}}
}

func TestCornersAreKeptForAWhileAndAreFew(t *testing.T) {
	t.Parallel()
	read := &namesReader{known: []operate.WorkspaceName{{ID: id, Name: "a"}}}
	site := newScoped(read)
	pages := site.Handler()
	for range 3 {
		require.Equal(t, 200, visits(t, pages, rolesIn("first"), "/ui/dead").Code)
	}
	require.Equal(t, 1, read.asked, "the names are not looked up for each request")
	first := site.scopedSites.entries[`{"Operator":false,"Confined":true,"Grants":[{"Workspace":"first"}]}`]
	first.at = first.at.Add(-rightsAge)
	visits(t, pages, rolesIn("first"), "/ui/dead")
	require.Equal(t, 2, read.asked, "but now and then")
	require.Same(t, first, site.scopedSites.entries[`{"Operator":false,"Confined":true,"Grants":[{"Workspace":"first"}]}`])
	read.known, first.at = []operate.WorkspaceName{{ID: id, Name: "renamed"}}, first.at.Add(-rightsAge)
	require.Contains(t, visits(t, pages, rolesIn("first"), "/ui/dead").Body.String(), "viewer of renamed")
	for n := range 2 * mostScopedSites {
		visits(t, pages, rolesIn(fmt.Sprint(n)), "/ui/dead")
	}
	require.Len(t, site.scopedSites.entries, mostScopedSites)
}

func TestAVisitorCannotActUnderAnotherName(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	request := httptest.NewRequest(http.MethodPost, "http://localhost/ui/settings/resume", nil)
	request.Header = b.header.Clone()
	request.SetBasicAuth("boss", "not the token")
	visitor := signin.Visitor{Name: "anna", Via: "oidc", Rights: signin.Rights{Operator: true}}
	b.site().Acting().ServeHTTP(httptest.NewRecorder(), request.WithContext(signin.With(t.Context(), visitor)))
	require.Equal(t, []string{`settings set by anna (web, oidc): {"paused":false}`}, b.change.calls)
}
