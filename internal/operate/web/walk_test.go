package web

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/signin"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// state is everything in the database that a visitor could change.
func (m *tenants) state() string {
	return sqltest.Scalar[string](m.Shop, `select concat_ws(E'\n',
		(select string_agg(q::text, ';' order by q.id) from pgdispatch.workflow_execution_queue q),
		(select string_agg(w::text, ';' order by w.id) from pgdispatch.workspaces w),
		(select string_agg(s::text, ';') from pgdispatch.settings s),
		(select string_agg(d::text, ';' order by d.item_id) from pgdispatch.dead_letter_marks d),
		(select string_agg(s::text, ';' order by s.execution_id) from pgdispatch.stop_requests s),
		(select string_agg(g::text, ';' order by g.id) from pgdispatch.signals g),
		(select count(*) from pgdispatch.admin_log))`)
}

func TestAVisitorOfAWorkspaceIsToldNothingOfAnother(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	visitors := map[string]signin.Rights{
		"viewer":   {Confined: true, Grants: []signin.Grant{{Workspace: "Mine"}}},
		"operator": {Confined: true, Grants: []signin.Grant{{Workspace: strings.ToUpper(m.mine), Operator: true}}},
	}
	alone := map[string]string{}
	for visitor, rights := range visitors {
		pages := m.site(rights)
		for pattern, paths := range walked {
			for _, path := range paths {
				if !strings.HasPrefix(pattern, "POST ") {
					alone[visitor+path] = ask(t, pages, pattern, path, unknown)
				}
			}
		}
		require.Contains(t, alone[visitor+"/ui/items"], "mine-failed")
		require.Contains(t, alone[visitor+"/ui/items"], "FAILED <small>1</small>", "their own are counted")
		require.Contains(t, alone[visitor+"/ui/"], "mine is parked")
		require.Contains(t, alone[visitor+"/ui/dead"], "mine-failed")
	}
	theirs := m.other()
	before := m.state()
	for visitor, rights := range visitors {
		pages := m.site(rights)
		for pattern, paths := range walked {
			for _, path := range paths {
				about := visitor + ": " + pattern + " as " + path
				answer := ask(t, pages, pattern, path, theirs)
				require.Equal(t, ask(t, pages, pattern, path, unknown), answer, "%s: as if it did not exist", about)
				require.NotContains(t, strings.ToLower(answer), "rival", about)
				if was, read := alone[visitor+path]; read {
					require.Equal(t, was, answer, "%s: as if the other workspace had nothing", about)
				}
			}
		}
	}
	require.Equal(t, before, m.state(), "nothing was changed")
}

func TestAViewerOfAllAndOperatorOfOneActsOnlyThere(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	theirs := m.other()
	pages := m.site(signin.Rights{Grants: []signin.Grant{{Workspace: "Mine", Operator: true}}})
	require.Contains(t, ask(t, pages, "GET", "/ui/", nil), "<small>operator of Mine, viewer</small>")
	require.Contains(t, ask(t, pages, "GET", "/ui/items", nil), "rival-failed")
	require.Contains(t, ask(t, pages, "GET", "/ui/workspaces/{workspace}", theirs), "Read-only. To act")
	require.NotContains(t, ask(t, pages, "GET", "/ui/items/{letter}", theirs), `method="post" action="/ui/items`)
	require.Contains(t, ask(t, pages, "GET", "/ui/dead/replay", nil), "replay 1 dead letter of 1 workspace.")
	before := m.state()
	for pattern, paths := range walked {
		for _, path := range paths {
			if !strings.HasPrefix(pattern, "POST ") {
				continue
			}
			answer := ask(t, pages, pattern, path, theirs)
			require.Regexp(t, "^(403|404|405|422) ", answer, path)
		}
	}
	for _, path := range []string{"/ui/items/{running}/terminate", "/ui/items/{letter}/discard", "/ui/settings/pause",
		"/ui/items/selected?do=replay&item={letter}"} {
		require.Regexp(t, "^403 ", ask(t, pages, "GET", path, theirs), path)
	}
	require.Equal(t, before, m.state(), "nothing was changed")
}

func TestAnOperatorOfOneWorkspaceActsThereAndBulkActionsStayThere(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	theirs := m.other()
	of := func(status string) string {
		return sqltest.Scalar[string](m.Shop, `select id::text from pgdispatch.workflow_execution_queue
			where workspace_id = $1::uuid and status = $2`, m.mine, status)
	}
	mine := map[string]string{"workspace": m.mine, "letter": of("FAILED"), "waiting": of("PENDING"),
		"theirs": theirs["letter"], "waits": theirs["waiting"]}
	pages := m.site(signin.Rights{Confined: true, Grants: []signin.Grant{{Workspace: "Mine", Operator: true}}})
	require.Regexp(t, "^303 ", ask(t, pages, "POST", "/ui/workspaces/{workspace}/resume?", mine))
	require.Contains(t, ask(t, pages, "GET", "/ui/dead/replay", mine), "This would replay 1 dead letter of 1 workspace.")
	require.Contains(t, ask(t, pages, "POST", "/ui/dead/replay?items={letter},{theirs}", mine), "1 dead letter replayed")
	require.Contains(t, ask(t, pages, "POST", "/ui/items/selected/cancel?items={waiting},{waits}", mine),
		"1 item cancelled")
	require.Contains(t, ask(t, pages, "GET", "/ui/workspaces/{workspace}", mine), "anna (web, proxy)")
	require.Regexp(t, "^409 ", ask(t, pages, "POST", "/ui/items/"+of("DISPATCHED")+"/resend?signal={signal}", theirs))
	require.Equal(t, int64(2), sqltest.Scalar[int64](m.Shop, "select count(*) from pgdispatch.signals where id <= 900002"))
	require.Regexp(t, "^303 ", ask(t, pages, "POST", "/ui/items/"+of("DISPATCHED")+"/resend?signal=900001", nil))
	require.Equal(t, "GIVEN_UP OPEN", sqltest.Scalar[string](m.Shop,
		"select string_agg(state, ' ' order by id) from pgdispatch.signals"), "mine only was sent again")
	require.Equal(t, int64(1), sqltest.Scalar[int64](m.Shop, "select count(*) from pgdispatch.dead_letter_marks"))
	require.Equal(t, "PENDING", sqltest.Scalar[string](m.Shop,
		"select status from pgdispatch.workflow_execution_queue where id = $1::text::bigint", theirs["waiting"]))
	settings := ask(t, pages, "POST", "/ui/settings/pause?", mine)
	require.Regexp(t, "^403 ", settings)
	require.Contains(t, settings, "this applies to all workspaces, and you may act in some only.")
}

