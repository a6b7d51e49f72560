package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
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
		"viewer":   rolesIn("Mine").Rights,
		"operator": granted(strings.ToUpper(m.mine), true),
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
	pages := m.site(granted("Mine", false))
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
	running := m.item(m.mine, "DISPATCHED")
	mine := map[string]string{"workspace": m.mine, "letter": m.item(m.mine, "FAILED"),
		"waiting": m.item(m.mine, "PENDING"), "theirs": theirs["letter"], "waits": theirs["waiting"]}
	pages := m.site(granted("Mine", true))
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
	require.Regexp(t, "^409 ", ask(t, pages, "POST", "/ui/items/"+running+"/resend?signal={signal}", theirs))
	require.Equal(t, int64(2), sqltest.Scalar[int64](m.Shop, "select count(*) from pgdispatch.signals where id <= 900002"))
	require.Regexp(t, "^303 ", ask(t, pages, "POST", "/ui/items/"+running+"/resend?signal=900001", nil))
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
	for range 2 { // within the age of a cached read
		for _, path := range []string{"/ui/", "/ui/live", "/ui/?period=6h", "/ui/items"} {
			require.Contains(t, ask(t, visited(pages, signin.Rights{}), "GET", path, nil), "rival", path)
			for own, other := range map[string]string{"Mine": "rival", "Rival": "mine"} {
				page := strings.ToLower(ask(t, visited(pages, rolesIn(own).Rights), "GET", path, nil))
				require.Contains(t, page, strings.ToLower(own), path)
				require.NotContains(t, page, other, path)
			}
		}
	}
}

// asked are the arguments of each method of Reader and Changer about these values. A word after a method is for another
// call of it. Those of other workspaces are as unknown as values that do not exist.
func asked(of map[string]string) map[string][]any {
	number := func(name string) int64 { n, _ := strconv.ParseInt(of[name], 10, 64); return n }
	workspace, name, execution := of["workspace"], of["name"], of["execution"]
	letter, letters, waiting := number("letter"), []int64{number("letter")}, []int64{number("waiting")}
	workspaces, executions := []string{workspace}, []string{execution}
	return map[string][]any{
		"Overview": {}, "Standing": {}, "QueueDepth": {}, "Plans": {}, "Settings": {},
		"ListWorkspaces":      {name, operate.ByOldest, (*operate.WorkspaceKey)(nil), 10},
		"WorkspacesNamed":     {workspaces, []string{name}, 10},
		"Names":               {operate.NamedWorkspace, name},
		"FindWorkspaces":      {strings.ToUpper(workspace)},
		"ListItems":           {operate.ItemFilter{}, "", workspaces, of["flow"], 10},
		"WorkspacesOf":        {workspaces},
		"Nodes":               {letter},
		"Items":               {letters, executions, true},
		"ItemsNamed":          {executions, true},
		"Failures":            {letter},
		"Signals":             {execution, []string(nil), 10},
		"DeadGroups":          {10},
		"DeadOfKind":          {of["error"], workspaces, (*operate.DeadKey)(nil), 10},
		"SearchDeadLetters":   {operate.DeadFilter{Workspaces: workspaces}, 100, 10},
		"WorkspaceDetail":     {workspace},
		"Definitions":         {workspace, 10},
		"CompleteDefinitions": {workspace, "", 10},
		"CompleteWorkspaces":  {name, 10},
		"CompleteErrors":      {"", 10},
		"EndedItems":          {workspaces},
		"Ahead":               {waiting[0]},
		"KeyLimitsOf":         {workspace, "key"},
		"KeyLimits":           {operate.KeyLimitFilter{WorkspaceID: workspace}, 10},
		"Limits":              {operate.KeyLimitFilter{ID: number("limit")}, 10},
		"FullLimits":          {workspaces, []string{"rival key"}},
		"UnlimitedKeys":       {10},
		"Activity":            {time.Hour},
		"WorkspaceActivity":   {workspace, time.Hour},
		"ChangesOf":           {letter},
		"Audit":               {operate.AuditFilter{Subject: "workspace " + workspace}, 10},
		"Audit items":         {operate.AuditFilter{Subject: "items"}, 10},

		"ChangeWorkspace":  {workspace, operate.Patch{"paused": false}, "workspaces resume", "me"},
		"ChangeSettings":   {operate.Patch{"max_claims": 7}, "me"},
		"CancelItems":      {waiting, "me"},
		"RetryItems":       {waiting, "me"},
		"GiveUpItems":      {waiting, "me"},
		"GiveUpExecutions": {waiting, "me"},
		"RequestStop": {temporal.Stop{Execution: temporal.Execution{ID: of["runs"]}, How: "CANCEL",
			RequestedBy: "me"}},
		"Replay":         {execution, "me"},
		"ReplayAll":      {letters, "me"},
		"Discard":        {letters, "me"},
		"SendSignal":     {of["runs"], "go", "", "me"},
		"ResendSignal":   {number("signal"), "", "me"},
		"SetKeyLimit":    {workspace, "rival key", operate.Patch{"paused": true}, "limits pause", "me"},
		"RemoveKeyLimit": {workspace, "rival key", "me"},
	}
}

