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

func TestWhomAProxyNamesSeesOrActsAndNobodyElseDoes(t *testing.T) {
	t.Parallel()
	status, text := ask(known(), "127.0.0.1", "/ui/", "X-User: anna")
	require.Equal(t, 200, status)
	require.Equal(t, "acts anna", text)
	_, text = ask(known(), "127.0.0.1", "/ui/", "X-User: ben")
	require.Equal(t, "looks ben", text)
	status, _ = ask(known(), "127.0.0.1", "/ui/")
	require.Equal(t, 401, status, "not open on loopback, where the proxy may run")
	status, _ = ask(known(), "127.0.0.1", "/debug/pprof/")
	require.NotEqual(t, 200, status)
	status, _ = ask(known(), "127.0.0.1", "/debug/pprof/", "X-User: anna")
	require.NotEqual(t, 200, status, "profiles accept the token")
	withToken := known()
	withToken.Token = "0123456789abcdef"
	_, text = ask(withToken, "127.0.0.1", "/ui/", "Authorization: Bearer 0123456789abcdef")
	require.Equal(t, "acts ", text)
}

func TestABrowserIsSentToSignInAndAScriptIsRefused(t *testing.T) {
	t.Parallel()
	a := known()
	a.SignIn = &signin.OIDC{Path: "/ui/", Key: []byte("key"), Log: quiet()}
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/ui/items?status=FAILED", nil)
	request.Header.Set("Accept", "text/html,*/*")
	a.Listener = fakeListener{address: "127.0.0.1 9464"}
	a.Handler().ServeHTTP(answer, request)
	require.Equal(t, 303, answer.Code)
	require.Equal(t, "/ui/signin?to=%2Fui%2Fitems%3Fstatus%3DFAILED", answer.Header().Get("Location"))
	status, _ := ask(a, "127.0.0.1", "/ui/items")
	require.Equal(t, 401, status)
}

func TestBehindAProxyPagesAreServedBelowItsPathToo(t *testing.T) {
	t.Parallel()
	a := known()
	a.SignIn = &signin.OIDC{Path: "/tools/ui/", Key: []byte("key"), Log: quiet()}
	a.Base, a.Listener = "/tools", fakeListener{address: "127.0.0.1 9464"}
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
	a := known()
	a.SignIn = &signin.OIDC{Path: "/ui/", Key: []byte("key"), Log: quiet()}
	a.Listener = fakeListener{address: "127.0.0.1 9464"}
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
