package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHalfAWayToSignInIsRefusedByTheNameOfWhatIsMissing(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{}.checkSignIn())
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for missing, s := range map[string]SignIn{
		"PGDISPATCH_TRUSTED_PROXIES is empty":  {Header: "X-User", RoleHeader: "X-Roles"},
		"PGDISPATCH_AUTH_HEADER is empty":      {RoleHeader: "X-Roles", Proxies: proxy},
		"PGDISPATCH_AUTH_ROLE_HEADER is empty": {Header: "X-User", Proxies: proxy},
		"PGDISPATCH_AUTH_ROLE_HEADER is the same": {Header: "X-User", RoleHeader: "X-User",
			Proxies: proxy},
		"PGDISPATCH_OIDC_CLIENT_SECRET is empty": {Issuer: "https://a", ClientID: "c",
			RedirectURL: "https://b", RoleClaim: "r"},
		"PGDISPATCH_OIDC_ISSUER is empty":                              {ClientID: "c"},
		"PGDISPATCH_OIDC_REDIRECT_URL is empty":                        {Issuer: "https://a", ClientID: "c"},
		"PGDISPATCH_OIDC_ROLE_CLAIM is empty: PGDISPATCH_OIDC_ISSUER ": {Issuer: "https://a"},
	} {
		require.ErrorContains(t, Config{SignIn: s}.checkSignIn(), missing)
	}
}

func TestThePathOfAProxyIsReadAndUsersComeBackToIt(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"tools", "/tools/", "/", "/a//b", "/a/../b", "https://a/b", "/a b", `/"`} {
		_, err := readRunConfig(t, map[string]string{"PGDISPATCH_ADMIN_PATH_PREFIX": bad})
		require.ErrorContains(t, err, "PGDISPATCH_ADMIN_PATH_PREFIX is ", bad)
	}
	c, err := readRunConfig(t, map[string]string{"PGDISPATCH_ADMIN_PATH_PREFIX": "/tools/pgdispatch-1"})
	require.NoError(t, err)
	require.NoError(t, c.checkSignIn())
	c.SignIn = SignIn{Issuer: "https://a", ClientID: "c", ClientSecret: "s", RoleClaim: "r",
		RedirectURL: "https://b/ui/signin/callback"}
	require.ErrorContains(t, c.checkSignIn(),
		"PGDISPATCH_OIDC_REDIRECT_URL must end with /tools/pgdispatch-1/ui/signin/callback")
	c.SignIn.RedirectURL = "https://b/tools/pgdispatch-1/ui/signin/callback"
	require.NoError(t, c.checkSignIn())
}

func TestWaysToSignInAreReadAndBadOnesNamed(t *testing.T) {
	t.Parallel()
	c, err := readRunConfig(t, map[string]string{
		"PGDISPATCH_AUTH_HEADER": "x-user", "PGDISPATCH_AUTH_ROLE_HEADER": "X-Roles",
		"PGDISPATCH_TRUSTED_PROXIES": "10.0.0.7, 10.1.2.3/16,::1",
		"PGDISPATCH_AUTH_OPERATORS":  "ops, sre", "PGDISPATCH_OIDC_ISSUER": "https://login.example.com/realm",
		"PGDISPATCH_OIDC_CLIENT_ID": "web", "PGDISPATCH_OIDC_CLIENT_SECRET": "secret",
		"PGDISPATCH_OIDC_REDIRECT_URL": "https://me.example.com/ui/signin/callback",
	})
	require.NoError(t, err)
	require.NoError(t, c.checkSignIn())
	require.Equal(t, "X-User", c.SignIn.Header)
	require.Equal(t, []string{"ops", "sre"}, c.SignIn.Operators)
	require.Equal(t, []string{"viewer"}, c.SignIn.Viewers)
	require.Equal(t, "groups", c.SignIn.RoleClaim)
	require.Equal(t, "[10.0.0.7/32 10.1.0.0/16 ::1/128]",
		strings.ReplaceAll(strings.Join(strings.Fields(stringOf(c.SignIn.Proxies)), " "), ",", ""))

	for name, value := range map[string]string{
		"PGDISPATCH_AUTH_HEADER": "X User", "PGDISPATCH_AUTH_ROLE_HEADER": "authorization",
		"PGDISPATCH_TRUSTED_PROXIES":   "proxy.example.com",
		"PGDISPATCH_OIDC_ISSUER":       "http://login.example.com",
		"PGDISPATCH_OIDC_REDIRECT_URL": "https://me.example.com/ui/",
		"PGDISPATCH_OIDC_SCOPES":       "email",
	} {
		_, err := readRunConfig(t, map[string]string{name: value})
		require.ErrorContains(t, err, name+" is ", value)
	}
	_, err = readRunConfig(t, map[string]string{"PGDISPATCH_OIDC_SESSION_KEY": "too short"})
	require.ErrorContains(t, err, `PGDISPATCH_OIDC_SESSION_KEY is "***": it must have 32 characters or more`)
}

func stringOf(prefixes []netip.Prefix) string {
	texts := []string{}
	for _, p := range prefixes {
		texts = append(texts, p.String())
	}
	return "[" + strings.Join(texts, " ") + "]"
}
