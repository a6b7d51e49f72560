package web

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/signin"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// walked are the requests of each route, with placeholders for what belongs to another workspace. A form follows "?".
var walked = map[string][]string{
	"/ui/":         {"/ui/elsewhere/{workspace}"},
	"GET /ui/{$}":  {"/ui/", "/ui/?period=24h"},
	"GET /ui/live": {"/ui/live", "/ui/live?period=6h"},
	"GET /ui/workspaces": {"/ui/workspaces?q={name}", "/ui/workspaces?q={workspace}", "/ui/workspaces?sort=running",
		"/ui/workspaces?sort=failures", "/ui/workspaces?sort=name"},
	"GET /ui/workspaces/{id}": {"/ui/workspaces/{workspace}"},
	"GET /ui/items": {"/ui/items", "/ui/items?workspace={name}", "/ui/items?workspace={workspace}",
		"/ui/items?definition={definition}", "/ui/items?definition={flow}", "/ui/items?error={error}",
		"/ui/items?status=FAILED", "/ui/items?status=PENDING", "/ui/items?status=CLAIMED", "/ui/items?status=DISPATCHED",
		"/ui/items?status=UNANSWERED", "/ui/items?status=UNCERTAIN", "/ui/items?status=MISSING",
		"/ui/items?workspace={workspace}&definition={definition}&status=PENDING",
		"/ui/items?filter=workspace:{name}+status:failed", "/ui/items?filter=nothing:{name}", "/ui/items?until=1ns"},
	"GET /ui/items/{id}":        {"/ui/items/{letter}", "/ui/items/{execution}", "/ui/items/execution-{execution}"},
	"GET /ui/items/{id}/params": {"/ui/items/{letter}/params", "/ui/items/{execution}/params"},
	"GET /ui/items/selected": {"/ui/items/selected?do=cancel&item={waiting}",
		"/ui/items/selected?do=replay&item={letter}"},
	"GET /ui/items/{id}/terminate": {"/ui/items/{running}/terminate"},
	"GET /ui/items/{id}/discard":   {"/ui/items/{letter}/discard"},
	"GET /ui/items/{id}/give-up":   {"/ui/items/{waiting}/give-up"},
	"GET /ui/dead":                 {"/ui/dead"},
	"GET /ui/dead/letters": {"/ui/dead/letters", "/ui/dead/letters?workspace={name}",
		"/ui/dead/letters?definition={flow}", "/ui/dead/letters?error={error}", "/ui/dead/letters?kind={error}",
		"/ui/dead/letters?filter=workspace:{name}"},
	"GET /ui/dead/replay":  {"/ui/dead/replay", "/ui/dead/replay?workspace={workspace}", "/ui/dead/replay?kind={error}"},
	"GET /ui/dead/discard": {"/ui/dead/discard", "/ui/dead/discard?error={error}"},
	"GET /ui/limits": {"/ui/limits", "/ui/limits?key={error}", "/ui/limits?workspace={name}",
		"/ui/limits?after=0"},
	"GET /ui/limits.json":        {"/ui/limits.json", "/ui/limits.json?workspace={workspace}"},
	"GET /ui/limits/{id}/remove": {"/ui/limits/{limit}/remove"},
	"GET /ui/settings":           {"/ui/settings"},
	"GET /ui/settings/pause":     {"/ui/settings/pause"},
	"GET /ui/static/":            {staticPath + "style.css"},
	"GET /ui/suggest": {"/ui/suggest?of=workspace&q={name}", "/ui/suggest?of=workspace&q=",
		"/ui/suggest?of=definition&workspace={name}", "/ui/suggest?of=definition&workspace={workspace}",
		"/ui/suggest?of=error&q=", "/ui/suggest?of=error&q={error}", "/ui/suggest?of=status&q=", "/ui/suggest?of=since&q="},
	"POST /ui/":                       {"/ui/anything?"},
	"POST /ui/workspaces/{id}/pause":  {"/ui/workspaces/{workspace}/pause?"},
	"POST /ui/workspaces/{id}/resume": {"/ui/workspaces/{workspace}/resume?"},
	"POST /ui/workspaces/{id}/plan": {"/ui/workspaces/{workspace}/plan?plan=PRO",
		"/ui/workspaces/{workspace}/plan?plan=x"},
	"POST /ui/workspaces/{id}/limit": {"/ui/workspaces/{workspace}/limit?limit=1",
		"/ui/workspaces/{workspace}/limit?limit=x"},
	"POST /ui/workspaces/{id}/burst": {"/ui/workspaces/{workspace}/burst?burst=1"},
	"POST /ui/workspaces/{id}/rate":  {"/ui/workspaces/{workspace}/rate?rate=1"},
	"POST /ui/items/{id}/cancel":     {"/ui/items/{waiting}/cancel?"},
	"POST /ui/items/{id}/retry":      {"/ui/items/{waiting}/retry?"},
	"POST /ui/items/{id}/replay":     {"/ui/items/{letter}/replay?", "/ui/items/{execution}/replay?"},
	"POST /ui/items/{id}/discard":    {"/ui/items/{letter}/discard?"},
	"POST /ui/items/{id}/give-up":    {"/ui/items/{waiting}/give-up?"},
	"POST /ui/items/{id}/resend":     {"/ui/items/{running}/resend?signal={signal}"},
	"POST /ui/items/selected/cancel": {"/ui/items/selected/cancel?items={waiting},{running}"},
	"POST /ui/items/selected/retry":  {"/ui/items/selected/retry?items={waiting},{running}"},
	"POST /ui/items/{id}/signal": {"/ui/items/{running}/signal?signal=go",
		"/ui/items/{running}/signal?signal="},
	"GET /ui/find": {"/ui/find?q={letter}", "/ui/find?q={execution}",
		"/ui/find?q={name}", "/ui/find?q={workspace}"},
	"POST /ui/items/selected/give-up": {"/ui/items/selected/give-up?items={waiting},{running}"},
	"POST /ui/items/selected/discard": {"/ui/items/selected/discard?items={letter},{running}"},
	"POST /ui/items/selected/replay":  {"/ui/items/selected/replay?items={letter},{running}"},
	"POST /ui/items/{id}/terminate":   {"/ui/items/{running}/terminate?", "/ui/items/{running}/terminate?reason=%00"},
	"POST /ui/dead/replay":            {"/ui/dead/replay?items={letter},{waiting}"},
	"POST /ui/dead/discard":           {"/ui/dead/discard?items={letter},{waiting}"},
	"POST /ui/limits/{id}/pause":      {"/ui/limits/{limit}/pause?"},
	"POST /ui/limits/{id}/resume":     {"/ui/limits/{limit}/resume?"},
	"POST /ui/limits/{id}/remove":     {"/ui/limits/{limit}/remove?"},
	"POST /ui/limits/set": {"/ui/limits/set?key=k&max=1&workspace={name}",
		"/ui/limits/set?key=k&max=1&workspace={workspace}",
		"/ui/limits/set?key=k&max=1&workspace=", "/ui/limits/set?key=&max=x"},
	"POST /ui/settings/pause":      {"/ui/settings/pause?"},
	"POST /ui/settings/resume":     {"/ui/settings/resume?"},
	"POST /ui/settings/max-claims": {"/ui/settings/max-claims?max-claims=1", "/ui/settings/max-claims?max-claims=x"},
	"POST /ui/items/{id}/request-cancel": {"/ui/items/{running}/request-cancel?", "/ui/items/{waiting}/request-cancel?",
		"/ui/items/{running}/request-cancel?reason=%00"},
}

