package config

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

func TestRolesInWorkspacesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]WorkspaceRole{
		"":      nil,
		" , \n": nil,
		" acme ops = x=viewer@Acme Inc ,Grüße=operator@北京": {{Group: "acme ops = x", Workspace: "Acme Inc"},
			{Group: "Grüße", Workspace: "北京", Operator: true}},
		`"cn=ops,ou=x,dc=y=operator@Acme, Inc.", "say ""hi""=viewer@a@b=c"`: {{Group: "cn=ops,ou=x,dc=y",
			Workspace: "Acme, Inc.", Operator: true}, {Group: `say "hi"`, Workspace: "a@b=c"}},
		"team-{workspace}-dev=viewer@{workspace}\nteam-{workspace}=operator@{workspace}": {
			{Group: "team-{workspace}-dev", Workspace: "{workspace}"},
			{Group: "team-{workspace}", Workspace: "{workspace}", Operator: true}},
		"ops=operator@aaaaaaaa-0000-4000-8000-000000000001": {{Group: "ops", Operator: true,
			Workspace: "aaaaaaaa-0000-4000-8000-000000000001"}},
	} {
		c := configured(t, map[string]string{"PGDISPATCH_AUTH_WORKSPACES": text})
		require.Equal(t, want, c.SignIn.Workspaces, text)
	}
}

func TestMalformedRolesInWorkspacesAreRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	for text, remedy := range map[string]string{
		"acme":                       `"acme" must be group=viewer@workspace or group=operator@workspace`,
		"ok=viewer@Acme,acme=viewer": `"acme=viewer" must be group=viewer@workspace`,
		"acme=admin@Acme":            `"acme=admin@Acme" must be group=viewer@workspace`,
		"acme=Viewer@Acme":           `must be group=viewer@workspace`,
		"=viewer@Acme":               `must be group=viewer@workspace`,
		"acme=viewer@ ":              `must be group=viewer@workspace`,
		"a=viewer@b=operator@c":      `must be group=viewer@workspace`,
		"cn=a,ou=b=viewer@Acme":      `or group=operator@workspace; put an entry with a comma in double quotes`,
		"team-{workspace}=viewer@A":  "must have {workspace} once in the group and once in the workspace, or in neither",
		"team=viewer@{workspace}":    "must have {workspace} once",
		"{workspace}{workspace}=viewer@{workspace}{workspace}": "must have {workspace} once",
		`"a=viewer@b`:    "a double quote must begin and end an entry",
		`a"=viewer@b`:    "a double quote must begin and end an entry",
		"a\xff=viewer@b": "it must be UTF-8 text",
	} {
		_, err := readRunConfig(t, map[string]string{"PGDISPATCH_AUTH_WORKSPACES": text})
		require.ErrorContains(t, err, "PGDISPATCH_AUTH_WORKSPACES is ", text)
		require.ErrorContains(t, err, remedy, text)
	}
}

func TestRolesInWorkspacesWithoutEffectAreRefused(t *testing.T) {
	t.Parallel()
	roles := func(text string) []WorkspaceRole {
		var all []WorkspaceRole
		require.NoError(t, parseWorkspaceRoles(text, &all))
		return all
	}
	s := SignIn{Workspaces: roles("acme=viewer@Acme")}
	require.ErrorContains(t, Config{SignIn: s}.checkSignIn(), "PGDISPATCH_AUTH_WORKSPACES has no effect: set")
	s.Header, s.Operators, s.Viewers = "X-User", []string{"ops"}, []string{"staff"}
	require.Empty(t, s.checkWorkspaces())
	for text, wrong := range map[string]string{"ops=viewer@A": "PGDISPATCH_AUTH_OPERATORS",
		"ops=operator@A": "PGDISPATCH_AUTH_OPERATORS", "staff=viewer@A": "PGDISPATCH_AUTH_VIEWERS", "staff=operator@A": ""} {
		s.Workspaces = roles(text)
		faults := s.checkWorkspaces()
		if wrong == "" {
			require.Empty(t, faults, "a viewer of all may be an operator of one")
			continue
		}
		require.Len(t, faults, 1)
		require.ErrorContains(t, faults[0], "remove it there, or from "+wrong)
	}
}

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
	c := configured(t, map[string]string{"PGDISPATCH_ADMIN_PATH_PREFIX": "/tools/pgdispatch-1"})
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
	c := must.Get(readRunConfig(t, map[string]string{
		"PGDISPATCH_AUTH_HEADER": "x-user", "PGDISPATCH_AUTH_ROLE_HEADER": "X-Roles",
		"PGDISPATCH_TRUSTED_PROXIES": "10.0.0.7, 10.1.2.3/16,::1",
		"PGDISPATCH_AUTH_OPERATORS":  "ops, sre", "PGDISPATCH_OIDC_ISSUER": "https://login.example.com/realm",
		"PGDISPATCH_OIDC_CLIENT_ID": "web", "PGDISPATCH_OIDC_CLIENT_SECRET": "secret",
		"PGDISPATCH_OIDC_REDIRECT_URL": "https://me.example.com/ui/signin/callback",
	})).In(t)
	require.NoError(t, c.checkSignIn())
	require.Equal(t, "X-User", c.SignIn.Header)
	require.Equal(t, []string{"ops", "sre"}, c.SignIn.Operators)
	require.Equal(t, []string{"viewer"}, c.SignIn.Viewers)
	require.Equal(t, "groups", c.SignIn.RoleClaim)
	require.Equal(t, "[10.0.0.7/32 10.1.0.0/16 ::1/128]", fmt.Sprint(c.SignIn.Proxies))

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
	_, err := readRunConfig(t, map[string]string{"PGDISPATCH_OIDC_SESSION_KEY": "too short"})
	require.ErrorContains(t, err, `PGDISPATCH_OIDC_SESSION_KEY is "***": it must have 32 characters or more`)
}
