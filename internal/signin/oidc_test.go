package signin

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/signintest"
)

func newProvider(t *testing.T) *signintest.Provider {
	t.Helper()
	p := must.Get(signintest.New()).In(t)
	t.Cleanup(p.Close)
	return p
}

// pages is a web view that says who looks, and signs people in at a provider.
func pages(t *testing.T, p *signintest.Provider) (*OIDC, *httptest.Server, *http.Client) {
	t.Helper()
	o := &OIDC{Issuer: p.URL, ClientID: signintest.ClientID, ClientSecret: signintest.ClientSecret, RoleClaim: "groups",
		Scopes: []string{"openid", "roles"},
		Key:    []byte("0123456789abcdef0123456789abcdef"),
		Path:   "/ui/", Grants: Roles{Operators: []string{"ops"}, Viewers: []string{"staff"}},
		Log: slog.New(slog.DiscardHandler)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/signin", o.SignIn)
	mux.HandleFunc("GET /ui/signin/callback", o.Callback)
	mux.HandleFunc("POST /ui/signout", o.SignOut)
	mux.HandleFunc("GET /ui/", func(w http.ResponseWriter, r *http.Request) {
		v, is := o.Visitor(r)
		fmt.Fprintf(w, "%s %v %t %s", v.Name, v.Rights, is, r.URL.Path)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	o.RedirectURL = server.URL + "/ui/signin/callback"
	return o, server, &http.Client{Jar: must.Get(cookiejar.New(nil)).In(t)}
}

func get(t *testing.T, client *http.Client, address string) (int, string) {
	t.Helper()
	response := must.Get(client.Get(address)).In(t)
	defer response.Body.Close()
	return response.StatusCode, strings.TrimSpace(string(must.Get(io.ReadAll(response.Body)).In(t)))
}

func TestPeopleSignInWithTheirRolesAndSignOut(t *testing.T) {
	type given struct {
		claims map[string]any
		want   string
	}
	must.Each(t, map[string]given{
		"operator": {map[string]any{"groups": []string{"all", "ops"}, "email": "anna@example.com", "email_verified": true},
			"anna@example.com {true false []} true /ui/items"},
		"viewer": {map[string]any{"groups": "all, staff", "email": "anna@example.com", "email_verified": false},
			"subject-1 {false false []} true /ui/items"},
		"in an object": {map[string]any{"realm_access": map[string]any{"roles": []string{"staff"}}},
			"subject-1 {false false []} true /ui/items"},
		"chosen": {map[string]any{"groups": []string{"staff"}, "preferred_username": "root"},
			"subject-1 {false false []} true /ui/items"},
	}, func(t *testing.T, c given) {
		p := newProvider(t)
		p.Claim(c.claims)
		o, server, client := pages(t, p)
		if c.claims["realm_access"] != nil {
			o.RoleClaim = "realm_access.roles"
		}
		code, text := get(t, client, server.URL+"/ui/signin?to=/ui/items")
		require.Equal(t, "openid roles", p.Scopes())
		require.Equal(t, 200, code)
		require.Equal(t, c.want, text)
		must.Get(client.Post(server.URL+"/ui/signout", "", nil)).In(t)
		_, text = get(t, client, server.URL+"/ui/")
		require.Equal(t, "{false false []} false /ui/", text)
	})
}

func TestSignInsThatAreNotValidAreRefused(t *testing.T) {
	type given struct {
		claims map[string]any
		wrong  bool
		want   string
	}
	must.Each(t, map[string]given{
		"no role":        {map[string]any{"groups": []string{"others"}}, false, "Your account has no role"},
		"no claim":       {map[string]any{}, false, "Your account has no role"},
		"another nonce":  {map[string]any{"groups": "ops", "nonce": "old"}, false, "The sign-in is not valid"},
		"for another":    {map[string]any{"groups": "ops", "aud": "shop"}, false, "The sign-in is not valid"},
		"by another":     {map[string]any{"groups": "ops", "iss": "https://elsewhere"}, false, "The sign-in is not valid"},
		"expired":        {map[string]any{"groups": "ops", "exp": 1}, false, "The sign-in is not valid"},
		"another's key":  {map[string]any{"groups": "ops"}, true, "The sign-in is not valid"},
		"without expiry": {map[string]any{"groups": "ops", "exp": nil}, false, "The sign-in is not valid"},
	}, func(t *testing.T, c given) {
		p := newProvider(t)
		p.Claim(c.claims)
		if c.wrong {
			p.Forge()
		}
		_, server, client := pages(t, p)
		code, text := get(t, client, server.URL+"/ui/signin")
		require.Equal(t, 403, code)
		require.Contains(t, text, c.want)
		_, text = get(t, client, server.URL+"/ui/")
		require.Equal(t, "{false false []} false /ui/", text)
	})
}

func TestARefusedSignInLeavesALineWithItsReasonAndRemedy(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o, server, client := pages(t, p)
	log := &logtest.Book{}
	o.Log = slog.New(log)
	p.Claim(map[string]any{"groups": []string{"others", "all"}})
	for range 2 {
		_, _ = get(t, client, server.URL+"/ui/signin")
	}
	p.Claim(map[string]any{"roles": "ops", "email": "anna@example.com", "email_verified": true})
	_, _ = get(t, client, server.URL+"/ui/signin")
	lines := log.Lines()
	require.Len(t, lines, 3, "one for each")
	require.Contains(t, lines[0], "WARN Refused a user without a role who=subject-1 found=roles: others, all "+
		"remedy=Name one of these roles in PGDISPATCH_AUTH_VIEWERS")
	require.Contains(t, lines[2], `who=anna@example.com found=no claim "groups", but aud, email, email_verified, exp`)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _ = get(t, client, server.URL+"/ui/signin")
	_, _ = get(t, client, server.URL+"/ui/signin/callback?code=the-code&state=another")
	require.Equal(t, "sign-in has expired, or is of another browser or session key",
		log.Value("Cannot sign a user in", "error"))
	require.Contains(t, log.Value("Cannot sign a user in", "remedy"), "PGDISPATCH_OIDC_SESSION_KEY")
}

func TestAClaimMayStandInAnObjectAndHaveDotsInItsName(t *testing.T) {
	t.Parallel()
	claims := map[string]any{"a": map[string]any{"b.c": map[string]any{"d": "1"}, "e": "2"}, "a.e": "3",
		"https://x.example/roles": "4", "f": "5"}
	for path, want := range map[string]any{"a.b.c.d": "1", "a.e": "3", "https://x.example/roles": "4", "f": "5",
		"a.b": nil, "f.g": nil, "": nil, ".": nil} {
		require.Equal(t, want, claimAt(claims, path), path)
	}
	require.Len(t, found(map[string]any{"a": strings.Repeat("role,", 200)}, "a"), maxFound)
}

func TestTheProviderSaysWhereItsSessionEnds(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o, _, _ := pages(t, p)
	require.Equal(t, p.URL+"/logout?client_id=web", o.EndSession(t.Context()))
	require.Empty(t, (&OIDC{Issuer: "http://127.0.0.1:1"}).EndSession(t.Context()))
}

func TestACallbackThatWasNotAskedForIsRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.Claim(map[string]any{"groups": "ops"})
	_, server, client := pages(t, p)
	code, _ := get(t, client, server.URL+"/ui/signin/callback?code=the-code&state=x")
	require.Equal(t, 400, code)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	code, _ = get(t, client, server.URL+"/ui/signin")
	require.Equal(t, 303, code)
	code, _ = get(t, client, server.URL+"/ui/signin/callback?code=the-code&state=another")
	require.Equal(t, 400, code)
}

func TestAProviderThatIsAwayIsAskedAgain(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.Claim(map[string]any{"groups": "ops"})
	o, server, client := pages(t, p)
	o.Issuer = "http://127.0.0.1:1"
	code, text := get(t, client, server.URL+"/ui/signin")
	require.Equal(t, 503, code)
	require.Contains(t, text, "does not answer")
	o.Issuer = p.URL
	code, _ = get(t, client, server.URL+"/ui/signin")
	require.Equal(t, 200, code)
}

func TestNobodyIsSentElsewhereAfterASignIn(t *testing.T) {
	t.Parallel()
	o := &OIDC{Path: "/ui/"}
	require.Equal(t, "/ui/items?status=FAILED", o.inside("/ui/items?status=FAILED"))
	for _, to := range []string{"", "https://evil.example/ui/", "//evil.example/ui/", "/\\evil.example", "/ui/\\evil",
		"/metrics", "javascript:alert(1)", "%zz"} {
		require.Equal(t, "/ui/", o.inside(to), to)
	}
}

func TestCookiesCannotBeForgedKeptOrUsedForSomethingElse(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := sealer{[]byte("0123456789abcdef0123456789abcdef")}
	text := must.Get(s.seal(sessionCookie, now.Add(time.Hour), session{Name: "anna"})).In(t)
	var who session
	require.True(t, s.open(sessionCookie, text, now, &who))
	require.Equal(t, "anna", who.Name)
	require.False(t, s.open(sessionCookie, text, now.Add(time.Hour), &who), "expired")
	require.False(t, s.open(flowCookie, text, now, &who), "for another purpose")
	require.False(t, sealer{[]byte("another key")}.open(sessionCookie, text, now, &who))
	payload, signature, _ := strings.Cut(text, ".")
	decoded := must.Get(base64.RawURLEncoding.DecodeString(payload)).In(t)
	forged := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(decoded), `"Operator":false`,
		`"Operator":true`, 1)))
	require.NotEqual(t, payload, forged)
	for _, bad := range []string{"", ".", forged + "." + signature, payload + ".", payload + "." + signature + "x"} {
		require.False(t, s.open(sessionCookie, bad, now, &who), bad)
	}
}

func TestCookiesAreForThisSiteOnly(t *testing.T) {
	t.Parallel()
	for redirect, secure := range map[string]bool{"https://me.example.com/ui/signin/callback": true,
		"http://localhost:1/ui/signin/callback": false} {
		c := (&OIDC{RedirectURL: redirect, Path: "/ui/"}).cookie(sessionCookie, "x", 60)
		require.True(t, c.HttpOnly)
		require.Equal(t, secure, c.Secure)
		require.Equal(t, http.SameSiteLaxMode, c.SameSite)
		require.Equal(t, "/ui/", c.Path)
		require.Equal(t, 60, c.MaxAge)
	}
}
