package web

import (
	"cmp"
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

// forms lists all forms: path, fields, resulting call, and the page that the browser is redirected to, which is by
// default the workspace's.
var forms = []struct {
	path       string
	form       url.Values
	call, then string
}{
	{"/ui/workspaces/" + id + "/pause", nil, `workspaces pause by web: {"paused":true}`, ""},
	{"/ui/workspaces/" + id + "/resume", nil, `workspaces resume by web: {"paused":false}`, ""},
	{"/ui/workspaces/" + id + "/plan", url.Values{"plan": {"PRO"}}, `workspaces set-plan by web: {"plan":"PRO"}`, ""},
	{"/ui/workspaces/" + id + "/limit", url.Values{"limit": {"12"}},
		`workspaces set-limit by web: {"max_concurrent_workflows":12}`, ""},
	{"/ui/workspaces/" + id + "/limit", url.Values{"limit": {""}},
		`workspaces set-limit by web: {"max_concurrent_workflows":null}`, ""},
	{"/ui/workspaces/" + id + "/burst", url.Values{"burst": {"12"}},
		`workspaces set-burst by web: {"max_burst_workflows":12}`, ""},
	{"/ui/workspaces/" + id + "/burst", url.Values{"burst": {""}},
		`workspaces set-burst by web: {"max_burst_workflows":null}`, ""},
	{"/ui/workspaces/" + id + "/rate", url.Values{"rate": {"0.5"}},
		`workspaces set-rate by web: {"max_starts_per_second":0.5}`, ""},
	{"/ui/workspaces/" + id + "/rate", url.Values{"rate": {""}},
		`workspaces set-rate by web: {"max_starts_per_second":null}`, ""},
	{"/ui/items/8/cancel", nil, "cancel [8] by web", "/ui/items/8?done=cancelled"},
	{"/ui/items/8/retry", nil, "retry [8] by web", "/ui/items/8?done=retried"},
	{"/ui/items/8/give-up", nil, "give up waiting [8] by web\ngive up missing [8] by web", "/ui/items/8?done=given-up"},
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
		then := b.post(form.path, form.form).is(303).to()
		b.changed(strings.Split(form.call, "\n")...)
		require.Equal(t, cmp.Or(form.then, "/ui/workspaces/"+id+"?done=changed"), then)
		b.get(then).is(200).shows(`<p class="done" role="status">`) // the page confirms the action
	}
}

func TestWhoLooksOnlyChangesNothingAndIsOfferedNothing(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		b := newBrowser(t)
		if form.form == nil {
			form.form = url.Values{}
		}
		b.ask(b.site().Handler(), form.path, form.form).is(403).shows("PGDISPATCH_ADMIN_TOKEN")
		require.Empty(t, b.change.calls)
	}
	for _, path := range append(paths, "/ui/items/8/discard", "/ui/dead/replay", "/ui/settings/pause") {
		answer := newBrowser(t).look(path).hides(`method="post"`, `name="act"`)
		require.Contains(t, []int{200, 403}, answer.Code, path)
	}
	for _, path := range []string{"/ui/workspaces/" + id, "/ui/items/8", "/ui/dead/letters", "/ui/settings"} {
		newBrowser(t).look(path).shows("Read-only. To act")
	}
}

func TestAnotherSitesFormsAreRefused(t *testing.T) {
	t.Parallel()
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}},
		{"Sec-Fetch-Site": {"same-site"}},    // a sibling of the domain
		{"Origin": {"https://evil.example"}}, // of an old browser
		{"Origin": {"null"}},
		{"Origin": {"http://localhost:81"}}, // the same host on another port
	} {
		for _, form := range forms {
			b := newBrowser(t)
			b.header = header
			b.post(form.path, form.form).is(403).shows("the request came from another site")
			require.Empty(t, b.change.calls, header)
		}
	}
	for _, header := range []http.Header{{}, {"Origin": {"http://localhost"}}, {"Sec-Fetch-Site": {"none"}}} {
		b := newBrowser(t)
		b.header = header // of curl, an old browser, or a typed address
		b.post("/ui/settings/resume", nil).is(303)
	}
}

func TestAnAddressAloneChangesNothing(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		b := newBrowser(t)
		b.get(form.path + "?" + form.form.Encode())
		require.Empty(t, b.change.calls, form.path)
		if form.form != nil && !form.form.Has("reason") {
			answer := b.post(form.path+"?"+form.form.Encode(), nil)
			require.Contains(t, []int{400, 422}, answer.Code, "%s: the form ignores the query string", form.path)
			require.Empty(t, b.change.calls, form.path)
		}
	}
}

