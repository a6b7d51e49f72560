package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

// toldOf is the call by which the web view makes a change.
func toldOf(command string, patch operate.Patch) string {
	asked, _ := json.Marshal(patch)
	return fmt.Sprintf("%s by web: %s", command, asked)
}

// forms lists all forms: path, fields, resulting call, and the page that the browser is redirected to.
var forms = []struct {
	path       string
	form       url.Values
	call, then string
}{
	{"/ui/workspaces/" + id + "/pause", nil,
		toldOf("workspaces pause", operate.Patch{"paused": true}), "/ui/workspaces/" + id + "?done=changed"},
	{"/ui/workspaces/" + id + "/resume", nil,
		toldOf("workspaces resume", operate.Patch{"paused": false}), "/ui/workspaces/" + id + "?done=changed"},
	{"/ui/workspaces/" + id + "/plan", url.Values{"plan": {"PRO"}},
		toldOf("workspaces set-plan", operate.Patch{"plan": "PRO"}),
		"/ui/workspaces/" + id + "?done=changed"},
	{"/ui/workspaces/" + id + "/limit", url.Values{"limit": {"12"}},
		toldOf("workspaces set-limit", operate.Patch{"max_concurrent_workflows": 12}),
		"/ui/workspaces/" + id + "?done=changed"},
	{"/ui/workspaces/" + id + "/limit", url.Values{"limit": {""}},
		toldOf("workspaces set-limit", operate.Patch{"max_concurrent_workflows": nil}),
		"/ui/workspaces/" + id + "?done=changed"},
	{"/ui/workspaces/" + id + "/burst", url.Values{"burst": {"12"}},
		toldOf("workspaces set-burst", operate.Patch{"max_burst_workflows": 12}),
		"/ui/workspaces/" + id + "?done=changed"},
	{"/ui/workspaces/" + id + "/burst", url.Values{"burst": {""}},
		toldOf("workspaces set-burst", operate.Patch{"max_burst_workflows": nil}),
		"/ui/workspaces/" + id + "?done=changed"},
	{"/ui/workspaces/" + id + "/rate", url.Values{"rate": {"0.5"}},
		toldOf("workspaces set-rate", operate.Patch{"max_starts_per_second": 0.5}),
		"/ui/workspaces/" + id + "?done=changed"},
	{"/ui/workspaces/" + id + "/rate", url.Values{"rate": {""}},
		toldOf("workspaces set-rate", operate.Patch{"max_starts_per_second": nil}),
		"/ui/workspaces/" + id + "?done=changed"},
	{"/ui/items/8/cancel", nil, "cancel [8] by web", "/ui/items/8?done=cancelled"},
	{"/ui/items/8/retry", nil, "retry [8] by web", "/ui/items/8?done=retried"},
	{"/ui/items/8/request-cancel", url.Values{"reason": {"too slow"}}, `CANCEL "too slow" by web`,
		"/ui/items/8?done=requested"},
	{"/ui/items/8/terminate", url.Values{"reason": {""}}, `TERMINATE "" by web`, "/ui/items/8?done=requested"},
	{"/ui/items/8/replay", nil, "replay by web", "/ui/items/8?done=replayed"},
	{"/ui/items/8/discard", nil, "discard [8] by web", "/ui/items/8?done=discarded"},
	{"/ui/items/8/resend", url.Values{"signal": {"5"}}, "resend 5 of " + id[:4] + " by web", "/ui/items/8?done=resent"},
	{"/ui/items/8/signal", url.Values{"signal": {"hurry"}, "payload": {`{"by": 1}`}},
		"signal " + id[:4] + ` "hurry" {"by": 1} by web`, "/ui/items/8?done=sent"},
	{"/ui/dead/replay", url.Values{"items": {"8,7,8"}, "back": {"dead/letters?error=card"}}, "replay [7 8] by web",
		"/ui/dead/letters?count=2&done=replay&error=card&left=0"},
	{"/ui/dead/discard", url.Values{"items": {"8"}, "back": {"//evil.example"}}, "discard [8] by web",
		"/ui/items?count=1&done=discard&left=0"},
	{"/ui/settings/pause", nil, `settings set by web: {"paused":true}`, "/ui/settings?done=changed"},
	{"/ui/settings/resume", nil, `settings set by web: {"paused":false}`, "/ui/settings?done=changed"},
	{"/ui/settings/max-claims", url.Values{"max-claims": {"50"}}, `settings set by web: {"max_claims":50}`,
		"/ui/settings?done=changed"},
}

