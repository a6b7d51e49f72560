package browser

import (
	"net"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/signintest"
)

// signedBy is a small site that signs users in at a provider. The group acme acts in the workspace Acme Berlin.
func signedBy(t *testing.T) (*site, *signintest.Provider) {
	t.Helper()
	provider, err := signintest.New()
	require.NoError(t, err)
	t.Cleanup(provider.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	origin := "http://" + free.Addr().String() // known before the start, for the redirect URL
	require.NoError(t, free.Close())
	s := smallAt(t, origin, "PGDISPATCH_OIDC_ISSUER="+provider.URL, "PGDISPATCH_OIDC_CLIENT_ID="+signintest.ClientID,
		"PGDISPATCH_OIDC_CLIENT_SECRET="+signintest.ClientSecret,
		"PGDISPATCH_OIDC_REDIRECT_URL="+origin+"/ui/signin/callback", "PGDISPATCH_AUTH_OPERATORS=sre",
		"PGDISPATCH_AUTH_VIEWERS=staff", `PGDISPATCH_AUTH_WORKSPACES="cn=acme,ou=groups=operator@Acme Berlin"`)
	return s, provider
}

func claims(groups ...string) map[string]any {
	return map[string]any{"groups": groups, "email": "anna@example.com", "email_verified": true}
}

// forgiveRedirects accepts requests to the provider, and nothing else.
func (p *tab) forgiveRedirects(provider *signintest.Provider) {
	p.t.Helper()
	for _, fault := range p.forgive() {
		require.True(p.t, strings.HasPrefix(fault, "request to elsewhere: "+provider.URL+"/authorize?"), fault)
	}
}

// accessible requires that a page has no violations in either theme.
func (p *tab) accessible() {
	p.t.Helper()
	require.Empty(p.t, p.violations(), "light")
	p.run(dark)
	require.Empty(p.t, p.violations(), "dark")
	p.run(light)
}

func TestAUserSignsInActsInTheirWorkspaceAndSignsOut(t *testing.T) {
	t.Parallel()
	s, provider := signedBy(t)
	provider.Claim(claims("others", "cn=acme,ou=groups"))
	id, other := one[string](t, s, "select id::text from pgdispatch.workspaces where name = 'Acme Berlin'"),
		one[string](t, s, "select id::text from pgdispatch.workspaces where name <> 'Acme Berlin' limit 1")
	p := s.open(t, "/ui/workspaces")
	p.forgiveRedirects(provider)
	menu := chromedp.Click(chromedp.CSS(".menu summary"))
	p.run(menu)
	require.Equal(t, "anna@example.com operator of Acme Berlin", p.text(".who span")+" "+p.text(".who small"))
	require.Equal(t, []string{"Acme Berlin"}, p.texts("tbody th"))
	p.accessible()
	p.visit("/ui/")
	require.Contains(t, p.text("#asof"), "Of your workspaces.")
	require.Empty(t, p.texts("#hour figure, #replicas table"))
	p.accessible()
	p.run(phone)
	require.LessOrEqual(t, p.width(), 390, "the page scrolls sideways")
	p.run(desk)

	p.visit("/ui/workspaces/" + id)
	p.tabTo("Pause this workspace")
	p.follow(chromedp.Click(chromedp.CSS("[value=pause]")))
	require.Contains(t, p.done(), "Done.")
	require.Equal(t, "anna@example.com (web, oidc)", one[string](t, s, "select who from pgdispatch.admin_log"))
	p.visit("/ui/workspaces/" + other)
	require.Equal(t, "Workspace not found.", p.text("h1"))
	p.visit("/ui/settings/pause")
	require.Contains(t, p.text("h1"), "this applies to all workspaces, and you may act in some only")
	require.Len(t, p.forgive(), 2, "a 404 and a 403")
	p.accessible()

	p.run(menu)
	p.follow(chromedp.Click(chromedp.CSS(".who button")))
	require.Equal(t, "You are signed out", p.text("h1"))
	p.accessible()
	p.run(phone)
	require.LessOrEqual(t, p.width(), 390, "the page scrolls sideways")
	p.run(desk)
	provider.Claim(claims("staff"))
	p.tabTo("Sign in again")
	p.follow(chromedp.Click(chromedp.CSS("main a")))
	p.forgiveRedirects(provider)
	p.run(menu)
	require.Equal(t, "viewer", p.text(".who small"))
	p.visit("/ui/workspaces/" + other)
	require.Contains(t, p.text("main"), "Read-only. To act")
	require.Empty(t, p.texts(`main form[method=post]`))
}

func TestAUserWithoutARoleIsToldWhatToAskFor(t *testing.T) {
	t.Parallel()
	s, provider := signedBy(t)
	provider.Claim(claims("cn=acme"))
	p := s.open(t, "/ui/items")
	require.Equal(t, "You are not signed in", p.text("h1"))
	require.Contains(t, p.text("main"), "Ask for a group that PGDISPATCH_AUTH_VIEWERS")
	require.Len(t, p.forgive(), 2, "the provider, and a 403")
	p.accessible()
	provider.Close()
	provider.Claim(claims("sre"))
	p.follow(chromedp.Navigate(s.origin + "/ui/signin/callback?state=guessed"))
	require.Contains(t, p.text("main"), "This sign-in was not begun here, or took too long.")
	require.Len(t, p.forgive(), 1, "a 400")
	p.accessible()
}