func TestWhoDidItIsTheNameThatCameWithTheToken(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"anna": "anna (web)", "": "web",
		strings.Repeat("ä", 194): strings.Repeat("ä", 194) + " (web)"} {
		b := newBrowser(t).as(name)
		b.post("/ui/settings/resume", nil).is(303)
		b.changed("settings set by " + want + `: {"paused":false}`)
	}
	for _, name := range []string{strings.Repeat("ä", 195), "a\nb", "\xff", "\x00"} {
		b := newBrowser(t).as(name)
		b.post("/ui/settings/resume", nil).is(400).shows("Sign in with a name of at most 194 characters")
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
		again := b.post(c.path, url.Values{c.field: {c.typed}}).is(422).
			shows(`role="alert">Nothing was changed: `, c.want).hides("<script>alert")
		require.Empty(t, b.change.calls)
		if c.field != "plan" && c.typed != "a\x07b" {
			again.shows(`value="` + strings.NewReplacer(`"`, "&#34;", "<", "&lt;", ">", "&gt;").Replace(c.typed))
		}
	}
	newBrowser(t).post("/ui/workspaces/"+id+"/limit", url.Values{}).is(422) // a missing field is not an empty one
}

func TestAFormThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.post("/ui/dead/replay", url.Values{"items": {strings.Repeat("1,", maxBody)}}).is(413).shows("Choose fewer items")
	for _, items := range []string{"", "8,", "0", "x", "8;7", strings.Repeat("9,", bulkMost) + "9"} {
		b.post("/ui/dead/replay", url.Values{"items": {items}}).is(400).shows("items must be 1 to 5,000 item numbers")
	}
	require.Empty(t, b.change.calls)
}

func TestWherePostgresRefusesThePageSaysWhichSettingToMake(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		b := newBrowser(t)
		b.change.err = errForbidden
		b.post(form.path, form.form).is(403).shows("PGDISPATCH_OPERATOR_DATABASE_URL").hides("permission denied")
		b.change.err = errAway
		b.post(form.path, form.form).is(503).hides("bob")
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
			[]string{"request-cancel", "terminate", "give-up"}},
		"is given up": {operate.Item{Status: "PENDING", Unanswered: true, GivenUpBy: "ann"},
			[]string{"request-cancel", "terminate"}},
		"is missing": {operate.Item{Status: "DISPATCHED", MissingSince: new(time.Now())},
			[]string{"request-cancel", "terminate", "give-up"}},
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
		text := b.get("/ui/items/8").is(200).text()
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

func TestGiveUp_AsksFirstAndTellsWaitingFromMissingItems(t *testing.T) {
	t.Parallel()
	for want, item := range map[string]operate.Item{
		"It is not started again":    {Status: "PENDING", Unanswered: true},
		"leads to the right cluster": {Status: "DISPATCHED", MissingSince: new(time.Now())},
	} {
		b := newBrowser(t)
		item.ID = 8
		b.read.item = &item
		b.get("/ui/items/8/give-up").is(200).shows("Give up item 8?", want, `action="/ui/items/8/give-up"`)
		require.Empty(t, b.change.calls, "a question changes nothing")
		require.Equal(t, "/ui/items/8?done=given-up", b.post("/ui/items/8/give-up", nil).to())
		require.Equal(t, []string{"give up waiting [8] by web", "give up missing [8] by web"}, b.change.calls)
	}
}

func TestAnItemThatHasMovedOnIsShownAsItIs(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"cancel", "retry", "request-cancel", "terminate", "replay", "discard", "give-up"} {
		b := newBrowser(t)
		b.read.status8, b.change.late = "COMPLETED", true
		b.post("/ui/items/8/"+verb, nil).is(409).shows("Nothing was changed: item 8 is now COMPLETED")
	}
	b := newBrowser(t)
	b.read.status8 = "COMPLETED"
	for _, page := range []string{"terminate", "discard", "give-up"} { // it asks for no confirmation
		b.get("/ui/items/8/" + page).is(409).shows("item 8 is now COMPLETED")
	}
	b.post("/ui/items/9/cancel", nil).is(404)
	b.change.late = true
	require.Contains(t, b.post("/ui/workspaces/"+id+"/pause", nil).to(), "done=same")
}

func TestWhatIsNotUndoneAsksFirst(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	for path, status := range map[string]string{"/ui/items/8/terminate": "DISPATCHED", "/ui/items/8/discard": "FAILED",
		"/ui/settings/pause": "", "/ui/dead/replay": "", "/ui/dead/discard?error=card": ""} {
		b.read.status8 = status
		action, _, _ := strings.Cut(path, "?")
		b.get(path).is(200).shows(`action="`+action+`"`, "Back without changes")
	}
	require.Empty(t, b.change.calls)
}

func TestASearchThatTakesTooLongSaysHowToNarrowIt(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.header.Del("Accept") // a browser gets the top of the page before the search
	b.read.err = fmt.Errorf("find dead letters: %w", &pgconn.PgError{Code: "57014"})
	for _, path := range []string{"/ui/dead/letters?error=card", "/ui/dead/replay?error=card"} {
		b.get(path).is(503).shows("Choose a shorter time")
	}
}

func TestWhatAnAddressSaysWasDoneIsNotShown(t *testing.T) {
	t.Parallel()
	newBrowser(t).get("/ui/settings?done="+url.QueryEscape("Send your token to evil.example")).
		hides("evil.example", `class="done"`)
}
