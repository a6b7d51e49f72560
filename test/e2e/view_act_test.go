package e2e

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

const adminToken, viewToken = "0123456789abcdef", "fedcba9876543210"

// asks sends a request to the replica with a password; with a form it is a POST. A redirect is not followed: its target
// is the text.
func (p *replica) asks(password, path string, form url.Values, headers ...string) (int, string) {
	p.t.Helper()
	request, err := http.NewRequest("GET", p.admin()+path, nil)
	if form != nil {
		request, err = http.NewRequest("POST", p.admin()+path, strings.NewReader(form.Encode()))
	}
	require.NoError(p.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("anna", password)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	if response.StatusCode == http.StatusSeeOther {
		return response.StatusCode, response.Header.Get("Location")
	}
	return response.StatusCode, string(text)
}

// The replicas have the dispatcher's role, as recommended; only one has another role for the changes made on its pages.
func TestWhoSendsTheAdminTokenActsFromThePages(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	replicas := *s
	replicas.url = sqltest.Login(t, s.url, "in role pgdispatch_dispatcher")
	tokens := []string{anyPort, "PGDISPATCH_ADMIN_TOKEN=" + adminToken, "PGDISPATCH_VIEW_TOKEN=" + viewToken}
	weak := replicas.replica(tokens...).ready()
	strong := replicas.replica(
		append(tokens, "PGDISPATCH_OPERATOR_DATABASE_URL="+sqltest.Login(t, s.url, "in role pgdispatch_operator"))...).ready()
	page := "/ui/workspaces/" + s.workspace["PRO"]
	paused := func() bool {
		return one[bool](s, "select paused from pgdispatch.workspaces where id = $1", s.workspace["PRO"])
	}

	for name, c := range map[string]struct {
		replica        *replica
		password       string
		header         string
		code           int
		what, whatLogs string
	}{
		"no token":       {strong, "", "A: b", 401, "PGDISPATCH_ADMIN_TOKEN", ""},
		"the view token": {strong, viewToken, "A: b", 403, "these pages are read-only", ""},
		"another site":   {strong, adminToken, "Sec-Fetch-Site: cross-site", 403, "the request came from another site", ""},
		"the weak replica": {weak, adminToken, "A: b", 403, "PGDISPATCH_OPERATOR_DATABASE_URL",
			"Postgres denied a change in the web view"},
	} {
		code, text := c.replica.asks(c.password, page+"/pause", url.Values{}, c.header)
		require.Equal(t, c.code, code, name)
		require.Contains(t, text, c.what, name)
		require.False(t, paused(), name)
		s.eventually(func() bool { return c.whatLogs == "" || c.replica.has(c.whatLogs) }, name)
	}
	require.Zero(t, one[int](s, "select count(*) from pgdispatch.admin_log"))
	code, text := weak.asks(viewToken, page, nil)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, 1, strings.Count(text, `method="post"`), "the only form signs out")

	strong.actsFromThePages(s, page, paused)
}

// actsFromThePages pauses a workspace, replays one dead letter, discards another, and checks the audit.
func (p *replica) actsFromThePages(s *stack, page string, paused func() bool) {
	t := p.t
	t.Helper()
	failed := s.enqueue("FREE", "Fail", 2)
	s.eventually(func() bool {
		return s.statusOf(failed[0]) == "FAILED" && s.statusOf(failed[1]) == "FAILED"
	}, "both items fail")
	code, text := p.asks(adminToken, page+"/pause", url.Values{}, "Sec-Fetch-Site: same-origin")
	require.Equal(t, http.StatusSeeOther, code, text)
	require.Equal(t, page+"?done=changed", text)
	require.True(t, paused())
	code, text = p.asks(adminToken, "/ui/items/"+failed[0], nil)
	require.Equal(t, http.StatusOK, code)
	replay := regexp.MustCompile(`/ui/items/\d+/replay`).FindString(text)
	code, text = p.asks(adminToken, replay, url.Values{})
	require.Equal(t, http.StatusSeeOther, code, text)

	code, text = p.asks(adminToken, "/ui/dead/discard?workspace=FREE", nil)
	require.Equal(t, http.StatusOK, code)
	items := regexp.MustCompile(`name="items" value="([0-9,]+)"`).FindStringSubmatch(text)
	require.NotNil(t, items, text)
	other := one[string](s, "select id::text from pgdispatch.workflow_execution_queue where execution_id = $1", failed[1])
	require.Contains(t, strings.Split(items[1], ","), other) // perhaps with the replay, which fails, too
	code, text = p.asks(adminToken, "/ui/dead/discard", url.Values{"items": {other}})
	require.Equal(t, http.StatusSeeOther, code)
	require.Equal(t, "/ui/items?count=1&done=discard&left=0", text)

	changes, err := (&operate.Store{DB: s.db}).Audit(t.Context(), operate.AuditFilter{Who: "anna (web)"}, 10)
	require.NoError(t, err)
	actions := []string{}
	for _, c := range changes {
		actions = append(actions, c.Action)
	}
	require.Equal(t, []string{"dead discard", "dead replay", "workspaces pause"}, actions)
	code, text = p.asks(viewToken, page, nil)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "anna (web)")
	require.Contains(t, text, "paused: no → yes")
	s.eventually(func() bool { return p.has("Changed in the web view") }, "the change is logged")
}