func TestFormsDoWhatTheCommandLineDoes(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		b := newBrowser(t)
		code, then := b.post(form.path, form.form)
		require.Equal(t, []string{form.call}, b.change.calls, form.path)
		require.Equal(t, 303, code, form.path)
		require.Equal(t, form.then, then)
		code, text := b.get(then)
		require.Equal(t, 200, code)
		require.Contains(t, text, `<p class="done" role="status">`, "the page confirms the action")
	}
}

func TestWhoLooksOnlyChangesNothingAndIsOfferedNothing(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		b := newBrowser(t)
		if form.form == nil {
			form.form = url.Values{}
		}
		answer := b.ask(b.site().Handler(), form.path, form.form)
		require.Equal(t, 403, answer.Code, form.path)
		require.Contains(t, answer.Body.String(), "PGDISPATCH_ADMIN_TOKEN")
		require.Empty(t, b.change.calls)
	}
	for _, path := range append(paths, "/ui/items/8/discard", "/ui/dead/replay", "/ui/settings/pause") {
		b := newBrowser(t)
		answer := b.ask(b.site().Handler(), path, nil)
		require.Contains(t, []int{200, 403}, answer.Code, path)
		text := answer.Body.String()
		require.NotContains(t, text, `method="post"`, path)
		require.NotContains(t, text, `name="act"`, path)
	}
	for _, path := range []string{"/ui/workspaces/" + id, "/ui/items/8", "/ui/dead/letters", "/ui/settings"} {
		b := newBrowser(t)
		require.Contains(t, b.ask(b.site().Handler(), path, nil).Body.String(), "Read-only. To act", path)
	}
}

func TestAnotherSitesFormsAreRefused(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{
		"Sec-Fetch-Site of browsers":   {"Sec-Fetch-Site": {"cross-site"}},
		"from a sibling of the domain": {"Sec-Fetch-Site": {"same-site"}},
		"Origin of old browsers":       {"Origin": {"https://evil.example"}},
		"from nowhere":                 {"Origin": {"null"}},
		"same host on another port":    {"Origin": {"http://localhost:81"}},
	} {
		for _, form := range forms {
			b := newBrowser(t)
			b.header = header
			code, text := b.post(form.path, form.form)
			require.Equal(t, 403, code, "%s: %s", name, form.path)
			require.Contains(t, text, "the request came from another site")
			require.Empty(t, b.change.calls)
		}
	}
	for _, header := range []http.Header{{}, {"Origin": {"http://localhost"}}, {"Sec-Fetch-Site": {"none"}}} {
		b := newBrowser(t)
		b.header = header
		code, _ := b.post("/ui/settings/resume", nil)
		require.Equal(t, 303, code, "%v: curl, an old browser, or a typed address", header)
	}
}

func TestAnAddressAloneChangesNothing(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		b := newBrowser(t)
		b.get(form.path + "?" + form.form.Encode())
		require.Empty(t, b.change.calls, form.path)
		if form.form != nil && !form.form.Has("reason") {
			code, _ := b.post(form.path+"?"+form.form.Encode(), nil)
			require.Contains(t, []int{400, 422}, code, "%s: the form ignores the query string", form.path)
			require.Empty(t, b.change.calls, form.path)
		}
	}
}

func TestWhoDidItIsTheNameThatCameWithTheToken(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"anna": "anna (web)", "": "web",
		strings.Repeat("ä", 194): strings.Repeat("ä", 194) + " (web)"} {
		b := newBrowser(t).as(name)
		code, _ := b.post("/ui/settings/resume", nil)
		require.Equal(t, 303, code)
		require.Equal(t, []string{"settings set by " + want + `: {"paused":false}`}, b.change.calls)
	}
	for _, name := range []string{strings.Repeat("ä", 195), "a\nb", "\xff", "\x00"} {
		b := newBrowser(t).as(name)
		code, text := b.post("/ui/settings/resume", nil)
		require.Equal(t, 400, code)
		require.Contains(t, text, "Sign in with a name of at most 194 characters")
		require.Empty(t, b.change.calls)
	}
}

