package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
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

func visits(t *testing.T, pages http.Handler, v signin.Visitor, path string) page {
	t.Helper()
	b := newBrowser(t)
	b.visitor = &v
	return b.ask(pages, path, nil)
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
	visits(t, pages, rolesIn("Nobody", "a\x00b", "\xff", "AAAAAAAA-0000-4000-8000-000000000001"), "/ui/items").is(403).
		shows("None of the workspaces that you have a role in exists.")
	require.Equal(t, []string{"Nobody"}, read.names, "others are no names in Postgres")
	require.Equal(t, []string{"aaaaaaaa-0000-4000-8000-000000000001"}, read.ids)
	require.Zero(t, read.lists)
	visits(t, pages, rolesIn("Nobody"), staticPath+"style.css").is(200)

	read.known = make([]operate.WorkspaceName, mostWorkspaces+1)
	visits(t, pages, rolesIn("team"), "/ui/").is(403).shows("You have roles in more than 1,000 workspaces.")
	read.err = errAway
	visits(t, pages, rolesIn("other"), "/ui/").is(503).hides("bob")
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
		visits(t, newScoped(&namesReader{known: c.known}).Handler(),
			signin.Visitor{Name: "anna", Via: "oidc", Rights: c.rights}, "/ui/dead").
			shows("<span>anna</span> <small>" + words + "</small> <button>Sign out")
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
		visits(t, pages, rolesIn("first"), "/ui/dead").is(200)
	}
	require.Equal(t, 1, read.asked, "the names are not looked up for each request")
	const rights = `{"Operator":false,"Confined":true,"Grants":[{"Workspace":"first"}]}`
	first := site.scopedSites.entries[rights]
	first.at = first.at.Add(-rightsAge)
	visits(t, pages, rolesIn("first"), "/ui/dead")
	require.Equal(t, 2, read.asked, "but now and then")
	require.Same(t, first, site.scopedSites.entries[rights])
	read.known, first.at = []operate.WorkspaceName{{ID: id, Name: "renamed"}}, first.at.Add(-rightsAge)
	visits(t, pages, rolesIn("first"), "/ui/dead").shows("viewer of renamed")
	for n := range 2 * mostScopedSites {
		visits(t, pages, rolesIn(fmt.Sprint(n)), "/ui/dead")
	}
	require.Len(t, site.scopedSites.entries, mostScopedSites)
}

func TestAVisitorCannotActUnderAnotherName(t *testing.T) {
	t.Parallel()
	for via, signsOut := range map[string]bool{"oidc": true, "proxy": false} {
		b := newBrowser(t).as("boss")
		b.visitor = &signin.Visitor{Name: "anna", Via: via, Rights: signin.Rights{Operator: true}}
		b.post("/ui/settings/resume", nil)
		b.changed("settings set by anna (web, " + via + `): {"paused":false}`)
		text := b.get("/ui/settings").shows("<span>anna</span>").text()
		require.Equal(t, signsOut, strings.Contains(text, "Sign out"))
	}
}