// unknown are the placeholders' values that belong to nobody.
var unknown = map[string]string{"workspace": "99999999-0000-4000-8000-000000000001", "name": "Nobody",
	"definition": "99999999-0000-4000-8000-000000000002", "flow": "nobodyflow", "error": "nobody-failed",
	"letter": "800001", "waiting": "800002", "running": "800003",
	"signal": "800004", "limit": "800005", "execution": "99999999-0000-4000-8000-000000000003",
	"runs": "99999999-0000-4000-8000-000000000004"}

func TestTheWalkVisitsEveryRoute(t *testing.T) {
	t.Parallel()
	v := visit{&Site{}, acting{}}
	all := maps.Clone(v.readRoutes())
	maps.Copy(all, v.actRoutes())
	require.ElementsMatch(t, slices.Collect(maps.Keys(all)), slices.Collect(maps.Keys(walked)),
		"a new route is walked as a visitor of another workspace")
}

// tenants is a database with a workspace of the visitor, and of another.
type tenants struct {
	*storetest.Bench
	t    testing.TB
	mine string
}

func newTenants(t testing.TB) *tenants {
	b := storetest.New(t)
	b.Store.Lease = time.Hour // nothing expires on a slow machine
	b.Alive()
	b.Execute(`select setval(pg_get_serial_sequence('pgdispatch.workflow_execution_queue', 'id'), 700000)`)
	b.Execute(`select setval(pg_get_serial_sequence('pgdispatch.signals', 'id'), 900000)`)
	b.Execute(`select setval(pg_get_serial_sequence('pgdispatch.limits', 'id'), 600000)`)
	m := &tenants{b, t, b.NewWorkspace("Mine", 20)}
	m.fill(m.mine, "mine")
	return m
}