func TestCachedReadsAreNotSharedBetweenVisitorsOfDifferentWorkspaces(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	m.other()
	pages := (&Site{Read: m.Bench, Change: m.Bench}).Acting()
	as := func(rights signin.Rights) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pages.ServeHTTP(w, r.WithContext(signin.With(r.Context(), signin.Visitor{Name: "anna", Rights: rights})))
		})
	}
	of := func(workspace string) http.Handler {
		return as(signin.Rights{Confined: true, Grants: []signin.Grant{{Workspace: workspace}}})
	}
	for range 2 { // within the age of a cached read
		for _, path := range []string{"/ui/", "/ui/live", "/ui/?period=6h", "/ui/items"} {
			require.Contains(t, ask(t, as(signin.Rights{}), "GET", path, nil), "rival", path)
			for own, other := range map[string]string{"Mine": "rival", "Rival": "mine"} {
				page := strings.ToLower(ask(t, of(own), "GET", path, nil))
				require.Contains(t, page, strings.ToLower(own), path)
				require.NotContains(t, page, other, path)
			}
		}
	}
}

func TestAConfinedReaderKnowsNothingOfOthers(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	theirs := m.other()
	_, err := m.SetSettings(t.Context(), new(7), nil, nil, "boss")
	require.NoError(t, err)
	letter, err := strconv.ParseInt(theirs["letter"], 10, 64)
	require.NoError(t, err)
	waiting, err := strconv.ParseInt(theirs["waiting"], 10, 64)
	require.NoError(t, err)
	item := operate.Item{ID: letter, ExecutionID: theirs["execution"]}
	c, ctx, id := confined{m.Bench, map[string]bool{m.mine: true}, []operate.WorkspaceName{{ID: m.mine, Name: "Mine"}}},
		t.Context(), theirs["workspace"]
	for _, workspaces := range [][]string{nil, {id}, {m.mine, id}} {
		letters, _, err := c.SearchDeadLetters(ctx, operate.DeadFilter{Workspaces: workspaces}, 100, 10)
		require.NoError(t, err)
		require.NotContains(t, letters, letter)
		page, err := c.ListItems(ctx, operate.ItemFilter{}, "", workspaces, "rivalflow", 10)
		require.NoError(t, err)
		require.Empty(t, page.Items)
		rows, err := c.ListWorkspacesOf(ctx, workspaces, "rival", operate.ByName, nil, 10)
		require.NoError(t, err)
		require.Empty(t, rows)
		o, err := c.OverviewOf(ctx, workspaces)
		require.NoError(t, err)
		require.LessOrEqual(t, o.Depth.Dispatched, int64(1))
		ofKind, err := c.DeadOfKind(ctx, "rival-failed", workspaces, nil, 10)
		require.NoError(t, err)
		require.Empty(t, ofKind)
	}
	for what, read := range map[string]func() (any, error){
		"definitions":  func() (any, error) { return c.Definitions(ctx, id, 10) },
		"flows":        func() (any, error) { return c.CompleteDefinitions(ctx, id, "", 10) },
		"failures":     func() (any, error) { return c.Failures(ctx, letter) },
		"items":        func() (any, error) { return c.Items(ctx, []int64{letter}, []string{item.ExecutionID}, false) },
		"changes":      func() (any, error) { return c.ChangesOf(ctx, item) },
		"minutes":      func() (any, error) { return c.Activity(ctx, time.Hour) },
		"settings":     func() (any, error) { return c.Audit(ctx, operate.AuditFilter{Subject: "settings"}, 10) },
		"audit":        func() (any, error) { return c.Audit(ctx, operate.AuditFilter{}, 10) },
		"workspace":    func() (any, error) { return c.Audit(ctx, operate.AuditFilter{Subject: "workspace " + id}, 10) },
		"names":        func() (any, error) { return c.WorkspacesNamed(ctx, []string{id}, []string{"Rival"}, 10) },
		"by beginning": func() (any, error) { return c.CompleteWorkspaces(ctx, "R", 10) },
		"ahead":        func() (any, error) { n, err := c.Ahead(ctx, waiting); return make([]int, n), err },
	} {
		got, err := read()
		require.NoError(t, err, what)
		require.Empty(t, got, what)
	}
}
