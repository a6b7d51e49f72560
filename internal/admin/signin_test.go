package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/signin"
	"github.com/pgdispatch/pgdispatch/internal/signintest"
)

// known is an admin server behind a trusted proxy that names the user in the header X-User. "anna" is an operator.
func known() *Server {
	says := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v, _ := signin.From(r.Context())
			_, _ = w.Write([]byte(what + " " + v.Name))
		})
	}
	return &Server{
		Health: NewHealth(""), Metrics: prometheus.NewRegistry(), Log: quiet(), PagesPath: "/ui/", Pages: says("looks"),
		ActingPages: says("acts"),
		Visitors: []func(*http.Request) (signin.Visitor, bool){func(r *http.Request) (signin.Visitor, bool) {
			name := r.Header.Get("X-User")
			return signin.Visitor{Name: name, Via: "proxy", Rights: signin.Rights{Operator: name == "anna"}}, name != ""
		}},
	}
}

// signsIn is known, with a provider to sign in at.
func signsIn(path string) *Server {
	a := known()
	a.SignIn = &signin.OIDC{Path: path, Key: []byte("key"), Log: quiet()}
	a.Listener = fakeListener{address: "127.0.0.1 9464"}
	return a
}

func TestWhomAProxyNamesSeesOrActsAndNobodyElseDoes(t *testing.T) {
	t.Parallel()
	withToken := known()
	withToken.Token = "0123456789abcdef"
	for _, c := range []struct {
		server       *Server
		path, header string
		status       int
		text         string
	}{
		{known(), "/ui/", "X-User: anna", 200, "acts anna"},
		{known(), "/ui/", "X-User: ben", 200, "looks ben"},
		{known(), "/ui/", "X-None: ", 401, ""}, // not open on loopback, where the proxy may run
		{known(), "/debug/pprof/", "X-None: ", 403, ""},
		{known(), "/debug/pprof/", "X-User: anna", 403, ""}, // profiles accept the token
		{withToken, "/ui/", "Authorization: Bearer 0123456789abcdef", 200, "acts "},
	} {
		status, text := ask(c.server, "127.0.0.1", c.path, c.header)
		require.Equal(t, c.status, status, "%v", c)
		require.True(t, c.text == "" || c.text == text, text)
	}
}

func TestABrowserIsSentToSignInAndAScriptIsRefused(t *testing.T) {
	t.Parallel()
	a := signsIn("/ui/")
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/ui/items?status=FAILED", nil)
	request.Header.Set("Accept", "text/html,*/*")
	a.Handler().ServeHTTP(answer, request)
	require.Equal(t, 303, answer.Code)
	require.Equal(t, "/ui/signin?to=%2Fui%2Fitems%3Fstatus%3DFAILED", answer.Header().Get("Location"))
	status, _ := ask(a, "127.0.0.1", "/ui/items")
	require.Equal(t, 401, status)
}

func TestBehindAProxyPagesAreServedBelowItsPathToo(t *testing.T) {
	t.Parallel()
	a := signsIn("/tools/ui/")
	a.Base = "/tools"
	a.Pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.RequestURI())) })
	ask := func(method, path, user string) *httptest.ResponseRecorder {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
		request.Header = http.Header{"Accept": {"text/html"}, "X-User": {user}, "Sec-Fetch-Site": {"same-origin"}}
		a.Handler().ServeHTTP(answer, request)
		return answer
	}
	for _, path := range []string{"/tools/ui/items?status=FAILED", "/ui/items?status=FAILED"} {
		require.Equal(t, "/ui/items?status=FAILED", ask("GET", path, "ben").Body.String(), "removed by the proxy or not")
		require.Equal(t, "/tools/ui/signin?to=%2Ftools%2Fui%2Fitems%3Fstatus%3DFAILED", ask("GET", path,
			"").Header().Get("Location"))
	}
	for _, path := range []string{"/", "/tools", "/tools/", "/tools/ui"} {
		require.Equal(t, "/tools/ui/", ask("GET", path, "ben").Header().Get("Location"), path)
	}
	require.Equal(t, 404, ask("GET", "/tools/metrics", "ben").Code, "only pages")
	out := ask("POST", "/tools/ui/signout", "ben")
	require.Contains(t, out.Header().Get("Set-Cookie"), "Path=/tools/ui/")
	require.Contains(t, out.Body.String(), `<a href="/tools/ui/">`)
}

func TestSigningOutMakesABrowserForget(t *testing.T) {
	t.Parallel()
	a := signsIn("/ui/")
	out := func(change func(*http.Request)) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodPost, "/ui/signout", nil)
		request.Header.Set("Sec-Fetch-Site", "same-origin")
		change(request)
		answer := httptest.NewRecorder()
		a.Handler().ServeHTTP(answer, request)
		return answer
	}
	answer := out(func(*http.Request) {})
	require.Equal(t, 200, answer.Code)
	require.Contains(t, answer.Header().Get("Set-Cookie"),
		"pgdispatch_session=; Path=/ui/; Max-Age=0; HttpOnly; SameSite=Lax")
	require.NotContains(t, answer.Body.String(), "provider too")
	provider := must.Get(signintest.New()).In(t)
	defer provider.Close()
	a.SignIn.Issuer, a.SignIn.ClientID = provider.URL, "web"
	require.Contains(t, out(func(*http.Request) {}).Body.String(),
		`<a href="`+provider.URL+`/logout?client_id=web">Sign out at your identity provider too</a>`)
	answer = out(func(r *http.Request) { r.SetBasicAuth("anna", "token") })
	require.Equal(t, 401, answer.Code)
	require.Contains(t, answer.Header().Get("WWW-Authenticate"), "Basic")
	answer = out(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	require.Equal(t, 403, answer.Code, "links from other sites do not sign out")
}