// fill gives a workspace items in each state, whose texts all contain mark, and changes.
func (m *tenants) fill(workspace, mark string) {
	m.t.Helper()
	m.Execute("update pgdispatch.workflow_definitions set name = $2 || 'flow' where workspace_id = $1::uuid", workspace,
		mark)
	for _, verb := range []claim.Verb{claim.Fail, claim.Dispatched, claim.Release} {
		m.InsertWith(workspace, 1, "params, idempotency_key", "jsonb_build_object('of', $3::text), $3 || $4", mark,
			fmt.Sprint(verb))
		claimed := []claim.Item{}
		for len(claimed) < 1 {
			claimed = must.Get(m.Claim(m.t.Context(), 1)).In(m.t).Items
		}
		if verb != claim.Release { // that one stays claimed
			m.Ends(verb, claim.Settlement{ID: claimed[0].ID, Token: claimed[0].Token, Error: mark + "-failed",
				RunID: mark + "-run"})
		}
	}
	m.Execute(`insert into pgdispatch.stalls (kind, namespace, name, executions, detail)
		select 'EXECUTION', '', id::text, 1, $2 from pgdispatch.workflow_executions
		where workspace_id = $1::uuid and status = 'RUNNING'`, workspace, mark+" panics")
	m.Execute(`insert into pgdispatch.signals (execution_id, name, state, settled_at, error)
		select id, $2 || ' signal', 'GIVEN_UP', now(), $2 from pgdispatch.workflow_executions
		where workspace_id = $1::uuid and status = 'RUNNING'`, workspace, mark)
	m.Insert(workspace, 1)
	m.Execute(`insert into pgdispatch.parked_items (item_id, error, attempts, try_at)
		select id, $2, attempt_count, now() + interval '1 year' from pgdispatch.workflow_execution_queue
		where workspace_id = $1::uuid and status = 'PENDING'`, workspace, mark+" is parked")
	m.Execute("insert into pgdispatch.limits (workspace_id, key, max_concurrent) values ($1, $2 || ' key', 3)", workspace,
		mark)
	must.Get(m.ChangeWorkspace(m.t.Context(), workspace, operate.Patch{"paused": true}, "workspaces pause", mark)).In(m.t)
}