// call calls a method of a store. It returns the first result.
func call(ctx context.Context, store *operate.Store, method string, args []any) (any, error) {
	in := []reflect.Value{reflect.ValueOf(ctx)}
	for _, arg := range args {
		in = append(in, reflect.ValueOf(arg))
	}
	out := reflect.ValueOf(store).MethodByName(strings.Fields(method)[0]).Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return out[0].Interface(), err
}

// passing are durations until now.
var passing = regexp.MustCompile(`_ns":[0-9]+`)

func TestAStoreWithinAWorkspaceKnowsAndChangesNothingOfOthers(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	theirs := m.other()
	m.Execute(`insert into pgdispatch.limits (workspace_id, key, max_concurrent)
		values (null, 'key', 1), ($1::uuid, 'key', 1)`, theirs["workspace"])
	m.InsertWith(theirs["workspace"], 1, "run_at", "now() - interval '1 hour'")
	m.InsertWith(theirs["workspace"], 1, "limit_key", "'rival orphan'")
	m.Execute(`insert into pgdispatch.workspace_activity (at, workspace_id, started)
		values (date_bin('5 minutes', now(), 'epoch'), $1::uuid, 7777)`, theirs["workspace"])
	m.Execute(`insert into pgdispatch.signals (execution_id, name) values ($1::uuid, 'rival signal')`, theirs["execution"])
	m.Execute(`insert into pgdispatch.admin_log (who, action, subject, details)
		values ('rival', 'items retry', 'items', jsonb_build_object('items', jsonb_build_array($1::text::bigint)))`,
		theirs["letter"])
	known, unknowns := asked(theirs), asked(unknown)
	for _, kind := range []reflect.Type{reflect.TypeFor[Reader](), reflect.TypeFor[Changer]()} {
		for method := range kind.Methods() {
			require.Contains(t, known, method.Name, "each method is called")
		}
	}
	before := m.state()
	for _, scope := range [][]string{{m.mine}, {}} {
		within := m.store().Within(scope)
		for method, args := range known {
			got, err := call(t.Context(), within, method, args)
			want, wantErr := call(t.Context(), within, method, unknowns[method])
			require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err), method)
			text := func(value any) string {
				return passing.ReplaceAllString(string(must.Get(json.Marshal(value)).In(t)), "")
			}
			require.Equal(t, text(want), text(got), method)
			require.NotContains(t, strings.ToLower(text(got)), "rival", method)
		}
	}
	require.Equal(t, before, m.state(), "nothing was changed")
	for method := range reflect.TypeFor[Reader]().Methods() {
		require.NotEmpty(t, must.Get(call(t.Context(), m.store(), method.Name, known[method.Name])).In(t),
			"%s of all workspaces finds what %v has", method.Name, theirs["name"])
	}
}

func TestBulkFormsThatNameItemsOfSeveralWorkspacesChangeThoseOfOne(t *testing.T) {
	t.Parallel()
	m := newTenants(t)
	theirs := m.other()
	forms := []struct{ path, done string }{
		{"/ui/items/selected/retry", "count=1"}, {"/ui/items/selected/cancel", "count=1"},
		{"/ui/dead/discard", "count=1"}, {"/ui/items/selected/replay", "count=0"}, {"/ui/dead/replay", "count=0"},
	}
	items := "?items=" + strings.Join([]string{m.item(m.mine, "FAILED"), m.item(m.mine, "PENDING"),
		m.item(m.mine, "DISPATCHED"), theirs["letter"], theirs["waiting"], theirs["running"]}, ",")
	rivals := func() string { return m.stateOf(theirs["workspace"]) }
	before, all := rivals(), m.state()
	viewer := m.site(rolesIn("Mine").Rights)
	for _, form := range forms {
		require.Regexp(t, "^403 ", ask(t, viewer, "POST", form.path+items, nil), form.path)
	}
	require.Equal(t, all, m.state(), "a viewer changes nothing")
	for _, operator := range []signin.Rights{
		granted("Mine", true),
		granted("Mine", false), // and a viewer of all
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
	answer := opened(t, m.site(rolesIn("Mine").Rights), "/ui/live")
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