func TestWhatWasTypedWrongIsKeptAndExplained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, field, typed, want string }{
		{"/ui/workspaces/" + id + "/limit", "limit", hostile, "must be plan or a whole number from 0 to 100000"},
		{"/ui/workspaces/" + id + "/limit", "limit", "-1", "must be plan or a whole number"},
		{"/ui/workspaces/" + id + "/burst", "burst", "lots", "must be plan or a whole number from 0 to 100000"},
		{"/ui/workspaces/" + id + "/rate", "rate", "NaN", "must be off, or from 0.0001 to 100000 starts per second"},
		{"/ui/workspaces/" + id + "/plan", "plan", hostile, "use FREE, PRO, or insert it"},
		{"/ui/settings/max-claims", "max-claims", "0",
			"must be a whole number from 1 to 100000. To stop all starts, pause everything"},
		{"/ui/items/8/request-cancel", "reason", "a\x07b", "at most 500 characters"},
		{"/ui/items/8/terminate", "reason", strings.Repeat("x", 501), "at most 500 characters"},
	} {
		b := newBrowser(t)
		b.read.status8 = "DISPATCHED"
		code, text := b.post(c.path, url.Values{c.field: {c.typed}})
		require.Equal(t, 422, code, c.path)
		require.Contains(t, text, `role="alert">Nothing was changed: `, c.path)
		require.Contains(t, text, c.want)
		require.Empty(t, b.change.calls)
		require.NotContains(t, text, "<script>alert")
		if c.field != "plan" && c.typed != "a\x07b" {
			typed := strings.NewReplacer(`"`, "&#34;", "<", "&lt;", ">", "&gt;").Replace(c.typed)
			require.Contains(t, text, `value="`+typed, c.path)
		}
	}
	b := newBrowser(t)
	code, _ := b.post("/ui/workspaces/"+id+"/limit", url.Values{})
	require.Equal(t, 422, code, "a missing field is not an empty one")
}

func TestAFormThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	code, text := b.post("/ui/dead/replay", url.Values{"items": {strings.Repeat("1,", maxBody)}})
	require.Equal(t, 413, code)
	require.Contains(t, text, "Choose fewer items")
	for _, items := range []string{"", "8,", "0", "x", "8;7", strings.Repeat("9,", bulkMost) + "9"} {
		code, text := b.post("/ui/dead/replay", url.Values{"items": {items}})
		require.Equal(t, 400, code)
		require.Contains(t, text, "items must be 1 to 5,000 item numbers")
	}
	require.Empty(t, b.change.calls)
}

func TestWherePostgresRefusesThePageSaysWhichSettingToMake(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		b := newBrowser(t)
		b.change.err = errForbidden
		code, text := b.post(form.path, form.form)
		require.Equal(t, 403, code, form.path)
		require.Contains(t, text, "PGDISPATCH_OPERATOR_DATABASE_URL")
		require.NotContains(t, text, "permission denied")

		b = newBrowser(t)
		b.change.err = errAway
		code, text = b.post(form.path, form.form)
		require.Equal(t, 503, code, form.path)
		require.NotContains(t, text, "bob")
	}
}

