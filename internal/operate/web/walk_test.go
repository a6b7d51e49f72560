package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/signin"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// state is everything in the database that a visitor could change.
func (m *tenants) state() string {
	return m.stateOf("") + sqltest.Scalar[string](m.Shop, `select concat_ws(E'\n',
		(select string_agg(s::text, ';') from pgdispatch.settings s), (select count(*) from pgdispatch.admin_log))`)
}

// stateOf is that of a workspace, or of all.
func (m *tenants) stateOf(workspace string) string {
	return sqltest.Scalar[string](m.Shop, `with of as (
			select q.* from pgdispatch.workflow_execution_queue q where $1 in ('', q.workspace_id::text))
		select concat_ws(E'\n',
		(select string_agg(q::text, ';' order by q.id) from of q),
		(select string_agg(w::text, ';' order by w.id) from pgdispatch.workspaces w where $1 in ('', w.id::text)),
		(select string_agg(l::text, ';' order by l.id) from pgdispatch.limits l where $1 in ('', l.workspace_id::text)),
		(select string_agg(d::text, ';' order by d.item_id) from pgdispatch.dead_letter_marks d
		 join of q on q.id = d.item_id),
		(select string_agg(p::text, ';' order by p.item_id) from pgdispatch.parked_items p join of q on q.id = p.item_id),
		(select string_agg(s::text, ';' order by s.execution_id) from pgdispatch.stop_requests s
		 join of q on q.execution_id = s.execution_id),
		(select string_agg(g::text, ';' order by g.id) from pgdispatch.signals g
		 join of q on q.execution_id = g.execution_id))`, workspace)
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
		require.Contains(t, alone[visitor+"/ui/items"], "Failed <small>1</small>", "their own are counted")
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
	require.Contains(t, ask(t, pages, "GET", "/ui/limits.json", nil), `"key":"mine key","max_concurrent":3`)
	require.Regexp(t, "^303 ", ask(t, pages, "POST", "/ui/limits/set?workspace=Mine&key=mine+key&max=&rates=5/s", nil))
	require.Contains(t, ask(t, pages, "GET", "/ui/limits", nil), "<td>5/1s</td>")
	require.Contains(t, ask(t, pages, "GET", "/ui/dead/replay", mine), "This would replay 1 dead letter of 1 workspace.")
	require.Contains(t, ask(t, pages, "POST", "/ui/dead/replay?items={letter},{theirs}", mine),
		"count=1&done=replay&left=1")
	require.Contains(t, ask(t, pages, "POST", "/ui/items/selected/cancel?items={waiting},{waits}", mine),
		"count=1&done=cancel&left=1")
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
	pages := m.pages().Acting()
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

// asked are calls of each method of Reader and Changer about these values. Those of other workspaces are as unknown as
// values that do not exist.
func asked(ctx context.Context, r Reader, c Changer, of map[string]string) map[string]func() (any, error) {
	number := func(name string) int64 { n, _ := strconv.ParseInt(of[name], 10, 64); return n }
	letter, waiting, workspace, execution := number("letter"), number("waiting"), of["workspace"], of["execution"]
	both := []string{workspace}
	all := map[string]func() (any, error){
		"Overview":        func() (any, error) { return r.Overview(ctx) },
		"Standing":        func() (any, error) { return r.Standing(ctx) },
		"ListWorkspaces":  func() (any, error) { return r.ListWorkspaces(ctx, of["name"], operate.ByOldest, nil, 10) },
		"WorkspacesNamed": func() (any, error) { return r.WorkspacesNamed(ctx, both, []string{of["name"]}, 10) },
		"Names":           func() (any, error) { return r.Names(ctx, operate.NamedWorkspace, of["name"]) },
		"FindWorkspaces":  func() (any, error) { return r.FindWorkspaces(ctx, strings.ToUpper(workspace)) },
		"ListItems":       func() (any, error) { return r.ListItems(ctx, operate.ItemFilter{}, "", both, of["flow"], 10) },
		"WorkspacesOf":    func() (any, error) { return r.WorkspacesOf(ctx, both) },
		"Nodes":           func() (any, error) { return r.Nodes(ctx, letter) },
		"SendSignal":      func() (any, error) { return c.SendSignal(ctx, of["runs"], "go", "", "me") },
		"Items":           func() (any, error) { return r.Items(ctx, []int64{letter}, []string{execution}, true) },
		"ItemsNamed":      func() (any, error) { return r.ItemsNamed(ctx, []string{execution}, true) },
		"Failures":        func() (any, error) { return r.Failures(ctx, letter) },
		"Signals":         func() (any, error) { return r.Signals(ctx, execution, nil, 10) },
		"DeadGroups":      func() (any, error) { return r.DeadGroups(ctx, 10) },
		"DeadOfKind":      func() (any, error) { return r.DeadOfKind(ctx, of["error"], both, nil, 10) },
		"SearchDeadLetters": func() (any, error) {
			found, _, err := r.SearchDeadLetters(ctx, operate.DeadFilter{Workspaces: both}, 100, 10)
			return found, err
		},
		"WorkspaceDetail": func() (any, error) {
			found, _, err := r.WorkspaceDetail(ctx, workspace)
			return found, err
		},
		"Definitions":         func() (any, error) { return r.Definitions(ctx, workspace, 10) },
		"CompleteDefinitions": func() (any, error) { return r.CompleteDefinitions(ctx, workspace, "", 10) },
		"Plans":               func() (any, error) { return r.Plans(ctx) },
		"CompleteWorkspaces":  func() (any, error) { return r.CompleteWorkspaces(ctx, of["name"], 10) },
		"CompleteErrors":      func() (any, error) { return r.CompleteErrors(ctx, "", 10) },
		"EndedItems":          func() (any, error) { return r.EndedItems(ctx, both) },
		"Ahead":               func() (any, error) { return r.Ahead(ctx, waiting) },
		"Activity":            func() (any, error) { return r.Activity(ctx, time.Hour) },
		"WorkspaceActivity":   func() (any, error) { return r.WorkspaceActivity(ctx, workspace, time.Hour) },
		"ChangesOf":           func() (any, error) { return r.ChangesOf(ctx, letter) },
		"Settings":            func() (any, error) { return r.Settings(ctx) },
		"Audit": func() (any, error) {
			of, err := r.Audit(ctx, operate.AuditFilter{Subject: "workspace " + workspace}, 10)
			if err != nil {
				return nil, err
			}
			items, err := r.Audit(ctx, operate.AuditFilter{Subject: "items"}, 10)
			return append(of, items...), err
		},
		"ChangeWorkspace": func() (any, error) {
			return c.ChangeWorkspace(ctx, workspace, operate.Patch{"paused": false}, "workspaces resume", "me")
		},
		"ChangeSettings": func() (any, error) { return c.ChangeSettings(ctx, operate.Patch{"max_claims": 7}, "me") },
		"CancelItems":    func() (any, error) { return c.CancelItems(ctx, []int64{waiting}, "me") },
		"RetryItems":     func() (any, error) { return c.RetryItems(ctx, []int64{waiting}, "me") },
		"RequestStop": func() (any, error) {
			return c.RequestStop(ctx, temporal.Stop{Execution: temporal.Execution{ID: of["runs"]}, How: "CANCEL",
				RequestedBy: "me"})
		},
		"Replay":    func() (any, error) { return c.Replay(ctx, execution, "me") },
		"ReplayAll": func() (any, error) { return c.ReplayAll(ctx, []int64{letter}, "me") },
		"Discard":   func() (any, error) { return c.Discard(ctx, []int64{letter}, "me") },
		"ResendSignal": func() (any, error) {
			sent, _, err := c.ResendSignal(ctx, number("signal"), "", "me")
			return sent, err
		},
	}
	maps.Copy(all, askedOfLimits(ctx, r, c, workspace, number("limit")))
	return all
}

// passing are durations until now.
var passing = regexp.MustCompile(`_ns":[0-9]+`)

func TestAStoreWithinAWorkspaceKnowsAndChangesNothingOfOthers(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	theirs := m.other()
	m.Execute(`insert into pgdispatch.limits (workspace_id, key, max_concurrent)
		values (null, 'key', 1), ($1::uuid, 'key', 1)`, theirs["workspace"])
	m.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() - interval '1 hour' from pgdispatch.workflow_definitions
		where workspace_id = $1::uuid`, theirs["workspace"])
	m.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key)
		select workspace_id, id, 'rival orphan' from pgdispatch.workflow_definitions where workspace_id = $1::uuid`,
		theirs["workspace"])
	m.Execute(`insert into pgdispatch.workspace_activity (at, workspace_id, started)
		values (date_bin('5 minutes', now(), 'epoch'), $1::uuid, 7777)`, theirs["workspace"])
	m.Execute(`insert into pgdispatch.signals (execution_id, name) values ($1::uuid, 'rival signal')`, theirs["execution"])
	m.Execute(`insert into pgdispatch.admin_log (who, action, subject, details)
		values ('rival', 'items retry', 'items', jsonb_build_object('items', jsonb_build_array($1::text::bigint)))`,
		theirs["letter"])
	methods := []string{}
	for _, kind := range []reflect.Type{reflect.TypeFor[Reader](), reflect.TypeFor[Changer]()} {
		for n := range kind.NumMethod() {
			methods = append(methods, kind.Method(n).Name)
		}
	}
	before := m.state()
	for _, scope := range [][]string{{m.mine}, {}} {
		within := m.store().Within(scope)
		known, unknowns := asked(t.Context(), within, within, theirs), asked(t.Context(), within, within, unknown)
		require.ElementsMatch(t, methods, slices.Collect(maps.Keys(known)), "each method is called")
		for name, call := range known {
			got, err := call()
			want, wantErr := unknowns[name]()
			require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err), name)
			gotText := must.Get(json.Marshal(got)).In(t)
			wantText := must.Get(json.Marshal(want)).In(t)
			require.Equal(t, passing.ReplaceAllString(string(wantText), ""), passing.ReplaceAllString(string(gotText), ""),
				name)
			require.NotContains(t, strings.ToLower(string(gotText)), "rival", name)
		}
	}
	require.Equal(t, before, m.state(), "nothing was changed")
	all := m.store()
	for n := range reflect.TypeFor[Reader]().NumMethod() {
		name := reflect.TypeFor[Reader]().Method(n).Name
		got, err := asked(t.Context(), all, all, theirs)[name]()
		require.NoError(t, err, name)
		require.NotEmpty(t, got, "%s of all workspaces finds what %v has", name, theirs["name"])
	}
}