// other adds another workspace, and returns the values of the placeholders.
func (m *tenants) other() map[string]string {
	m.t.Helper()
	id := m.NewWorkspace("Rival", 20)
	m.fill(id, "rival")
	m.Execute("insert into pgdispatch.stalls values ('TASK_QUEUE', '', 'rivals', 4, 'no poller')")
	m.Execute("insert into pgdispatch.activity (minute, started) values (date_trunc('minute', now()), 77)")
	m.Execute("insert into pgdispatch.limits (key, max_concurrent) values ('rival key', 0)")
	one := func(query string) string { return sqltest.Scalar[string](m.Shop, query, id) }
	return map[string]string{"workspace": id, "name": "Rival", "flow": "rivalflow", "error": "rival-failed",
		"definition": one("select id::text from pgdispatch.workflow_definitions where workspace_id = $1::uuid"),
		"letter":     m.item(id, "FAILED"), "waiting": m.item(id, "PENDING"), "running": m.item(id, "DISPATCHED"),
		"limit":  one("select id::text from pgdispatch.limits where workspace_id = $1::uuid"),
		"signal": one("select max(id)::text from pgdispatch.signals where $1::text <> ''"),
		"runs": one(`select execution_id::text from pgdispatch.workflow_execution_queue
			where workspace_id = $1::uuid and status = 'DISPATCHED'`),
		"execution": one(`select execution_id::text from pgdispatch.workflow_execution_queue
			where workspace_id = $1::uuid and status = 'FAILED'`)}
}

// item returns the ID of a workspace's item with a status.
func (m *tenants) item(workspace, status string) string {
	return sqltest.Scalar[string](m.Shop, `select id::text from pgdispatch.workflow_execution_queue
		where workspace_id = $1::uuid and status = $2`, workspace, status)
}

// store is that of all workspaces.
func (m *tenants) store() *operate.Store { return &operate.Store{DB: m.Conns} }

func (m *tenants) pages() *Site {
	site := New(m.store(), m.store())
	site.Log = slog.New(slog.DiscardHandler)
	return site
}

// site is the pages as visitors with these rights see them, with nothing read before.
func (m *tenants) site(rights signin.Rights) http.Handler {
	return visited(m.pages().Acting(), rights)
}

// visited is pages as visitors with these rights see them.
func visited(pages http.Handler, rights signin.Rights) http.Handler {
	visitor := signin.Visitor{Name: "anna", Via: "proxy", Rights: rights}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(signin.With(r.Context(), visitor)))
	})
}

// first is a recorder of a stream's first event.
type first struct {
	*httptest.ResponseRecorder
	stop context.CancelFunc
}

func (f first) Flush() { f.stop() }

// ages are times and durations, which differ from request to request.
var ages = regexp.MustCompile(`<time[^>]*>[^<]*</time>|[0-9.]+ (ms|s|min|h)\b( [0-9]+ (ms|s|min)\b)?`)

// ask sends a request of walked with these values, and returns the answer without values and ages.
func ask(t testing.TB, pages http.Handler, pattern, path string, values map[string]string) string {
	t.Helper()
	method, _, _ := strings.Cut(pattern, " ")
	if strings.HasPrefix(method, "/") {
		method = http.MethodGet
	}
	replace, back := []string{}, []string{}
	for name, value := range values {
		replace = append(replace, "{"+name+"}", strings.ReplaceAll(value, " ", "+"))
		back = append(back, value, "{"+name+"}", strings.ReplaceAll(value, " ", "+"), "{"+name+"}")
	}
	target, form, _ := strings.Cut(strings.NewReplacer(replace...).Replace(path), "?")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := httptest.NewRequest(method, "http://localhost"+target, strings.NewReader(form))
	request.URL.RawQuery = form
	if method == http.MethodPost {
		request.URL.RawQuery = ""
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	answer := first{httptest.NewRecorder(), cancel}
	pages.ServeHTTP(answer, request.WithContext(ctx))
	require.NotEqual(t, http.StatusServiceUnavailable, answer.Code, "%s %s", pattern, path)
	text := fmt.Sprint(answer.Code, " ", answer.Header(), "\n", answer.Body)
	return ages.ReplaceAllString(strings.NewReplacer(back...).Replace(text), "…")
}