func TestOnlyWhatIsPossibleIsOffered(t *testing.T) {
	t.Parallel()
	button := regexp.MustCompile(`/ui/items/8/([a-z-]+)"`)
	for name, c := range map[string]struct {
		item operate.Item
		want []string
	}{
		"waits": {operate.Item{Status: "PENDING"}, []string{"cancel"}},
		"waits until it is due": {operate.Item{Status: "PENDING", DueIn: time.Minute},
			[]string{"retry", "cancel"}},
		"may be running": {operate.Item{Status: "PENDING", Unanswered: true},
			[]string{"request-cancel", "terminate"}},
		"is being started":  {operate.Item{Status: "CLAIMED"}, []string{"request-cancel", "terminate"}},
		"runs":              {operate.Item{Status: "DISPATCHED"}, []string{"request-cancel", "terminate"}},
		"runs, cancelled":   {operate.Item{Status: "DISPATCHED", Stop: "CANCEL"}, []string{"terminate"}},
		"runs, terminated":  {operate.Item{Status: "DISPATCHED", Stop: "TERMINATE"}, nil},
		"failed":            {operate.Item{Status: "FAILED", State: "OPEN"}, []string{"replay", "discard"}},
		"failed, discarded": {operate.Item{Status: "FAILED", State: "DISCARDED"}, []string{"replay"}},
		"failed, replayed":  {operate.Item{Status: "FAILED", State: "REPLAYED"}, nil},
		"completed":         {operate.Item{Status: "COMPLETED"}, nil},
		"was withdrawn":     {operate.Item{Status: "CANCELLED"}, nil},
	} {
		b := newBrowser(t)
		c.item.ID = 8
		b.read.item = &c.item
		code, text := b.get("/ui/items/8")
		require.Equal(t, 200, code)
		var got []string
		for _, found := range button.FindAllStringSubmatch(text, -1) {
			if found[1] != "params" && found[1] != "signal" { // not beside the title
				got = append(got, found[1])
			}
		}
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.want == nil, strings.Contains(text, "No actions: this item is final."), name)
	}
}

func TestAnItemThatHasMovedOnIsShownAsItIs(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"cancel", "retry", "request-cancel", "terminate", "replay", "discard"} {
		b := newBrowser(t)
		b.read.status8, b.change.late = "COMPLETED", true
		code, text := b.post("/ui/items/8/"+verb, nil)
		require.Equal(t, 409, code, verb)
		require.Contains(t, text, "Nothing was changed: item 8 is now COMPLETED")
	}
	for _, page := range []string{"terminate", "discard"} {
		b := newBrowser(t)
		b.read.status8 = "COMPLETED"
		code, text := b.get("/ui/items/8/" + page)
		require.Equal(t, 409, code, page)
		require.Contains(t, text, "item 8 is now COMPLETED", "the page asks for no confirmation")
	}
	b := newBrowser(t)
	code, _ := b.post("/ui/items/9/cancel", nil)
	require.Equal(t, 404, code)
	b.change.late = true
	_, then := b.post("/ui/workspaces/"+id+"/pause", nil)
	require.Contains(t, then, "done=same")
}

func TestWhatIsNotUndoneAsksFirst(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.read.status8 = "DISPATCHED"
	for path, want := range map[string]string{
		"/ui/items/8/terminate": `action="/ui/items/8/terminate"`, "/ui/settings/pause": `action="/ui/settings/pause"`,
		"/ui/dead/replay": `action="/ui/dead/replay"`, "/ui/dead/discard?error=card": `action="/ui/dead/discard"`,
	} {
		code, text := b.get(path)
		require.Equal(t, 200, code, path)
		require.Contains(t, text, want)
		require.Contains(t, text, "Back without changes")
	}
	b.read.status8 = ""
	_, text := b.get("/ui/items/8/discard")
	require.Contains(t, text, `action="/ui/items/8/discard"`)
	require.Empty(t, b.change.calls)
}

func TestASearchThatTakesTooLongSaysHowToNarrowIt(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.header.Del("Accept") // a browser gets the top of the page before the search
	b.read.err = fmt.Errorf("find dead letters: %w", &pgconn.PgError{Code: "57014"})
	for _, path := range []string{"/ui/dead/letters?error=card", "/ui/dead/replay?error=card"} {
		code, text := b.get(path)
		require.Equal(t, 503, code)
		require.Contains(t, text, "Choose a shorter time")
	}
}

func TestWhatAnAddressSaysWasDoneIsNotShown(t *testing.T) {
	t.Parallel()
	_, text := newBrowser(t).get("/ui/settings?done=" + url.QueryEscape("Send your token to evil.example"))
	require.NotContains(t, text, "evil.example")
	require.NotContains(t, text, `class="done"`)
}