func TestBulkFormsThatNameItemsOfSeveralWorkspacesChangeThoseOfOne(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	theirs := m.other()
	of := func(status string) string {
		return sqltest.Scalar[string](m.Shop, `select id::text from pgdispatch.workflow_execution_queue
			where workspace_id = $1::uuid and status = $2`, m.mine, status)
	}
	forms := []struct{ path, done string }{
		{"/ui/items/selected/retry", "count=1"}, {"/ui/items/selected/cancel", "count=1"},
		{"/ui/dead/discard", "count=1"}, {"/ui/items/selected/replay", "count=0"}, {"/ui/dead/replay", "count=0"},
	}
	items := "?items=" + strings.Join([]string{of("FAILED"), of("PENDING"), of("DISPATCHED"), theirs["letter"],
		theirs["waiting"], theirs["running"]}, ",")
	rivals := func() string { return m.stateOf(theirs["workspace"]) }
	before, all := rivals(), m.state()
	viewer := m.site(signin.Rights{Confined: true, Grants: []signin.Grant{{Workspace: "Mine"}}})
	for _, form := range forms {
		require.Regexp(t, "^403 ", ask(t, viewer, "POST", form.path+items, nil), form.path)
	}
	require.Equal(t, all, m.state(), "a viewer changes nothing")
	for _, operator := range []signin.Rights{
		{Confined: true, Grants: []signin.Grant{{Workspace: "Mine", Operator: true}}},
		{Grants: []signin.Grant{{Workspace: "Mine", Operator: true}}}, // and a viewer of all
	} {
		pages := m.site(operator)
		for n, form := range forms {
			answer := ask(t, pages, "POST", form.path+items, nil)
			require.Regexp(t, "^303 ", answer, form.path)
			if operator.Confined {
				require.Contains(t, answer, form.done, n)
			}
			require.Equal(t, before, rivals(), form.path)
		}
	}
}

func TestALiveStreamOfAWorkspaceIsSilentAboutAnother(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	server := httptest.NewServer(m.site(signin.Rights{Confined: true, Grants: []signin.Grant{{Workspace: "Mine"}}}))
	defer server.Close()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/ui/live", nil)).In(t)
	answer := must.Get(server.Client().Do(request)).In(t)
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	event := func() (text string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "" {
				return text
			}
			text += lines.Text() + "\n"
		}
		require.NoError(t, lines.Err())
		return text
	}
	require.Contains(t, event(), "mine is parked")
	m.other()
	m.Execute("update pgdispatch.parked_items set error = 'mine waits' where error like 'mine%'")
	for later := ""; !strings.Contains(later, "mine waits"); {
		later = event()
		require.NotContains(t, strings.ToLower(later), "rival")
	}
}
